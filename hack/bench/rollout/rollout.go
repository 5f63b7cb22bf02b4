// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout simulates roll-outs with livesched's state machine and evidence:
//
//	harmless   a new revision that is as good as the old one: how often is it aborted?
//	harmful    a new revision that makes owners fail: after how many of them is it aborted?
//
// The seed and the index of a roll-out alone determine the owners that arrive in it.
package rollout

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/internal/rollout"
)

const (
	// seed is the one of all figures.
	seed = 1
	// minOwners and odds are the defaults of spec.rollout.canary.analysis.
	minOwners, odds = 3, 100
	// podsOfOwner is the number of pods of an owner. They fail together.
	podsOfOwner = 10
	// stableFails is the percentage of owners that fail with the old revision, which a harmful one
	// is compared with.
	stableFails = 2
	// maxOwners ends a roll-out of a harmful revision that is neither promoted nor aborted.
	maxOwners = 20_000
)

// The labels and values of rows. Percentages and odds are written as numbers.
const (
	study        = "study"
	harmless     = "harmless"
	harmful      = "harmful"
	judge        = "judge"
	failing      = "failing %"
	against      = "odds"
	weight       = "weight %"
	aborted      = "aborted %"
	inconclusive = "inconclusive %"
	median       = "owners p50"
	most         = "owners p90"
)

const (
	livesched = "livesched"
	zTest     = "z-test on pods"
)

type options struct{ rollouts int }

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "How often roll-outs are aborted, and how early, simulated",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(func() error { return report.Positive("rollouts", o.rollouts) }, o.run, Tables),
	}
	cmd.Flags().IntVar(&o.rollouts, "rollouts", 1000, "roll-outs for each figure")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) run(ctx context.Context, r *report.Report) error {
	for _, fails := range []int{2, 20, 50} {
		for _, odds := range []int{10, 20, 50, 100, 300, 1000} {
			for _, judged := range []string{livesched, zTest} {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				labels := map[string]string{study: harmless, judge: judged, failing: strconv.Itoa(fails),
					against: strconv.Itoa(odds)}
				ends := o.each(func(random *rand.Rand) end { return rollOutHarmless(random, judged, fails, odds) })
				if err := r.Add(labels, ends.values()); err != nil {
					return err
				}
			}
		}
	}
	for _, percent := range []int{5, 50} {
		for _, fails := range []int{5, 10, 20, 50, 100} {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			labels := map[string]string{study: harmful, weight: strconv.Itoa(percent), failing: strconv.Itoa(fails)}
			ends := o.each(func(random *rand.Rand) end { return rollOutHarmful(random, percent, fails) })
			if err := r.Add(labels, ends.values()); err != nil {
				return err
			}
		}
	}
	return nil
}

// end is the end of one roll-out.
type end struct {
	stage rollout.Stage
	// owners is how many had the new revision.
	owners int
}

type ends []end

// each runs as many roll-outs as are asked for.
func (o *options) each(rollOut func(*rand.Rand) end) ends {
	all := make(ends, o.rollouts)
	var workers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for first := range n {
		workers.Go(func() {
			for i := first; i < len(all); i += n {
				all[i] = rollOut(rand.New(rand.NewPCG(seed, uint64(i))))
			}
		})
	}
	workers.Wait()
	return all
}

// values returns the figures. A quantile of the owners is missing if that many were not aborted.
func (e ends) values() map[string]float64 {
	counts := map[rollout.Stage]int{}
	var owners []float64
	for _, one := range e {
		counts[one.stage]++
		n := math.Inf(1)
		if one.stage == rollout.Aborted {
			n = float64(one.owners)
		}
		owners = append(owners, n)
	}
	percent := func(n int) float64 { return 100 * float64(n) / float64(len(e)) }
	values := map[string]float64{aborted: percent(counts[rollout.Aborted]),
		inconclusive: percent(len(e) - counts[rollout.Aborted] - counts[rollout.Promoted])}
	for name, share := range map[string]float64{median: 0.5, most: 0.9} {
		if q := report.Quantile(owners, share); !math.IsInf(q, 1) {
			values[name] = q
		}
	}
	return values
}
