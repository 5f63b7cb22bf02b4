// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// podOwners are the kinds that stand before a slash in arguments that name pods. Other kinds, also
// custom ones, are completed once the user has typed them.
var podOwners = []string{"cronjob/", "daemonset/", "deployment/", "job/", "pod/", "podgroup/", "replicaset/", "statefulset/"}

// podsAndGroups completes pod/NAME and podgroup/NAME, and these as two arguments.
func (o *options) podsAndGroups(ctx context.Context, command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 && !strings.Contains(word, "/") {
		return []string{"pod/", "podgroup/"}, cobra.ShellCompDirectiveNoSpace
	}
	return o.podsAndOwners(ctx, command, args, word)
}

// podsAndOwners completes KIND/NAME in the namespace of the command, and KIND NAME.
func (o *options) podsAndOwners(ctx context.Context, command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, found := strings.Cut(word, "/")
	prefix := kind + "/"
	switch {
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		kind, prefix = args[0], ""
	case len(args) > 0:
		return nil, 0
	case !found:
		return podOwners, cobra.ShellCompDirectiveNoSpace
	}
	namespace := ""
	if flag := command.Flags().Lookup("namespace"); flag != nil {
		namespace = flag.Value.String()
	}
	if namespace == "" {
		var err error
		if namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return nil, 0
		}
	}
	var names []string
	for _, found := range o.kindsNamed(kind) {
		names = append(names, o.objectNames(ctx, found, namespace)...)
	}
	return prefixed(prefix, names), 0
}

// kindsNamed returns the kinds that a user calls by a name, such as deploy or deployments.apps: of
// PodGroups, there are two.
func (o *options) kindsNamed(name string) []schema.GroupVersionKind {
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return nil
	}
	found, err := mapper.KindsFor(schema.ParseGroupResource(name).WithVersion(""))
	if err != nil {
		return nil
	}
	seen := sets.New[schema.GroupKind]()
	return slices.DeleteFunc(found, func(kind schema.GroupVersionKind) bool {
		another := seen.Has(kind.GroupKind()) // in another version
		seen.Insert(kind.GroupKind())
		return another
	})
}
