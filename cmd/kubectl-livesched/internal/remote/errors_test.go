// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAForbiddenAnswerNamesTheRoleThatPermitsIt(t *testing.T) {
	for resource, want := range map[schema.GroupResource]string{
		{Group: "livesched.io",
			Resource: "queues"}: ": the ClusterRole livesched-viewer permits it, with a ClusterRoleBinding",
		{Group: "livesched.io",
			Resource: "snapshots"}: ": the ClusterRole livesched-debugger permits it, with a ClusterRoleBinding",
		{Resource: "nodes"}: "you may not list nodes",
	} {
		forbidden := apierrors.NewForbidden(resource, "", errors.New("you may not list "+resource.Resource))
		got := describe(forbidden, "livesched")
		if !apierrors.IsForbidden(got) || !strings.HasSuffix(got.Error(), want) {
			t.Errorf("%v: %v", resource, got)
		}
	}
}
