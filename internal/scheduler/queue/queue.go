// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"
	"container/list"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/selfcheck"
)

// Config holds the dependencies of a Queue.
type Config struct {
	// Clock defaults to the real clock.
	Clock clock.WithTicker
	// PodLister reads the informer cache whose handlers call Add, Update and Delete. Pods that it
	// does not hold, or holds as assigned, are neither queued nor nominated. nil disables this
	// check.
	PodLister corev1listers.PodLister
	// Groups knows the pod groups. nil: there are none.
	Groups *podgroup.Registry
	// DeferredResizes lets in pods whose resize is deferred, which are on their nodes already; see
	// deferred.go.
	DeferredResizes bool
	// Metrics records the durations of hints and PreEnqueue plugins. nil disables recording.
	Metrics *schedmetrics.MetricAsyncRecorder
}

// Queue is the scheduling queue. The package comment describes how pods move in it.
//
// All methods are safe for concurrent use. Informer handlers, the scheduling loop, binding
// goroutines, plugins and reloads call them. One mutex serves them all; PreEnqueue plugins, hints
// and the queue sort run with it held. These must not call the queue, except to read nominated
// pods.
//
// Methods that need mu held end in Locked. The comments of types that mu guards say so.
//
// Lock order: Queue.reconfiguring, then Queue.mu, then Nominator.mu.
type Queue struct {
	clock     clock.WithTicker
	windows   windows
	podLister corev1listers.PodLister
	nominator *Nominator
	groups    *podgroup.Registry
	// deferredResizes is Config.DeferredResizes.
	deferredResizes bool
	// reconfiguring is held for the whole of Reconfigure, so that reloads do not overlap.
	reconfiguring sync.Mutex

	mu sync.Mutex // guards the fields below, except where noted
	// poppable is signalled for each pod that moves to a place from which Pop takes pods, and when
	// the queue closes.
	poppable sync.Cond
	rules    *ruleSet
	// pods holds every pod in the queue; each is also in exactly one of the structures below.
	pods map[types.UID]*entry
	// members holds the pods that name a group, by that group.
	members map[memberKey]*members
	// holding has the members that TendHeldGroups looks at, and perhaps a few more.
	holding sets.Set[*members]
	// groupRetries are the groups that are retried at a time.
	groupRetries map[podgroup.Key]time.Time
	// groupPauses are the groups whose pods are not retried after errors before a time.
	groupPauses   map[podgroup.Key]time.Time
	active        podHeap
	backoff       podHeap
	errorBackoff  podHeap
	unschedulable waitingPods // Unschedulable and Gated
	inFlight      flights
	// held lists the pods whose hold is to be reported, in the order in which they were listed.
	held    list.List
	metrics *metrics
	// reported holds the violations of plugins that were logged since the last reload.
	reported sets.Set[string]
	// reloading is the Reconfigure in progress, nil if there is none. Pods can be outdated only
	// while there is one.
	reloading *reload
	closed    bool

	done chan struct{} // closed by Close
}

var _ fwk.PodActivator = &Queue{}

// New returns a queue that accepts no pods until Reconfigure is called. The metrics of
// k8s.io/kubernetes/pkg/scheduler must be registered already.
func New(cfg Config) *Queue {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	m := newMetrics(cfg.Metrics)
	q := &Queue{
		clock:           cfg.Clock,
		windows:         newWindows(cfg.Clock.Now()),
		podLister:       cfg.PodLister,
		groups:          cfg.Groups,
		deferredResizes: cfg.DeferredResizes,
		members:         map[memberKey]*members{},
		holding:         sets.New[*members](),
		groupRetries:    map[podgroup.Key]time.Time{},
		groupPauses:     map[podgroup.Key]time.Time{},
		rules:           newRuleSet(nil, nil, nil, nil),
		pods:            map[types.UID]*entry{},
		inFlight:        flights{metrics: m},
		metrics:         m,
		reported:        sets.New[string](),
		done:            make(chan struct{}),
	}
	q.poppable.L = &q.mu
	q.nominator = newNominator(&q.mu, cfg.PodLister)
	q.active.less = q.lessLocked
	q.backoff.less = q.lessBackoffLocked
	q.errorBackoff.less = q.lessErrorBackoffLocked
	return q
}

// Close makes Pop return nil and drops all pods. Afterwards the queue calls no plugin: plugins are
// about to be closed, while informers may run on for a moment, and the metrics of their profiles
// are about to be deleted. Close may be called more than once.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.done)
	for e := range q.inFlight.all() {
		q.releaseLocked(e)
	}
	for _, e := range q.pods {
		q.dropLocked(e)
	}
	q.rules = newRuleSet(nil, nil, nil, nil)
	q.poppable.Broadcast()
}

// Add queues a pod that is not assigned yet, or whose resize is deferred. Adding a pod again has no
// effect. Pods are identified by their UID, which must be set.
func (q *Queue) Add(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(logger, pod, labelAdd)
}

// addLocked is Add for callers that hold mu. event is the label of what caused it, for metrics.
func (q *Queue) addLocked(logger klog.Logger, pod *corev1.Pod, event string) {
	if q.rules.profiles[pod.Spec.SchedulerName] == nil || !q.admits(pod) {
		return
	}
	if pod.UID == "" {
		logger.Error(nil, "A pod without UID is not queued", "pod", klog.KObj(pod))
		return
	}
	e := q.pods[pod.UID]
	if e != nil && e.place != InFlight {
		return
	}
	newest, reason := q.latest(pod)
	if newest != nil && newest.Spec.NodeName != pod.Spec.NodeName {
		reason = "outdated" // it was bound since, and will be added again
	}
	if reason != "" {
		logger.V(4).Info("The pod is not queued", "pod", klog.KObj(pod), "reason", reason)
		return
	}
	if e != nil {
		e.flight.deleted = false
		return
	}
	if newest != nil { // a cycle that gives back a pod has the version with which it began
		pod = newest
	}
	e = newEntry(pod, q.clock.Now())
	e.profile = q.rules.assignLocked(e, pod)
	q.pods[pod.UID] = e
	q.joinGroupLocked(e)
	q.enqueueLocked(logger, e, immediately, event)
	// A gated pod, too: its node is kept free for it until it may be scheduled.
	q.nominator.addQueueLocked(logger, e.info.PodInfo, nil)
}

// Update records a new version of a pod that Add may queue. A waiting pod is requeued if a hint
// finds that the change may help it; for a pod in flight, the change is kept until the pod comes
// back; an unknown pod is queued. oldPod may be nil. If it has another UID, the pod was deleted and
// re-created under the same name.
func (q *Queue) Update(logger klog.Logger, oldPod, newPod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.updateLocked(logger, oldPod, newPod, true)
}

// UpdateAssumed is Update for an assumed pod, which may still be refused. It does not queue an
// unknown pod: that one was released, and is about to be bound or given back.
func (q *Queue) UpdateAssumed(logger klog.Logger, oldPod, newPod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.updateLocked(logger, oldPod, newPod, false)
}

// updateLocked is Update, or UpdateAssumed if queueUnknown is false, for callers that hold mu.
func (q *Queue) updateLocked(logger klog.Logger, oldPod, newPod *corev1.Pod, queueUnknown bool) {
	if oldPod != nil && oldPod.UID != newPod.UID {
		q.deleteLocked(oldPod)
		oldPod = nil
	}
	e := q.pods[newPod.UID]
	if e != nil && !q.renewLocked(logger, e) {
		e = nil
	}
	if e != nil && e.pod.Spec.SchedulerName != newPod.Spec.SchedulerName && e.place != InFlight {
		q.dropLocked(e)
		e = nil
	}
	if q.rules.profiles[newPod.Spec.SchedulerName] == nil {
		if e != nil { // in flight: Requeue reports it, unless there is a profile again by then
			e.update(newPod)
			e.flight.deleted = false
			q.nominator.DeleteNominatedPodIfExists(newPod)
			return
		}
		q.deleteLocked(newPod)
		return
	}
	if e == nil {
		if queueUnknown {
			q.addLocked(logger, newPod, labelUpdate)
		}
		return
	}
	if oldPod == nil {
		oldPod = e.pod
	}
	e.update(newPod)
	q.regroupLocked(logger, e)
	if !q.reassignLocked(logger, e) {
		return
	}
	if e.place != InFlight {
		q.nominator.updateQueueLocked(logger, oldPod, e.info.PodInfo)
		q.noteHoldLocked(e, e.place) // its last scheduling gate may be gone
	}
	switch e.place {
	case InFlight:
		e.flight.deleted = false
		for _, event := range schedframework.PodSchedulingPropertiesChange(newPod, oldPod, true) {
			q.inFlight.record(clusterEvent{event: event, oldObj: oldPod, newObj: newPod})
		}
	case Unschedulable, Gated:
		q.unschedulable.sort(e)
		for _, event := range schedframework.PodSchedulingPropertiesChange(newPod, oldPod, true) {
			ev := clusterEvent{event: event, oldObj: oldPod, newObj: newPod}
			if s := q.worthRequeuingLocked(logger, e, &ev); s != stay {
				q.enqueueLocked(logger, e, s, event.Label())
				break
			}
		}
	default:
		heap.Fix(q.heapOf(e.place), e.index) // the queue sort may compare by the changed fields
	}
}

// Delete removes a pod that was deleted or assigned, or whose resize is not deferred any more,
// wherever it is in the queue. A pod in flight is dropped when it comes back. pod may be an old
// version, and need not be in the queue.
func (q *Queue) Delete(_ klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleteLocked(pod)
}

// deleteLocked is Delete for callers that hold mu.
func (q *Queue) deleteLocked(pod *corev1.Pod) {
	q.nominator.DeleteNominatedPodIfExists(pod)
	switch e := q.pods[pod.UID]; {
	case e == nil:
	case e.place == InFlight:
		e.flight.deleted = true
	default:
		q.dropLocked(e)
	}
}

// Popped is what Pop returns.
type Popped struct {
	// Pod is nil once the queue is closed.
	Pod *schedframework.QueuedPodInfo
	// Settings are those whose PreEnqueue plugins admitted the pod.
	Settings *ProfileSettings
	// Share is the share of owners that get the canary of the pod's scheduler name, from 0 to
	// Whole: the pod's owner was assigned by it.
	Share int
	// Group is nil for a pod that is scheduled by itself.
	Group *PoppedGroup
}

// Pop takes the next pod, and waits until there is one or the queue is closed. The caller owns the
// pod, and must release it by Done or Requeue on every path. With the first pod of a group, Pop
// takes the others that are ready.
//
// Pop acquires the Holder of the settings in its critical section, so no Reconfigure can retire it
// before the caller has it. The caller must give the reference back.
func (q *Queue) Pop(logger klog.Logger) Popped {
	q.mu.Lock()
	defer q.mu.Unlock()
	var e *entry
	var u unit
	for e == nil {
		for !q.closed && q.active.Len() == 0 && q.backoff.Len() == 0 {
			q.poppable.Wait()
		}
		if q.closed {
			logger.V(2).Info("The scheduling queue is closed")
			return Popped{}
		}
		if e = q.active.first(); e == nil {
			e = q.backoff.first()
		}
		switch {
		case e.outdatedLocked():
			q.renewLocked(logger, e) // this may put another pod first
			e = nil
		case q.renewMembersLocked(logger, e): // so may this
			e = nil
		default:
			var complete bool
			if u, complete = q.completeLocked(e); !complete {
				q.holdLocked(logger, e)
				e = nil
			}
		}
	}
	if e.place == Backoff {
		q.metrics.entityEntered(e, Active, schedframework.PopFromBackoffQ)
	}
	popped := Popped{Pod: q.takeLocked(e), Settings: e.profile.settings, Share: e.profile.shareLocked(),
		Group: q.popGroupLocked(e, u)}
	if selfcheck.Wanted(len(q.pods)) {
		selfcheck.Report(q.checkLocked())
	}
	return popped
}

// takeLocked puts a waiting pod in flight, and acquires the Holder of its settings.
func (q *Queue) takeLocked(e *entry) *schedframework.QueuedPodInfo {
	e.member.set(false, false)
	if e.place == Backoff {
		q.metrics.entered(Active, schedframework.PopFromBackoffQ)
	}
	q.detachLocked(e)
	q.metrics.moved(e, InFlight)
	info := e.info
	q.metrics.rejected(info, -1)
	info.Attempts++
	q.noteFirstAttempt(info)
	e.place, e.info = InFlight, nil
	e.flight.started = *info.InitialAttemptTimestamp
	q.inFlight.add(e)
	if holder := e.profile.settings.Holder; holder != nil {
		holder.Acquire()
	}
	return info
}

// Done releases a popped pod: it is bound or gone, or no later event in the cluster can matter to
// it. Done does nothing for pods that are not in flight.
func (q *Queue) Done(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pods[uid]; e != nil && e.place == InFlight {
		q.releaseLocked(e)
	}
}
