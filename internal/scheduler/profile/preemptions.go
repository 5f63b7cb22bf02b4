// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// preemptions are the preemptions of the process, of all profiles and generations. Each runs in a
// goroutine of its own, which ends with its last call to the API server:
//
//	PostFilter -> begin   the preemptor is held back (PreEnqueue), and its cycle nominates it
//	goroutine             takes nominations of less important pods back, evicts the victims
//	the end               the preemptor is let in again (Queue.Ungate), or retried if a victim could not be evicted
//
// A victim's going is an event that wakes the preemptor, whichever way it goes. If the event comes
// too early, while the preemptor is held back, the queue keeps that in mind, and Ungate makes up
// for it: so the preemptor is tried again exactly when something has changed, and never waits for
// an event that was there already. Upstream's executor has no such end
// (kubernetes/kubernetes#140082, #141694).
//
// A preemptor that is tried again before its victims are gone must not preempt others for it.
// Upstream tells by the victims' status on the node in the preemptor's status. Neither need be
// known to the informers yet, and a victim that was put back into the queue has no such status: so
// the last preemption of each nominated pod is kept.
type preemptions struct {
	env *Environment
	// pods is the informers' cache, which knows of a deletion before the queue does.
	pods   corev1listers.PodLister
	ctx    context.Context // of all calls to the API server
	cancel context.CancelCauseFunc

	// running counts the goroutines. No more are added once closed is set.
	running sync.WaitGroup

	// mu guards what follows, and is taken after Queue.mu, since PreEnqueue asks what is held. So
	// nobody may call the queue while holding it; reading nominations does not count.
	mu     sync.Mutex
	closed bool
	// underWay lists the preemptions of each preemptor that have not ended: one, as a rule, as it
	// cannot begin another meanwhile.
	underWay map[types.UID][]*preemptionRun
	// latest is the last preemption of each preemptor. Those that mean nothing any more are dropped
	// in a sweep, when the map has doubled since the last one.
	latest map[types.UID]*preemptionRun
	// sweepAt is the size of latest at which it is swept.
	sweepAt int
	// leaving are the victims that were put back rather than deleted. A pod that is assumed again
	// is another object, so these never come back. Kept as long as the preemption that put them
	// back.
	leaving map[*corev1.Pod]struct{}
}

// preemptionRun is one preemption. Immutable, except for the state of its victims, which
// preemptions.mu guards.
type preemptionRun struct {
	preemptor *corev1.Pod
	node      string
	plugin    string
	victims   []*victim
}

// victim is a pod to be evicted, as the snapshot had it.
type victim struct {
	pod   *corev1.Pod
	state victimState
}

type victimState int

const (
	// standing: nothing has become of it yet.
	standing victimState = iota
	// deleted: the API server has accepted its deletion, or does not know it.
	deleted
	// putBack: it had not been bound yet, and gives its room back on its own.
	putBack
	// spared: it could not be evicted.
	spared
)

// minSweep keeps small maps from being swept for each preemption.
const minSweep = 64

var errStopping = errors.New("the scheduler is stopping")

func newPreemptions(ctx context.Context, env *Environment, pods corev1listers.PodLister) *preemptions {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &preemptions{
		env:      env,
		pods:     pods,
		ctx:      ctx,
		cancel:   cancel,
		underWay: map[types.UID][]*preemptionRun{},
		latest:   map[types.UID]*preemptionRun{},
		sweepAt:  minSweep,
		leaving:  map[*corev1.Pod]struct{}{},
	}
}

// close waits for the preemptions under way, and gives them up when ctx ends. None begin
// afterwards.
func (p *preemptions) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { p.cancel(errStopping) })
	defer stop()
	p.running.Wait()
	p.cancel(errStopping)
}

// begin carries out what PostFilter has decided, in the background. The preemptor is held back from
// this moment on.
func (p *preemptions) begin(handle *Handle, decided *plan) {
	r := &preemptionRun{preemptor: decided.preemptor, node: decided.node, plugin: decided.plugin}
	for _, pod := range decided.victims {
		r.victims = append(r.victims, &victim{pod: pod})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.sweep()
	p.underWay[r.preemptor.UID] = append(p.underWay[r.preemptor.UID], r)
	p.latest[r.preemptor.UID] = r
	p.running.Go(func() { p.run(handle, r) })
}

// run is the goroutine of a preemption. handle is that of the generation that decided, which may be
// retired meanwhile.
func (p *preemptions) run(handle *Handle, r *preemptionRun) {
	logger := klog.LoggerWithValues(klog.FromContext(p.ctx), "preemptor", klog.KObj(r.preemptor), "node", r.node)
	ctx := klog.NewContext(p.ctx, logger)
	start := time.Now()
	logger.V(2).Info("Preempting", "victims", len(r.victims))

	cleared := p.clearNominations(ctx, r)
	evicted := p.evictAll(ctx, handle, r)
	result := schedmetrics.GoroutineResultSuccess
	if !cleared || !evicted {
		result = schedmetrics.GoroutineResultError
	}
	p.end(logger, r, evicted)
	schedmetrics.PreemptionGoroutinesDuration.WithLabelValues(result).Observe(schedmetrics.SinceInSeconds(start))
	schedmetrics.PreemptionGoroutinesExecutionTotal.WithLabelValues(result).Inc()
	logger.V(2).Info("Preempted", "result", result)
}

// end lets the preemptor in again. One whose victims could not all be evicted is retried after its
// back-off: there may be no event for it to wait for, and an API server that refuses would be asked
// without end, by the pod that comes first in the queue.
func (p *preemptions) end(logger klog.Logger, r *preemptionRun, evicted bool) {
	uid := r.preemptor.UID
	p.mu.Lock()
	if rest := slices.DeleteFunc(p.underWay[uid], func(other *preemptionRun) bool { return other == r }); len(rest) > 0 {
		p.underWay[uid] = rest
	} else {
		delete(p.underWay, uid)
	}
	p.mu.Unlock()
	if evicted {
		p.env.Queue.Ungate(logger, uid, r.plugin)
	} else {
		p.env.Queue.RetryLater(logger, uid)
	}
}

// holds says whether victims of the pod are being evicted. Those that the informers know to be
// gone, or on their way, need no answer of the API server's: the event of the last one's going lets
// the preemptor in, together with the less important pods that it wakes.
func (p *preemptions) holds(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.underWay[uid] {
		if slices.ContainsFunc(r.victims, p.stands) {
			return true
		}
	}
	return false
}

// stands says whether nothing has become of a victim yet. Requires mu.
func (p *preemptions) stands(v *victim) bool {
	if v.state != standing {
		return false
	}
	known, err := p.pods.Pods(v.pod.Namespace).Get(v.pod.Name)
	return err == nil && known.UID == v.pod.UID && known.DeletionTimestamp == nil
}

// awaitsVictims says whether a pod is to wait for the victims of its last preemption: it is still
// nominated for their node, that is still a node for it, and the snapshot has them there. statuses
// is why nodes do not fit.
func (p *preemptions) awaitsVictims(pod *corev1.Pod, statuses fwk.NodeToStatusReader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.latest[pod.UID]
	if r == nil || !p.nominated(r) || statuses.Get(r.node).Code() == fwk.UnschedulableAndUnresolvable {
		return false
	}
	node, err := p.env.Snapshot.NodeInfos().Get(r.node)
	if err != nil {
		return false
	}
	there := map[types.UID]*corev1.Pod{}
	for _, info := range node.GetPods() {
		there[info.GetPod().UID] = info.GetPod()
	}
	awaited := false
	for _, v := range r.victims {
		known := there[v.pod.UID]
		switch {
		case v.state == spared:
			return false
		case known == v.pod, known != nil && v.state != putBack:
			awaited = true
		}
	}
	return awaited
}

// nominated says whether the preemptor is still nominated for the node of a preemption. Requires
// mu.
func (p *preemptions) nominated(r *preemptionRun) bool {
	for _, info := range p.env.Queue.NominatedPodsForNode(r.node) {
		if info.GetPod().UID == r.preemptor.UID {
			return true
		}
	}
	return false
}

// sweep drops the preemptions whose preemptor is bound, deleted or nominated elsewhere. Requires
// mu.
func (p *preemptions) sweep() {
	if len(p.latest) < p.sweepAt {
		return
	}
	clear(p.leaving)
	for uid, r := range p.latest {
		if p.underWay[uid] == nil && !p.nominated(r) {
			delete(p.latest, uid)
			continue
		}
		for _, v := range r.victims {
			if v.state == putBack {
				p.leaving[v.pod] = struct{}{}
			}
		}
	}
	p.sweepAt = max(minSweep, 2*len(p.latest))
}

// lessImportant lists the pods that are nominated for the node of a preemption and have to give
// way.
func (p *preemptions) lessImportant(r *preemptionRun) []*corev1.Pod {
	priority := corev1helpers.PodPriority(r.preemptor)
	var pods []*corev1.Pod
	for _, info := range p.env.Queue.NominatedPodsForNode(r.node) {
		if pod := info.GetPod(); corev1helpers.PodPriority(pod) < priority {
			pods = append(pods, pod)
		}
	}
	return pods
}
