// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/suggest"
)

// kinds maps the names of kinds on the command line to kinds.
var kinds = map[string]string{
	"profile": history.KindProfile, "profiles": history.KindProfile, "sprof": history.KindProfile,
	"schedulerprofile": history.KindProfile, "schedulerprofiles": history.KindProfile,
	"policy": history.KindPolicy, "policies": history.KindPolicy, "spol": history.KindPolicy,
	"schedulingpolicy": history.KindPolicy, "schedulingpolicies": history.KindPolicy,
}

// kindNamed returns the kind that a word names, such as sprof, Profile or, as kubectl prints it,
// schedulerprofile.livesched.io. It returns "" for other words.
func kindNamed(word string) string {
	word = strings.TrimSuffix(strings.ToLower(word), "."+v1alpha1.GroupVersion.Group)
	return kinds[strings.TrimSuffix(word, "."+v1alpha1.GroupVersion.Version)]
}

// objectUsage is the argument of the commands that take a profile or a policy.
const objectUsage = "(NAME | profile/NAME | policy/NAME)"

// objectName is an object on the command line.
type objectName struct {
	// kind is empty if only a name was given: see resolve.
	kind, name string
}

// The kinds that commands about pods treat in a special way.
const (
	kindPod      = "pod"
	kindPodGroup = "podgroup"
)

// cutName splits the arguments KIND/NAME or KIND NAME. It replaces the names that users have for
// kindPod and kindPodGroup.
func cutName(args []string) (n objectName, found bool) {
	n.kind, n.name, found = strings.Cut(strings.Join(args, "/"), "/")
	kind, _, _ := strings.Cut(strings.ToLower(n.kind), ".") // without an API group
	switch kind {
	case "pod", "pods", "po":
		n.kind = kindPod
	case "podgroup", "podgroups", "pg":
		n.kind = kindPodGroup
	}
	return n, found
}

// isOne reports whether the name is the name of one object.
func (n objectName) isOne() bool { return n.name != "" && !strings.Contains(n.name, "/") }

func (n objectName) String() string { return n.kind + "/" + n.name }

// parseObjectName parses the arguments NAME, KIND/NAME or KIND NAME.
func parseObjectName(args []string) (objectName, error) {
	words := slices.Clone(args)
	if len(args) == 1 {
		words = strings.SplitN(args[0], "/", 2)
	}
	switch {
	case len(words) == 0 || len(words) == 1 && words[0] == "":
		return objectName{}, errors.New("specify a profile or policy: NAME, profile/NAME or policy/NAME")
	case len(words) == 1 && kindNamed(words[0]) != "":
		return objectName{}, fmt.Errorf("specify the name of the %[1]s: %[1]s/NAME", words[0])
	case len(words) == 1:
		return objectName{name: words[0]}, nil
	case len(words) > 2 || len(args) == 2 && strings.Contains(args[0]+args[1], "/"):
		return objectName{}, fmt.Errorf("specify one profile or policy, not %s: NAME, profile/NAME or policy/NAME",
			strings.Join(args, " "))
	}
	kind := kindNamed(words[0])
	switch {
	case kind == "":
		return objectName{}, fmt.Errorf("unknown kind %q: must be profile (sprof) or policy (spol)%s", words[0],
			suggest.DidYouMean(words[0], []string{"profile", "policy", "sprof", "spol"}))
	case words[1] == "":
		return objectName{}, fmt.Errorf("specify the name of the %[1]s: %[1]s/NAME", words[0])
	}
	return objectName{kind: kind, name: words[1]}, nil
}

// profilesNamed returns the names in the arguments NAME, profile/NAME and sprof/NAME.
func profilesNamed(args []string) (names []string, err error) {
	for _, arg := range args {
		n, err := parseObjectName([]string{arg})
		switch {
		case err != nil:
			return nil, err
		case n.kind == history.KindPolicy:
			return nil, fmt.Errorf("%q: must name a profile, as NAME, profile/NAME or sprof/NAME", arg)
		}
		names = append(names, n.name)
	}
	return names, nil
}

// oneObject requires the arguments of parseObjectName.
func oneObject(_ *cobra.Command, args []string) error {
	_, err := parseObjectName(args)
	return err
}

// resolve finds out the kind of an object of which only the name was given.
func (n objectName) resolve(ctx context.Context, c client.Client) (objectName, error) {
	if n.kind != "" {
		return n, nil
	}
	var found []string
	for kind, object := range map[string]client.Object{history.KindProfile: &v1alpha1.SchedulerProfile{},
		history.KindPolicy: &v1alpha1.SchedulingPolicy{}} {
		switch err := c.Get(ctx, client.ObjectKey{Name: n.name}, object); {
		case err == nil:
			found = append(found, kind)
		case !apierrors.IsNotFound(err):
			return n, err
		}
	}
	switch len(found) {
	case 0:
		return n, n.notFound(ctx, c)
	case 1:
		n.kind = found[0]
		return n, nil
	}
	return n, fmt.Errorf("%[1]q is a SchedulerProfile and a SchedulingPolicy: specify profile/%[1]s or policy/%[1]s",
		n.name)
}

// notFound returns the error about an object that does not exist, with the names that may be meant.
func (n objectName) notFound(ctx context.Context, c client.Client) error {
	what, from := n.kind, []string{n.kind}
	if n.kind == "" {
		what, from = history.KindProfile+" or "+history.KindPolicy, []string{history.KindProfile, history.KindPolicy}
	}
	var names []string
	for _, kind := range from {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := c.List(ctx, list); err != nil {
			continue // without the permission to list, there are no suggestions
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return fmt.Errorf("%s %q not found%s", what, n.name, suggest.DidYouMean(n.name, names))
}
