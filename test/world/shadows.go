// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"reflect"
	"slices"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// shadowAlike gives the shadow the spec of the profile that it follows.
func (w *World) shadowAlike(name string) {
	profile := w.profileOf(w.cluster.profiles[profilePrefix+name])
	shadow := w.profileOf(w.cluster.profiles[profilePrefix+shadowName])
	w.log.add("the shadow has the spec of profile %s", name)
	shadow.Spec = profile.Spec
	shadow.Spec.Rollout = nil
	shadow.Spec.Mode = v1alpha1.ProfileShadow
	mustUnmarshal(`{profileRef: {name: `+name+`}}`, &shadow.Spec.Shadow)
	w.must(w.cluster.objects.Update(w.ctx, shadow))
}

// checkShadow checks that the shadow runs its spec, and has found no difference from its profile if
// it is like that. Claims may change between the two decisions.
func (w *World) checkShadow(shadow *v1alpha1.SchedulerProfile, resolved *resolve.Resolution) error {
	result := resolved.ProfileResults[shadow.Name]
	if !result.Accepted {
		return nil
	}
	status, config := &shadow.Status, resolved.Shadows[result.ID()]
	if status.Active == nil || status.Active.Revision != config.Revision {
		return fmt.Errorf("the shadow does not run its spec")
	}
	counts := status.Shadow
	if counts == nil {
		return nil
	}
	more := int(counts.Decisions)
	if last := &w.cluster.compared; last.Since.Equal(&counts.Since) {
		more -= int(last.Decisions)
	}
	w.cluster.compared = *counts
	w.counts["decisions of shadows"] += more
	profile := resolved.Profiles[resolved.ProfileResults[counts.Profile].SchedulerName]
	if profile == nil || profile.Revision != counts.ProfileRevision || config.Revision != counts.Revision ||
		!decideAlike(profile, config) || w.plan.Actors["devices"]+w.plan.Actors["volumes"] > 0 {
		return nil
	}
	w.counts["decisions of shadows that are alike"] += more
	if n := counts.NodeScoredLower + counts.NodeRefused + counts.ActiveOnlyFits + counts.ShadowOnlyFits; n > 0 {
		return fmt.Errorf("the shadow is like its profile, and differs in %d decisions", n)
	}
	return nil
}

// decideAlike reports whether two profiles decide in the same way, also if something happens
// meanwhile.
func decideAlike(a, b *resolve.Profile) bool {
	x, y := a.Config.DeepCopy(), b.Config.DeepCopy()
	x.SchedulerName, y.SchedulerName = "", ""
	return reflect.DeepEqual(x, y) && !isSlow(x)
}

func isSlow(config *schedconfig.KubeSchedulerProfile) bool {
	plugins := config.Plugins
	return slices.ContainsFunc(slices.Concat(plugins.MultiPoint.Enabled, plugins.PreFilter.Enabled,
		plugins.Reserve.Enabled), func(p schedconfig.Plugin) bool { return p.Name == slowPlugin })
}
