// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

const (
	// followInterval is the interval between two reads of new decisions.
	followInterval = time.Second
	// settleTime is how long a decision without a final result is not printed: most pods are bound
	// sooner, and the reason is there a little after the result.
	settleTime = 3 * time.Second
	// maxOpen is how many decisions back such decisions are followed.
	maxOpen = 1000
)

// listDecisions asks for decisions, with parameters in addition to the parameters of the command.
type listDecisions func(ctx context.Context, more map[string]string) (json.RawMessage, *v1alpha1.DecisionList, error)

// follow prints the latest decisions, the oldest first, and then new ones and changed results,
// until the context is done. An error after the first answer is printed once, and livesched asked
// again.
func (o *decisionsOptions) follow(ctx context.Context, list listDecisions) error {
	f := &follower{result: v1alpha1.DecisionResult(o.result)}
	limit := o.limit
	if o.result != "" {
		limit = maxDecisions // the result of some may change to it
	}
	_, first, err := list(ctx, f.parameters(limit))
	if err != nil {
		return err
	}
	if first.NodesHidden {
		_, _ = fmt.Fprintln(o.ErrOut, print.NodesHidden)
	}
	table := o.table(first.NodesHidden)
	decisions := f.begin(first)
	if err := o.printPart(table, decisions[max(0, len(decisions)-o.limit):]); err != nil {
		return err
	}
	lastFailure := ""
	err = wait.PollUntilContextCancel(ctx, followInterval, false, func(ctx context.Context) (done bool, err error) {
		_, next, err := list(ctx, f.parameters(maxDecisions))
		switch {
		case ctx.Err() != nil:
			return true, nil
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return false, err
		case err != nil:
			if err.Error() != lastFailure {
				_, _ = fmt.Fprintf(o.ErrOut, "error: %v\n", err)
			}
			lastFailure = err.Error()
			return false, nil
		}
		lastFailure = ""
		decisions, note := f.next(next, time.Now())
		if note != "" {
			_, _ = fmt.Fprintln(o.ErrOut, note)
		}
		return false, o.printPart(table, decisions)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follower knows which decisions have been printed.
type follower struct {
	// result is the result of the decisions to print, "" for all.
	result v1alpha1.DecisionResult
	// latest is the number of the latest decision that was read. No decision up to the number after
	// changes any more.
	latest, after int64
	known         map[int64]*followed
}

// followed is a decision after follower.after.
type followed struct {
	seen    time.Time
	printed v1alpha1.DecisionResult
}

// parameters returns the parameters of the next list.
func (f *follower) parameters(limit int) map[string]string {
	return map[string]string{"after": strconv.FormatInt(f.after, 10), "limit": strconv.Itoa(limit), "result": ""}
}

// begin returns the decisions of the first list, the oldest first.
func (f *follower) begin(list *v1alpha1.DecisionList) []v1alpha1.Decision {
	decisions, _ := f.next(list, time.Time{}) // none of them is new
	f.latest = list.Latest
	return decisions
}

// next returns what to print of the decisions in a list, the oldest first, and a note for the user.
func (f *follower) next(list *v1alpha1.DecisionList, now time.Time) (decisions []v1alpha1.Decision, note string) {
	if list.Latest < f.latest {
		*f = follower{result: f.result}
		return nil, "Another replica leads now, or the leader has restarted: these are its decisions."
	}
	if len(list.Items) >= maxDecisions && !now.IsZero() {
		note = "Some decisions are left out: there are too many at once."
	}
	known := map[int64]*followed{}
	after := list.Latest
	for i := range slices.Backward(list.Items) {
		d := &list.Items[i]
		k := f.known[d.Number]
		if k == nil {
			k = &followed{seen: now}
		}
		known[d.Number] = k
		if k.printed != d.Result && (isFinal(d) || now.IsZero() || now.Sub(k.seen) >= settleTime) {
			k.printed = d.Result
			if f.result == "" || f.result == d.Result {
				decisions = append(decisions, *d)
			}
		}
		if (d.Result == v1alpha1.DecisionBinding || k.printed == "") && d.Number > list.Latest-maxOpen {
			after = min(after, d.Number-1)
		}
	}
	f.latest, f.after, f.known = list.Latest, after, known
	return decisions, note
}

// isFinal returns whether a decision will not change.
func isFinal(d *v1alpha1.Decision) bool {
	return d.Result == v1alpha1.DecisionBound || d.Result != v1alpha1.DecisionBinding && d.Message != ""
}

// printPart prints the next decisions.
func (o *decisionsOptions) printPart(table *print.DecisionTable, decisions []v1alpha1.Decision) error {
	if !print.IsData(o.output) {
		return table.PrintPart(o.Out, decisions)
	}
	for i := range decisions {
		if o.output == print.YAML {
			_, _ = fmt.Fprintln(o.Out, "---")
		}
		if err := print.As(o.Out, o.output, &decisions[i]); err != nil {
			return err
		}
		if print.IsTemplate(o.output) { // which ends no line
			_, _ = fmt.Fprintln(o.Out)
		}
	}
	return nil
}
