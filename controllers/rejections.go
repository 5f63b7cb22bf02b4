// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// rejections are the generations of objects that are not accepted, by the objects' UIDs. The zero
// value is ready for use.
type rejections struct {
	generations map[types.UID]int64
}

// note counts the specs that are newly not accepted: each once, however often the set is
// reconciled, unless it was accepted in between.
func (r *rejections) note(objects *objects, resolution *config.Resolution) {
	rejected := map[types.UID]int64{}
	look := func(uid types.UID, generation int64, result config.Result) {
		if result.Accepted {
			return
		}
		rejected[uid] = generation
		if before, known := r.generations[uid]; !known || before != generation {
			metrics.Reloads.WithLabelValues(metrics.ReloadRejected).Inc()
		}
	}
	for i := range objects.profiles {
		p := &objects.profiles[i]
		look(p.UID, p.Generation, resolution.ProfileResults[p.Name])
	}
	for i := range objects.policies {
		p := &objects.policies[i]
		look(p.UID, p.Generation, resolution.PolicyResults[p.Name])
	}
	r.generations = rejected
}
