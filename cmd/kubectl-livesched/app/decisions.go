// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

type decisionsOptions struct {
	*options
	livesched     remoteOptions
	namespace     string
	allNamespaces bool
	limit         int
	output        string
}

func newDecisions(shared *options) *cobra.Command {
	o := &decisionsOptions{options: shared}
	command := &cobra.Command{
		Use:   "decisions",
		Short: "List the latest decisions of the scheduler",
		Long: "List the latest decisions of the scheduler, the last one first: which node each pod got, of how many that it fitted, with which score, " +
			"and by which revision of which profile. The leader keeps the last 65,536 in memory, unless its flag --decision-log-size says otherwise.\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the permission to list " +
			"decisions.livesched.io in the namespace of the pods, which the ClusterRole view includes. The names of nodes are shown only to those who may list nodes.",
		Example: "  kubectl livesched decisions -n ml\n\n  kubectl livesched decisions -A --limit 1000 -o json",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the pods. Default: that of your context.")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List decisions about the pods of all namespaces, and about those that are gone.")
	flags.IntVar(&o.limit, "limit", 20, "Largest number of decisions, at most 10000.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *decisionsOptions) run(ctx context.Context) (err error) {
	if err := o.livesched.check(); err != nil {
		return err
	}
	namespace := o.namespace
	switch {
	case o.allNamespaces && namespace != "":
		return errors.New("--namespace and --all-namespaces: only one of them is allowed")
	case !o.allNamespaces && namespace == "":
		if namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(config.Timeout, answerTimeout))
	defer cancel()
	livesched := &remote.Livesched{
		Config: config, Namespace: o.liveschedNamespace, Lease: o.livesched.lease, URL: o.livesched.url, CAFile: o.livesched.ca,
	}
	text, err := livesched.List(ctx, "decisions", namespace, map[string]string{"limit": strconv.Itoa(o.limit)})
	if err != nil {
		return err
	}
	if o.output != "" {
		return writeAnswer(o.Out, o.output, text)
	}
	var list v1alpha1.DecisionList
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("reading the answer of livesched: %w", err)
	}
	return printDecisions(o.Out, list.Items, o.allNamespaces, time.Now())
}

// printDecisions prints decisions for people.
func printDecisions(w io.Writer, decisions []v1alpha1.Decision, namespaces bool, now time.Time) error {
	if len(decisions) == 0 {
		writeLine(w, "There are no decisions since the leader began.")
		return nil
	}
	header := []string{"AGE", "POD", "RESULT", "NODE", "FITS", "SCORE", "TIED", "TRY", "PROFILE"}
	var rows [][]string
	for i := range decisions {
		d := &decisions[i]
		pod, score, tied := cmp.Or(d.Pod, string(d.PodUID)), none, none
		if namespaces && d.Pod != "" {
			pod = d.Namespace + "/" + d.Pod
		}
		if d.Tied > 0 {
			score, tied = strconv.FormatInt(d.Total, 10), strconv.Itoa(int(d.Tied))
		}
		rows = append(rows, []string{
			duration.HumanDuration(now.Sub(d.Time.Time)), pod, string(d.Result), cmp.Or(d.Node, none), fmt.Sprintf("%d/%d", d.Feasible, d.Nodes), score, tied,
			strconv.Itoa(int(d.Attempt)), d.Profile + "@" + d.Revision,
		})
	}
	return writeTable(w, header, rows)
}
