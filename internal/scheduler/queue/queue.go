// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
)

// Config is what a Queue is made of.
type Config struct {
	// Clock is the real one by default.
	Clock clock.WithTicker
	// PodLister reads the informers' cache of pods, the one whose handlers call Add, Update and
	// Delete. Pods that it does not hold, or holds as assigned, are neither queued nor nominated.
	// nil: the callers' word is taken.
	PodLister corev1listers.PodLister
	// Popped, if not nil, is told the scheduler name of each pod that Pop takes, under the queue's
	// lock: no Reconfigure can fall between the two. So who pops can take hold of the very profile
	// whose settings let the pod through. It must not call the queue.
	Popped func(schedulerName string)
	// Metrics takes the durations of hints and PreEnqueue plugins. nil: they are not recorded.
	Metrics *schedmetrics.MetricAsyncRecorder
}

// Queue is the scheduling queue. The package comment says how pods move in it.
//
// All methods are safe for concurrent use: informer handlers, the scheduling loop, binding
// goroutines, plugins and reloads call them. One mutex serves them all, and PreEnqueue plugins,
// hints and the queue sort run under it. They, and what Reconfigure is told to commit, must not
// call the queue, reads of nominated pods aside.
//
// Lock order: Queue.reconfiguring, then Queue.mu, then Nominator.mu.
type Queue struct {
	clock     clock.WithTicker
	podLister corev1listers.PodLister
	nominator *Nominator
	popped    func(schedulerName string)
	// reconfiguring is held by Reconfigure, one at a time.
	reconfiguring sync.Mutex

	mu sync.Mutex // guards what follows, except where noted
	// poppable is signalled for each pod that comes to a place from which Pop takes it, and when
	// the queue closes.
	poppable sync.Cond
	rules    *ruleSet
	// pods holds every pod that the queue knows; each is in exactly one of the structures below.
	pods          map[types.UID]*entry
	active        podHeap
	backoff       podHeap
	errorBackoff  podHeap
	unschedulable podList // Unschedulable and Gated
	inFlight      inFlight
	metrics       *metrics
	// reported names the misdeeds of plugins that were logged in this generation.
	reported sets.Set[string]
	// reloading is the Reconfigure under way, nil if there is none. Only while there is one are
	// pods outdated.
	reloading *reload
	closed    bool

	done chan struct{} // closed by Close
}

var (
	_ fwk.PodNominator = &Queue{}
	_ fwk.PodActivator = &Queue{}
)

// New returns a queue that takes no pods until Reconfigure is called. The metrics of
// k8s.io/kubernetes/pkg/scheduler must have been registered.
func New(cfg Config) *Queue {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	m := newMetrics(cfg.Metrics)
	q := &Queue{
		clock:     cfg.Clock,
		podLister: cfg.PodLister,
		popped:    cfg.Popped,
		rules:     &ruleSet{less: defaultLess},
		pods:      map[types.UID]*entry{},
		inFlight:  inFlight{metrics: m},
		metrics:   m,
		reported:  sets.New[string](),
		done:      make(chan struct{}),
	}
	q.poppable.L = &q.mu
	q.nominator = newNominator(&q.mu, cfg.PodLister)
	q.active.less = q.lessLocked
	q.backoff.less = q.lessBackoffLocked
	q.errorBackoff.less = q.lessErrorBackoffLocked
	return q
}

// Close makes Pop return nil from now on, and lets go of all pods. No plugin is asked from now on:
// they are about to be closed, while informers may go on for a moment, and the metrics of their
// profiles are about to be deleted. It may be called more than once.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.done)
	for q.inFlight.first != nil {
		q.releaseLocked(q.inFlight.first)
	}
	for _, e := range q.pods {
		q.dropLocked(e)
	}
	q.rules = &ruleSet{less: defaultLess}
	q.poppable.Broadcast()
}

// Add queues a pod that is not assigned yet. Adding a pod twice is adding it once. Pods are known
// by their UID, which they must have.
func (q *Queue) Add(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(logger, pod, labelAdd)
}

// addLocked is Add for callers that hold mu. event is the label of what caused it, for metrics.
func (q *Queue) addLocked(logger klog.Logger, pod *corev1.Pod, event string) {
	p := q.rules.profiles[pod.Spec.SchedulerName]
	if p == nil || pod.Spec.NodeName != "" {
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
	if reason := gone(q.podLister, pod); reason != "" {
		logger.V(4).Info("The pod is not queued", "pod", klog.KObj(pod), "reason", reason)
		return
	}
	if e != nil {
		e.flight.deleted = false
		return
	}
	e = newEntry(pod, p, q.clock.Now())
	q.pods[pod.UID] = e
	q.enqueueLocked(logger, e, immediately, event)
	if e.place != Gated {
		q.nominator.addQueueLocked(logger, e.info.PodInfo, nil)
	}
}

// Update takes note of a new version of a pod that is not assigned. A waiting pod is looked at
// again if a hint says that the change may help it; for one in flight the change is kept until it
// comes back; one that is not known is queued. oldPod may be nil. If it has another UID, it was
// deleted and re-created under its name.
func (q *Queue) Update(logger klog.Logger, oldPod, newPod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.updateLocked(logger, oldPod, newPod, true)
}

// UpdateAssumed is Update for a pod that is assumed to be on a node, which may yet be refused: one
// that is not known was released, is about to be bound or given back, and is not queued.
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
	if e != nil && !q.current(logger, e) {
		e = nil
	}
	if e != nil && e.pod.Spec.SchedulerName != newPod.Spec.SchedulerName && e.place != InFlight {
		q.dropLocked(e)
		e = nil
	}
	if q.rules.profiles[newPod.Spec.SchedulerName] == nil {
		if e != nil { // it is in flight: its owner is told when it comes back, unless there is a profile again by then
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
	if e.place != InFlight {
		q.nominator.updateQueueLocked(logger, oldPod, e.info.PodInfo)
	}
	switch e.place {
	case InFlight:
		e.flight.deleted = false
		for _, event := range schedframework.PodSchedulingPropertiesChange(newPod, oldPod) {
			q.inFlight.record(clusterEvent{event: event, oldObj: oldPod, newObj: newPod})
		}
	case Unschedulable, Gated:
		for _, event := range schedframework.PodSchedulingPropertiesChange(newPod, oldPod) {
			ev := clusterEvent{event: event, oldObj: oldPod, newObj: newPod}
			if s := q.worthRequeuingLocked(logger, e, &ev); s != stay {
				q.enqueueLocked(logger, e, s, event.Label())
				break
			}
		}
	default:
		heap.Fix(q.heapOf(e.place), e.index) // the sort may look at what has changed
	}
}

// Delete forgets a pod that was deleted, or is assigned now, wherever it is. One in flight is
// dropped when it comes back. The pod may be an old version of itself, and need not be known.
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

// Pop takes the pod that is next, and waits until there is one. It returns nil once the queue is
// closed. The caller owns what is returned, and must release the pod by Done or Requeue on every
// path.
func (q *Queue) Pop(logger klog.Logger) *schedframework.QueuedPodInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	var e *entry
	for e == nil {
		for !q.closed && q.active.Len() == 0 && q.backoff.Len() == 0 {
			q.poppable.Wait()
		}
		if q.closed {
			logger.V(2).Info("The scheduling queue is closed")
			return nil
		}
		if e = q.active.first(); e == nil {
			e = q.backoff.first()
		}
		if e.outdated() {
			q.current(logger, e) // which may have it be another one's turn
			e = nil
		}
	}
	if e.place == Backoff {
		q.metrics.entered(Active, schedframework.PopFromBackoffQ)
	}
	q.detach(e)
	q.metrics.moved(e, InFlight)
	info := e.info
	q.metrics.rejected(info, -1)
	info.Attempts++
	q.noteFirstAttempt(info)
	e.place, e.info = InFlight, nil
	e.flight.started = *info.InitialAttemptTimestamp
	q.inFlight.add(e)
	if q.popped != nil {
		q.popped(e.pod.Spec.SchedulerName)
	}
	return info
}

// Done releases a popped pod: it is bound, or gone, or nothing that happens in the cluster from now
// on can matter to it. It is a no-op for pods that are not in flight.
func (q *Queue) Done(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pods[uid]; e != nil && e.place == InFlight {
		q.releaseLocked(e)
	}
}
