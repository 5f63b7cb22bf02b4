// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/suggest"
)

// maxDecisions is the most that livesched lists at once.
const maxDecisions = 10000

type decisionsOptions struct {
	*options
	livesched     remoteOptions
	namespace     string
	allNamespaces bool
	limit         int
	result        string
	profile       string
	node          string
	watch         bool
	output        string
}

func newDecisions(shared *options) *cobra.Command {
	o := &decisionsOptions{options: shared}
	command := &cobra.Command{
		Use:   "decisions [pod/NAME | podgroup/NAME]",
		Short: "List the latest decisions of the scheduler",
		Long: "List the latest decisions of the scheduler, the last one first: which node each pod got, of how many " +
			"that it fitted, or why it got none. " +
			"With a name, list those about a pod, or about a pod group and its pods. A row stands for all decisions " +
			"about a pod that follow each other and are " +
			"alike, such as Unschedulable x12. With -o wide, rows have the score, the attempt and the revision of " +
			"the profile, and nothing is shortened.\n\n" +
			"The leader keeps the last 65,536 decisions in memory, unless its flag --decision-log-size has another " +
			"value.\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the " +
			"permission to list " +
			"decisions.livesched.io in the namespace of the pods, which the ClusterRole view includes. The names of " +
			"nodes are shown only to those who may list nodes.",
		Example: "  kubectl livesched decisions -n ml\n\n  kubectl livesched decisions pod/train-7 -n ml\n\n" +
			"  # Pods that got no node, as it happens\n  kubectl livesched decisions -A --result Unschedulable " +
			"--watch\n\n" +
			"  kubectl livesched decisions -A --profile gpu --limit 1000 -o json",
		Args: cobra.ArbitraryArgs, // named checks them
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"Namespace of the pods. Default: the namespace of your context.")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List decisions about the pods of all namespaces.")
	flags.IntVar(&o.limit, "limit", 20,
		"Largest number of rows, or with -o json and the like of decisions, from 1 to 10000.")
	flags.StringVar(&o.result, "result", "", "List decisions with this result: "+
		suggest.OneOf(v1alpha1.DecisionResultNames)+".")
	flags.StringVar(&o.profile, "profile", "", "List decisions by this SchedulerProfile.")
	flags.StringVar(&o.node, "node", "", "List decisions for this node. You must be permitted to list nodes.")
	flags.BoolVarP(&o.watch, "watch", "w", false,
		"List the decisions in the order in which they were made, and then each new one, until interrupted.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Wide)
	return command
}

func (o *decisionsOptions) run(ctx context.Context, args []string) error {
	parameters, err := o.parameters(args)
	if err != nil {
		return err
	}
	switch {
	case o.allNamespaces && o.namespace != "":
		return errors.New("--all-namespaces: must not be set with --namespace")
	case !o.allNamespaces:
		if o.namespace, err = o.namespaceOr(o.namespace); err != nil {
			return err
		}
	}
	list := func(ctx context.Context, more map[string]string) (json.RawMessage, *v1alpha1.DecisionList, error) {
		all := maps.Clone(parameters)
		maps.Copy(all, more)
		return o.list(ctx, all)
	}
	if o.watch {
		return o.follow(ctx, list)
	}
	if print.IsData(o.output) {
		text, _, err := list(ctx, nil)
		if err != nil {
			return err
		}
		return print.As(o.Out, o.output, text)
	}
	_, decisions, err := list(ctx, map[string]string{"collapse": "true"})
	if err != nil {
		return err
	}
	if len(decisions.Items) == 0 {
		print.Line(o.Out, o.noDecisions(args))
		return nil
	}
	return o.table(decisions.NodesHidden).Print(o.Out, decisions.Items, time.Now())
}

// parameters returns the parameters of the list that the arguments and flags describe.
func (o *decisionsOptions) parameters(args []string) (map[string]string, error) {
	kind, name, err := decidedName(args)
	if err != nil {
		return nil, err
	}
	if o.limit < 1 || o.limit > maxDecisions {
		return nil, fmt.Errorf("--limit: must be from 1 to %d, not %d", maxDecisions, o.limit)
	}
	if o.result, err = resultNamed(o.result); err != nil {
		return nil, err
	}
	parameters := map[string]string{"limit": strconv.Itoa(o.limit)}
	for key, value := range map[string]string{kind: name, "result": o.result, "profile": o.profile, "node": o.node} {
		if value != "" {
			parameters[key] = value
		}
	}
	return parameters, nil
}

// decidedName returns the parameter of the list that the arguments pod/NAME, podgroup/NAME, or
// these as two arguments, stand for, and its value. Without arguments, both are "".
func decidedName(args []string) (parameter, name string, err error) {
	if len(args) == 0 {
		return "", "", nil
	}
	n, found := cutName(args)
	parameter, known := map[string]string{kindPod: "pod", kindPodGroup: "podGroup"}[n.kind]
	all := strings.Join(args, " ")
	switch {
	case known && n.isOne():
		return parameter, n.name, nil
	case known:
		err = fmt.Errorf("%q: must be pod/NAME or podgroup/NAME, with one name", all)
	case !found:
		err = fmt.Errorf("%[1]q has no type: use pod/%[1]s or podgroup/%[1]s", all)
	default:
		err = fmt.Errorf("%q: must be pod/NAME or podgroup/NAME%s", all,
			suggest.DidYouMean(strings.ToLower(n.kind), []string{kindPod, kindPodGroup}))
	}
	return "", "", err
}

// resultNamed returns the result that a user calls by a name, whatever its case.
func resultNamed(name string) (string, error) {
	for _, result := range v1alpha1.DecisionResultNames {
		if strings.EqualFold(result, name) {
			return result, nil
		}
	}
	if name == "" {
		return "", nil
	}
	return "", fmt.Errorf("--result: must be %s, not %q%s", suggest.OneOf(v1alpha1.DecisionResultNames), name,
		suggest.DidYouMean(name, v1alpha1.DecisionResultNames))
}

// list asks livesched for decisions. It returns the answer as it is, too.
func (o *decisionsOptions) list(ctx context.Context,
	parameters map[string]string) (json.RawMessage, *v1alpha1.DecisionList, error) {
	livesched, err := o.remote(&o.livesched, answerTimeout)
	if err != nil {
		return nil, nil, err
	}
	var list v1alpha1.DecisionList
	text, err := livesched.List(ctx, "decisions", o.namespace, parameters, &list)
	if err == nil && len(list.Items) > 0 && list.Latest == 0 && (o.watch || o.selects(parameters)) {
		err = errors.New("this livesched is older than this plugin, and lists the decisions about all pods only")
	}
	return text, &list, err
}

// selects returns whether parameters select some of the decisions of a namespace.
func (o *decisionsOptions) selects(parameters map[string]string) bool {
	for key := range parameters {
		if key != "limit" && key != "collapse" {
			return true
		}
	}
	return false
}

// noDecisions returns the text that is printed if there are no decisions.
func (o *decisionsOptions) noDecisions(args []string) string {
	text := "There are no decisions"
	if len(args) > 0 {
		text += " about " + strings.Join(args, "/")
	}
	if !o.allNamespaces {
		text += " in namespace " + o.namespace
	}
	var flags []string
	for _, flag := range [...]struct{ name, value string }{{"--result", o.result}, {"--profile", o.profile},
		{"--node", o.node}} {
		if flag.value != "" {
			flags = append(flags, flag.name+" "+flag.value)
		}
	}
	if len(flags) > 0 {
		text += " with " + strings.Join(flags, " and ")
	}
	return text + " since the leader began."
}

// table returns the table of decisions, without nodes for users who may not list nodes.
func (o *decisionsOptions) table(nodesHidden bool) *print.DecisionTable {
	return &print.DecisionTable{Namespaces: o.allNamespaces, Wide: o.output == print.Wide, Hidden: nodesHidden}
}
