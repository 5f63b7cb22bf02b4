// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// Decision is a decision for a pod, with what led to it.
type Decision struct {
	algorithm.Evaluation
	// Pod is the pod that was decided, and Profile the instance that decided.
	Pod     *corev1.Pod
	Profile *profile.Instance
	// State is the state of the scheduling cycle, which Assume needs.
	State fwk.CycleState
}

// Decide decides a pod as the scheduling loop would, on the scalar path and without preemption. If
// the pod fits no node, the error is a *schedframework.FitError, and the decision has the
// diagnosis.
func (f *Fork) Decide(ctx context.Context, p *profile.Instance, pod *corev1.Pod) (Decision, error) {
	return f.decide(ctx, p, pod, p.Config.PercentageOfNodesToScore)
}

// DecideAmongAll is Decide that scores all nodes that the pod fits, whatever the profile says.
func (f *Fork) DecideAmongAll(ctx context.Context, p *profile.Instance, pod *corev1.Pod) (Decision, error) {
	return f.decide(ctx, p, pod, 100)
}

func (f *Fork) decide(ctx context.Context, p *profile.Instance, pod *corev1.Pod, percentage int32) (Decision, error) {
	d := Decision{Pod: pod, Profile: p, State: f.newState()}
	if err := f.refresh(); err != nil {
		return d, err
	}
	var err error
	d.Evaluation, err = f.decider.Evaluate(ctx, algorithm.Params{
		Framework: p.Framework, PercentageOfNodesToScore: percentage,
	}, d.State, pod)
	return d, err
}

// Refusals are all refusals of a pod: of every plugin, on every node.
type Refusals struct {
	// Everywhere are the refusals of plugins that refuse the pod altogether. Those of each node
	// include them.
	Everywhere []*fwk.Status
	// Nodes are the nodes in their order, and ByNode the refusals of each, with the names of the
	// plugins. The pod fits on a node without refusals.
	Nodes  []fwk.NodeInfo
	ByNode [][]*fwk.Status
}

// Fits returns the number of nodes without refusals.
func (r *Refusals) Fits() int {
	fits := 0
	for _, statuses := range r.ByNode {
		if len(statuses) == 0 {
			fits++
		}
	}
	return fits
}

// Refusals runs all filters on all nodes, also after one has refused the pod. The error is the
// one of a plugin that failed.
func (f *Fork) Refusals(ctx context.Context, p *profile.Instance, pod *corev1.Pod) (*Refusals, error) {
	if err := f.refresh(); err != nil {
		return nil, err
	}
	check, err := p.Framework.NewCheck(ctx, schedframework.NewCycleState(), pod)
	if err != nil {
		return nil, err
	}
	nodes, err := f.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	r := &Refusals{Everywhere: check.Everywhere(), Nodes: nodes, ByNode: make([][]*fwk.Status, len(nodes))}
	var failure atomic.Pointer[error]
	searching, cancel := context.WithCancel(ctx)
	defer cancel()
	p.Framework.Parallelizer().Until(searching, len(nodes), func(i int) {
		statuses, err := check.Node(searching, nodes[i])
		if err != nil && failure.CompareAndSwap(nil, &err) {
			cancel()
		}
		r.ByNode[i] = statuses
	}, schedmetrics.Filter)
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, nil
}

// FirstFit returns the first of the named nodes that does not refuse the pod, or "".
func (f *Fork) FirstFit(ctx context.Context, p *profile.Instance, pod *corev1.Pod,
	nodeNames ...string) (string, error) {
	if err := f.refresh(); err != nil {
		return "", err
	}
	check, err := p.Framework.NewCheck(ctx, schedframework.NewCycleState(), pod)
	if err != nil {
		return "", err
	}
	for _, name := range nodeNames {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		node, err := f.snapshot.NodeInfos().Get(name)
		if err != nil {
			return "", err
		}
		if refusals, err := check.Node(ctx, node); err != nil || len(refusals) == 0 {
			return name, err
		}
	}
	return "", nil
}

// Assumed is a pod that is assumed on a node of a fork.
type Assumed struct {
	fork    *Fork
	profile *profile.Instance
	state   fwk.CycleState
	// decided is the pod that was decided, pod the copy on the node.
	decided, pod *corev1.Pod
	// nominated is the node that the pod was nominated to before, or "".
	nominated string
}

// Assume assumes the pod on the node of its decision, with the volumes and devices that the Reserve
// plugins choose. The fork must not have changed since the decision.
func (f *Fork) Assume(ctx context.Context, d Decision) (*Assumed, error) {
	a, class := f.assumed(d)
	if err := f.cache.AssumePodOfClass(f.logger, a.pod, class); err != nil {
		return nil, err
	}
	if err := a.reserve(ctx); err != nil {
		return nil, errors.Join(err, a.TakeBack(ctx))
	}
	return a, nil
}

// assumed returns the pod of a decision on its node, and how the cache gets to know it.
func (f *Fork) assumed(d Decision) (*Assumed, cache.Class) {
	pod := *d.Pod // shallow, as in the scheduling loop
	pod.Spec.NodeName = d.SuggestedHost
	like := d.Class.Like
	if devices.TakeFromNode(f.logger, d.State, &pod) || like == nil {
		var err error
		if like, err = schedframework.NewPodInfo(&pod); err != nil {
			f.logger.V(4).Info("Some of the pod's affinity terms are ignored", "err", err)
		}
	}
	// Deciders number their classes independently, and read one log of changes: no pod has a class.
	return &Assumed{fork: f, profile: d.Profile, state: d.State, decided: d.Pod, pod: &pod,
		nominated: f.nominator.NodeOf(pod.UID)}, cache.Class{Like: like}
}

// reserve ends the nomination of the pod, and lets the plugins choose its volumes and devices.
func (a *Assumed) reserve(ctx context.Context) error {
	a.fork.nominator.DeleteNominatedPodIfExists(a.pod)
	if status := a.profile.Framework.RunReservePluginsReserve(ctx, a.state, a.pod,
		a.pod.Spec.NodeName); !status.IsSuccess() {
		return fmt.Errorf("reserving for the pod: %w", status.AsError())
	}
	return nil
}

// unreserve gives back volumes, devices and the nomination.
func (a *Assumed) unreserve(ctx context.Context) {
	pod := *a.pod
	pod.Status.NodeAllocatableResourceClaimStatuses = nil // DynamicResources would clear it at the API server
	a.profile.Framework.RunReservePluginsUnreserve(context.WithoutCancel(ctx), a.state, &pod, pod.Spec.NodeName)
	a.fork.nominate(a.decided, a.nominated)
}

// TakeBack takes the pod off its node, and gives back its volumes, devices and nomination.
func (a *Assumed) TakeBack(ctx context.Context) error {
	a.unreserve(ctx)
	return a.fork.cache.ForgetPod(a.fork.logger, a.pod)
}
