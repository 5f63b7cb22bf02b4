// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/test/sidebyside"
)

// ours is livesched on the scalar path.
type ours struct {
	*sidebyside.Livesched
	spy        *spy
	preemption *witness // nil: the profile has none
}

func newOurs(ctx context.Context, objects sidebyside.Objects, c *sidebyside.Configuration,
	offset int32) (*ours, error) {
	o := &ours{spy: &spy{}}
	var err error
	if o.Livesched, err = sidebyside.NewLivesched(ctx, objects, c, sidebyside.ScalarPath,
		o.spy.registry()); err != nil {
		return nil, err
	}
	for _, pl := range o.Profile.Framework.Plugins().PostFilter {
		if pl.Name() == pluginnames.DefaultPreemption {
			o.preemption = witnessOf(pl.(*preemption.Plugin).DefaultPreemption, offset)
		}
	}
	return o, nil
}

func (o *ours) decide(pod *corev1.Pod) decision {
	o.spy.nodes = nil
	return decision{Decision: o.Decide(pod), fit: o.spy.nodes}
}

// upstream is kube-scheduler.
type upstream struct {
	*sidebyside.KubeScheduler
	spy        *spy
	preemption *witness // nil: the profile has none
}

func newUpstream(ctx context.Context, objects sidebyside.Objects, c *sidebyside.Configuration,
	offset int32) (*upstream, error) {
	u := &upstream{spy: &spy{}}
	var err error
	if u.KubeScheduler, err = sidebyside.NewKubeScheduler(ctx, objects, c, u.spy.registry()); err != nil {
		return nil, err
	}
	for _, pl := range u.Framework.ListPlugins().PostFilter.Enabled {
		if pl.Name == defaultpreemption.Name {
			u.preemption = witnessOf(u.defaultPreemption(), offset)
		}
	}
	return u, nil
}

// defaultPreemption returns the profile's instance of the plugin, which is also a PreEnqueue plugin
// and is accessible as one.
func (u *upstream) defaultPreemption() *defaultpreemption.DefaultPreemption {
	for _, candidate := range u.Framework.PreEnqueuePlugins() {
		if pl, ok := candidate.(*defaultpreemption.DefaultPreemption); ok {
			return pl
		}
	}
	panic("the profile has DefaultPreemption at PostFilter and not at PreEnqueue")
}

func (u *upstream) decide(pod *corev1.Pod) decision {
	u.spy.nodes = nil
	return decision{Decision: u.Decide(pod), fit: u.spy.nodes}
}
