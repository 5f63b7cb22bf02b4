// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestRefusalsNameARole(t *testing.T) {
	refused := func(group, resource string) error {
		return fmt.Errorf("reading: %w",
			apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "x", errors.New("no")))
	}
	for name, test := range map[string]struct {
		err  error
		want string // "" if nothing is added
	}{
		"a snapshot": {refused(v1alpha1.GroupVersion.Group, "snapshots"),
			": the ClusterRole livesched-debugger permits it, with a ClusterRoleBinding"},
		"an explanation": {refused(v1alpha1.GroupVersion.Group, "podexplanations"),
			": the ClusterRole livesched-viewer permits it"},
		"all namespaces": {
			apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "simulations"},
				"", errors.New("cannot create it at the cluster scope")),
			": the ClusterRole livesched-viewer permits it; with -n NAMESPACE, a RoleBinding in that namespace is " +
				"enough",
		},
		"profiles": {refused(v1alpha1.GroupVersion.Group, "schedulerprofiles"),
			"livesched-profile-editor changing them, with a ClusterRoleBinding"},
		"revisions": {refused("apps", "controllerrevisions"),
			": the ClusterRole view of Kubernetes permits listing them, with a RoleBinding in livesched's namespace"},
		"something else":   {refused("", "pods"), ""},
		"something unique": {refused("apps", "deployments"), ""},
		"no refusal": {apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group,
			Resource: "snapshots"}, "x"), ""},
	} {
		got := WithRole(test.err)
		if again := WithRole(got); again.Error() != got.Error() {
			t.Errorf("%s: the role is added twice: %v", name, again)
		}
		if added := strings.TrimPrefix(got.Error(), test.err.Error()); !strings.HasSuffix(added, test.want) ||
			test.want == "" && added != "" || !errors.Is(got, test.err) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if WithRole(nil) != nil {
		t.Error("an error without a cause")
	}
}

// TestTheRolesExist looks for the roles in the manifests, with the resources that they permit.
func TestTheRolesExist(t *testing.T) {
	files, err := filepath.Glob("../../../../config/rbac/*_role.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	role := regexp.MustCompile(`livesched-[a-z-]+`)
	for resource, grant := range grants {
		for _, name := range role.FindAllString(grant, -1) {
			found := false
			for _, text := range texts {
				found = found || strings.Contains(text, "name: "+name+"\n") && strings.Contains(text, resource)
			}
			if !found {
				t.Errorf("%s: no role %s permits it", resource, name)
			}
		}
	}
}
