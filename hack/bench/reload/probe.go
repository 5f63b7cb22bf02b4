// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

const (
	probeName   = "ReloadProbe"
	witnessName = "ReloadWitness"
	// refusedLabel marks pods that the probe refuses.
	refusedLabel = "reload-probe/refused"
)

// decisions records the time of the first decision of each instance of the profile. The profile's
// spec carries a number in the arguments of the probe, an out-of-tree plugin like any other, so
// that each instance knows which spec it was built from.
type decisions struct {
	// While hold is true, the probe refuses all pods.
	hold atomic.Bool

	mu    sync.Mutex // guards the fields below
	first map[int]chan time.Time
}

func newDecisions() *decisions { return &decisions{first: map[int]chan time.Time{}} }

// of returns the channel that receives the time of the first decision under a spec.
func (d *decisions) of(spec int) chan time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first[spec] == nil {
		d.first[spec] = make(chan time.Time, 1)
	}
	return d.first[spec]
}

// register returns the registry with the plugins, so that profiles may enable them.
func (d *decisions) register() framework.Registry {
	return framework.Registry{
		probeName: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			p := &probe{hold: &d.hold}
			return p, p.read(args, d)
		},
		witnessName: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			w := &witness{}
			return w, w.read(args, d)
		},
	}
}

// instance holds what the plugins of one instance of the profile share.
type instance struct {
	args struct {
		Spec int `json:"spec"`
	}
	first chan time.Time
	once  sync.Once
}

func (i *instance) read(args runtime.Object, d *decisions) error {
	if err := frameworkruntime.DecodeInto(args, &i.args); err != nil {
		return err
	}
	i.first = d.of(i.args.Spec)
	return nil
}

// probe refuses the pods with the refused label, and all pods while hold is true. The others still
// take livesched's fast path; see NodeLocalKey.
type probe struct {
	instance
	hold *atomic.Bool
}

// witness observes the pods that get a node.
type witness struct{ instance }

var (
	_ fwk.PreFilterPlugin   = &probe{}
	_ fastpath.NodeLocal    = &probe{}
	_ fwk.EnqueueExtensions = &probe{}
	_ fwk.ReservePlugin     = &witness{}
)

func (p *probe) Name() string { return probeName }

func (i *instance) decided() {
	i.once.Do(func() {
		select {
		case i.first <- time.Now():
		default: // the same spec was built again, for example after a change of its policy
		}
	})
}

func (p *probe) refuses(pod *corev1.Pod) bool {
	_, refused := pod.Labels[refusedLabel]
	return refused || p.hold.Load()
}

// NodeLocalKey implements fastpath.NodeLocal. The probe must be called for the pods that it
// refuses. It has no effect on the others.
func (p *probe) NodeLocalKey(pod *corev1.Pod) (key string, ok bool) { return "", !p.refuses(pod) }

// PreFilter implements fwk.PreFilterPlugin.
func (p *probe) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.refuses(pod) {
		p.decided()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "refused by label")
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Name implements fwk.Plugin.
func (w *witness) Name() string { return witnessName }

// Reserve implements fwk.ReservePlugin. At this point the pod has its node.
func (w *witness) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	w.decided()
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (w *witness) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// EventsToRegister implements fwk.EnqueueExtensions. No event of a run makes a refused pod
// schedulable.
func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
	}}, nil
}
