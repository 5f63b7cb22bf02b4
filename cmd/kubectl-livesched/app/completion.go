// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/nodepool"
)

// completionTimeout limits the time that a shell waits for names.
const completionTimeout = 5 * time.Second

// kubectlCompletion is the file that kubectl runs to complete `kubectl livesched`.
const kubectlCompletion = "#!/bin/sh\nexec kubectl-livesched __complete \"$@\"\n"

// complete returns the values of an argument or a flag, of which the shell shows the ones that
// begin with the word under the cursor. Without an answer from the cluster there are none.
type complete func(ctx context.Context, command *cobra.Command, args []string,
	word string) ([]string, cobra.ShellCompDirective)

// addCompletions completes names in arguments and flags, and adds the script for kubectl to the
// command `completion`.
func (o *options) addCompletions(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.AddCommand(newKubectlCompletion())
	}
	nothing := fixed(0)
	arguments := map[string]complete{
		"status": o.profileArguments, "diff": atMost(2, o.revisedObjects), "history": atMost(2, o.revisedObjects),
		"rollback": atMost(2, o.revisedObjects),
		"explain":  o.podsAndOwners, "decisions": o.podsAndGroups, "capacity": o.podsAndOwners,
		"simulate": o.podsAndOwners,
		"doctor":   nothing, "validate": nothing, "convert": nothing, "snapshot": nothing, "top": nothing,
	}
	for _, command := range root.Commands() {
		if names := arguments[command.Name()]; names != nil && command.ValidArgsFunction == nil {
			command.ValidArgsFunction = function(names)
		}
		for flag, values := range o.flagValues() {
			if _, done := command.GetFlagCompletionFunc(flag); command.LocalFlags().Lookup(flag) != nil && !done {
				_ = command.RegisterFlagCompletionFunc(flag, function(values)) // fails only if the flag does not exist
			}
		}
	}
	for flag, values := range o.flagValues() {
		if root.PersistentFlags().Lookup(flag) != nil {
			_ = root.RegisterFlagCompletionFunc(flag, function(values))
		}
	}
	if rollback, _, err := root.Find([]string{"rollback"}); err == nil {
		_ = rollback.RegisterFlagCompletionFunc("policy",
			cobra.FixedCompletions([]string{"keep", "restore"}, cobra.ShellCompDirectiveNoFileComp))
	}
}

// flagValues returns the values of flags by their names, which are the same for all commands.
func (o *options) flagValues() map[string]complete {
	profiles := o.named(v1alpha1.GroupVersion.WithKind(history.KindProfile))
	return map[string]complete{
		"context": o.configured(func(c *api.Config) []string {
			return slices.Collect(maps.Keys(c.Contexts))
		}),
		"cluster": o.configured(func(c *api.Config) []string {
			return slices.Collect(maps.Keys(c.Clusters))
		}),
		"user": o.configured(func(c *api.Config) []string {
			return slices.Collect(maps.Keys(c.AuthInfos))
		}),
		"namespace":           o.named(corev1.SchemeGroupVersion.WithKind("Namespace")),
		"livesched-namespace": o.named(corev1.SchemeGroupVersion.WithKind("Namespace")),
		"node":                o.named(corev1.SchemeGroupVersion.WithKind("Node")),
		"remove-nodes":        o.named(corev1.SchemeGroupVersion.WithKind("Node")),
		"add-nodes":           o.nodesToAdd,
		"profile":             profiles,
		"scheduler-name":      profiles,
		"pods":                fixed(cobra.ShellCompDirectiveNoSpace, "all", "last=", "pending"),
		"result":              fixed(0, v1alpha1.DecisionResultNames...),
		"revision":            o.revisionNumbers,
		"to-revision":         o.revisionNumbers,
		"from":                o.revisionNumbers,
		"to":                  o.revisionNumbers,
	}
}

func newKubectlCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl",
		Short: "Print the file kubectl_complete-livesched, with which kubectl completes this plugin",
		Long: "Print the file kubectl_complete-livesched. If it is executable and in your PATH, kubectl's own " +
			"completion also completes " +
			"`kubectl livesched`. It is a shell script, for Linux and macOS.",
		Example: "  kubectl livesched completion kubectl > ~/.local/bin/kubectl_complete-livesched\n" +
			"  chmod +x ~/.local/bin/kubectl_complete-livesched",
		Args:                  cobra.NoArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := io.WriteString(command.OutOrStdout(), kubectlCompletion)
			return err
		},
	}
}

// function makes a completion function of values. It leaves out the arguments that are there.
func function(values complete) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		all, directive := values(ctx, command, args, word)
		given := sets.New(args...)
		all = slices.DeleteFunc(all,
			func(value string) bool { return !strings.HasPrefix(value, word) || given.Has(value) })
		slices.Sort(all)
		return slices.Compact(all), directive | cobra.ShellCompDirectiveNoFileComp
	}
}

// fixed completes words that do not depend on the cluster. Without words, it completes an argument
// that is a new name, or a command without arguments.
func fixed(directive cobra.ShellCompDirective, words ...string) complete {
	return func(context.Context, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return slices.Clone(words), directive
	}
}

// atMost completes up to a number of arguments, of which KIND/NAME counts as two.
func atMost(count int, values complete) complete {
	return func(ctx context.Context, command *cobra.Command, args []string,
		word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= count || len(args) > 0 && strings.Contains(args[0], "/") {
			return nil, 0
		}
		return values(ctx, command, args, word)
	}
}

// configured completes names of the kubeconfig.
func (o *options) configured(names func(*api.Config) []string) complete {
	return func(context.Context, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := o.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, 0
		}
		return names(&config), 0
	}
}

// named completes the names of objects without a namespace.
func (o *options) named(kind schema.GroupVersionKind) complete {
	return func(ctx context.Context, _ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		// A flag that takes several values separated by commas completes the last one.
		prefix := word[:strings.LastIndex(word, ",")+1]
		return prefixed(prefix, o.objectNames(ctx, kind, "")), 0
	}
}

// profileArguments completes the names of profiles, as NAME or as profile/NAME.
func (o *options) profileArguments(ctx context.Context, _ *cobra.Command, _ []string,
	word string) ([]string, cobra.ShellCompDirective) {
	prefix := ""
	if kind, _, found := strings.Cut(word, "/"); found && kindNamed(kind) == history.KindProfile {
		prefix = kind + "/"
	}
	return prefixed(prefix, o.namesOf(ctx, history.KindProfile)), 0
}

// revisedObjects completes NAME, profile/NAME and policy/NAME, and these as two arguments.
func (o *options) revisedObjects(ctx context.Context, _ *cobra.Command, args []string,
	word string) ([]string, cobra.ShellCompDirective) {
	kind, _, found := strings.Cut(word, "/")
	switch {
	case len(args) == 1:
		return o.namesOf(ctx, kindNamed(args[0])), 0
	case found:
		return prefixed(kind+"/", o.namesOf(ctx, kindNamed(kind))), 0
	}
	names := append(o.namesOf(ctx, history.KindProfile), o.namesOf(ctx, history.KindPolicy)...)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	if len(names) > 0 {
		return append(names, "profile/", "policy/"), 0
	}
	return []string{"profile/", "policy/"}, cobra.ShellCompDirectiveNoSpace
}

// namesOf returns the names of profiles or policies.
func (o *options) namesOf(ctx context.Context, kind string) []string {
	return o.objectNames(ctx, v1alpha1.GroupVersion.WithKind(kind), "")
}

// revisionNumbers completes the numbers of the revisions of the object that the arguments name.
func (o *options) revisionNumbers(ctx context.Context, _ *cobra.Command, args []string,
	_ string) ([]string, cobra.ShellCompDirective) {
	_, p, err := o.past(ctx, args)
	if err != nil || len(p.revisions) == 0 {
		return nil, 0
	}
	return strings.Split(p.numbers(), ", "), 0
}

// nodesToAdd completes POOL= and NODE=.
func (o *options) nodesToAdd(ctx context.Context, _ *cobra.Command, _ []string,
	_ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, node := range o.objects(ctx, corev1.SchemeGroupVersion.WithKind("Node"), "") {
		names = append(names, node.Name+"=")
		if pool := nodepool.Of(&corev1.Node{ObjectMeta: node.ObjectMeta}); pool != nodepool.None {
			names = append(names, pool+"=")
		}
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// objectNames returns the names of the objects of a kind.
func (o *options) objectNames(ctx context.Context, kind schema.GroupVersionKind, namespace string) []string {
	var names []string
	for _, object := range o.objects(ctx, kind, namespace) {
		names = append(names, object.Name)
	}
	return names
}

// objects returns the metadata of the objects of a kind, nothing if they cannot be read.
func (o *options) objects(ctx context.Context, kind schema.GroupVersionKind,
	namespace string) []metav1.PartialObjectMetadata {
	c, err := o.client()
	if err != nil {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	return list.Items
}

func prefixed(prefix string, names []string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}

// podOwners are the kinds that stand before a slash in arguments that name pods. Other kinds, also
// custom ones, are completed once the user has typed them.
var podOwners = []string{"cronjob/", "daemonset/", "deployment/", "job/", "pod/", "podgroup/", "replicaset/",
	"statefulset/"}

// podsAndGroups completes pod/NAME and podgroup/NAME, and these as two arguments.
func (o *options) podsAndGroups(ctx context.Context, command *cobra.Command, args []string,
	word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 && !strings.Contains(word, "/") {
		return []string{"pod/", "podgroup/"}, cobra.ShellCompDirectiveNoSpace
	}
	return o.podsAndOwners(ctx, command, args, word)
}

// podsAndOwners completes KIND/NAME in the namespace of the command, and KIND NAME.
func (o *options) podsAndOwners(ctx context.Context, command *cobra.Command, args []string,
	word string) ([]string, cobra.ShellCompDirective) {
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

// templateNames completes the names of the pod templates in the files or the object of a capacity.
func (o *capacityOptions) templateNames(_ context.Context, _ *cobra.Command, args []string,
	_ string) ([]string, cobra.ShellCompDirective) {
	if len(args)+len(o.files) == 0 || slices.Contains(o.files, "-") { // not what the user types next
		return nil, 0
	}
	slices.Sort(o.files)
	o.files = slices.Compact(o.files) // cobra parses flags twice to complete one
	documents, _, err := o.documents(args)
	if err != nil {
		return nil, 0
	}
	return namesOfTemplates(podTemplatesIn(documents)), 0
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
