// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"maps"

	"github.com/livesched/livesched/internal/rollout/evidence"
)

// MaxOwners limits the owners that are remembered of one stage. Further ones do not count.
const MaxOwners = 200_000

// Plus returns what two leaders have observed, one after the other. An owner that both have seen
// counts twice.
func (o *Observed) Plus(other *Observed) *Observed {
	sum := &Observed{
		Compared: o.Compared + other.Compared, Stable: o.Stable + other.Stable, New: o.New + other.New,
		StableTime: cmp.Or(other.StableTime, o.StableTime), NewTime: cmp.Or(other.NewTime, o.NewTime),
		Paired: map[Metric]evidence.Paired{}, Owners: map[Metric]*evidence.Owners{},
	}
	for _, m := range Metrics {
		a, b := o.Paired[m], other.Paired[m]
		if pairs := (evidence.Paired{Differing: a.Differing + b.Differing, Against: a.Against + b.Against}); pairs !=
			(evidence.Paired{}) {
			sum.Paired[m] = pairs
		}
		owners := &evidence.Owners{Failed: map[float64]int{}}
		for _, of := range []*evidence.Owners{o.Owners[m], other.Owners[m]} {
			if of == nil {
				continue
			}
			owners.New += of.New
			for share, n := range of.Failed {
				owners.Failed[share] += n
			}
		}
		if len(owners.Failed) > 0 {
			sum.Owners[m] = owners
		}
	}
	return sum
}

// Clone returns a copy that shares no memory.
func (o *Observed) Clone() *Observed {
	clone := *o
	clone.Paired, clone.Owners = maps.Clone(o.Paired), map[Metric]*evidence.Owners{}
	for m, owners := range o.Owners {
		clone.Owners[m] = &evidence.Owners{New: owners.New, Failed: maps.Clone(owners.Failed)}
	}
	return &clone
}
