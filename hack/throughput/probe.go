// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

const (
	probeName = "ReloadProbe"
	// refusedLabel marks pods that the probe refuses.
	refusedLabel = "reload-probe/refused"
)

// decisions tells when a generation of the profile decided first. The profile's spec carries a number in the arguments of
// the probe, an out-of-tree plugin like any other, so that each instance knows which spec it was built from.
type decisions struct {
	// hold has the probe refuse all pods.
	hold atomic.Bool

	mu    sync.Mutex // guards what follows
	first map[int]chan time.Time
}

func newDecisions() *decisions { return &decisions{first: map[int]chan time.Time{}} }

// of returns the channel that receives the time of the first decision by a spec.
func (d *decisions) of(spec int) chan time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first[spec] == nil {
		d.first[spec] = make(chan time.Time, 1)
	}
	return d.first[spec]
}

// register makes the probe a plugin that profiles may enable.
func (d *decisions) register() framework.Registry {
	return framework.Registry{probeName: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
		p := &probe{hold: &d.hold}
		if err := frameworkruntime.DecodeInto(args, &p.args); err != nil {
			return nil, err
		}
		p.first = d.of(p.args.Spec)
		return p, nil
	}}
}

// probe is one instance of the plugin. It refuses the pods that are labelled so, all while they are held back, and is told of
// the nodes of the others.
type probe struct {
	args struct {
		Spec int `json:"spec"`
	}
	hold  *atomic.Bool
	first chan time.Time
	once  sync.Once
}

var (
	_ fwk.PreFilterPlugin   = &probe{}
	_ fwk.ReservePlugin     = &probe{}
	_ fwk.EnqueueExtensions = &probe{}
)

func (p *probe) Name() string { return probeName }

func (p *probe) decided() {
	p.once.Do(func() {
		select {
		case p.first <- time.Now():
		default: // the same spec was built again, as after a change of its policy
		}
	})
}

// PreFilter implements fwk.PreFilterPlugin.
func (p *probe) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, refused := pod.Labels[refusedLabel]; refused || p.hold.Load() {
		p.decided()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "refused by label")
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve implements fwk.ReservePlugin: the pod has its node.
func (p *probe) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	p.decided()
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (p *probe) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// EventsToRegister implements fwk.EnqueueExtensions: nothing that happens helps a pod that the probe refuses.
func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
	}}, nil
}
