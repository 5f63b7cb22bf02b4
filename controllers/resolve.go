// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// resolve resolves the objects into the profiles that are to run.
func (r *ProfileReconciler) resolve(p *pass) {
	p.resolution = resolve.Objects(resolve.Input{
		Profiles:     p.objects.profiles,
		Policies:     p.objects.policies,
		Secrets:      p.objects.secrets,
		LastGood:     r.last.good,
		AllowedHosts: r.AllowedHosts,
		Registered:   r.Registered,
		Last:         r.last.resolution,
	})
	r.last.resolution = p.resolution
	r.last.rejections = r.last.rejections.count(&p.objects, p.resolution)
}

// rejections holds the generations of the objects that are not accepted, by the objects' UIDs.
type rejections map[types.UID]int64

// count counts the specs that are newly rejected and returns all that are. A spec counts once,
// however often the set is reconciled, unless it was accepted in between.
func (r rejections) count(set *objects, resolution *resolve.Resolution) rejections {
	now := rejections{}
	look := func(uid types.UID, generation int64, result resolve.Result) {
		if result.Accepted {
			return
		}
		now[uid] = generation
		if before, known := r[uid]; !known || before != generation {
			metrics.Reloads.WithLabelValues(metrics.ReloadRejected).Inc()
		}
	}
	for i := range set.profiles {
		p := &set.profiles[i]
		look(p.UID, p.Generation, resolution.ProfileResults[p.Name])
	}
	for i := range set.policies {
		p := &set.policies[i]
		look(p.UID, p.Generation, resolution.PolicyResults[p.Name])
	}
	return now
}
