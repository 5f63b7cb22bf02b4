// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// turnPods and turnTime bound how long a reload holds the queue at a time, whichever is reached
	// first.
	turnPods = 256
	turnTime = 500 * time.Microsecond
)

// eventReload is kept for pods in flight whose profile changed.
var eventReload = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: profileReload}

// Reconfigure replaces the settings in one critical section. A pod that is popped afterwards was
// admitted, refused and ordered by the plugins of the settings that Pop returns with it.
//
// The profiles that are not what they were are those with other settings and those that changed
// names. Their pods are looked at again at once: waiting ones are asked about by the new PreEnqueue
// plugins and are active, or gated, without waiting for a back-off; those in flight are tried again
// when they come back.
//
// Pods of names that have no profile any more leave the queue and the nominator, and others may
// have the room that they were nominated for. They are returned, ordered by namespace and name,
// without those in flight: those are dropped when they come back.
//
// Whatever their number, waiting pods do not make the critical section longer, unless the order of
// the queue has changed: they are looked at afterwards, those of higher priority first, a few at a
// time with the queue free in between. One that somebody else comes to first, above all Pop, is
// looked at before anything else happens to it; see outdated. When Reconfigure returns, all have
// been looked at.
//
// On a closed queue it does nothing.
func (q *Queue) Reconfigure(logger klog.Logger, s *Settings, changed sets.Set[string]) (dropped []*corev1.Pod) {
	q.reconfiguring.Lock()
	defer q.reconfiguring.Unlock()
	r := q.newReload(logger, s, changed)
	r.changeOver()
	for r.turn() {
		runtime.Gosched() // who waits for the queue is to have it
	}
	return r.finish()
}

// reload is one Reconfigure under way. The goroutine that calls Reconfigure owns it.
type reload struct {
	*Queue
	logger klog.Logger
	next   *ruleSet
	// renewed are the scheduler names whose profile is another one, or gone.
	renewed sets.Set[string]
	// waiting are the pods that waited when the settings were replaced. They are sifted for
	// outdated ones, which are then looked at.
	waiting  []*entry
	outdated []ranked
	sorted   bool
	// most pods are looked at in one turn.
	most int
	// ended are the nominations that were taken back and that others are yet to be told of.
	ended []*nomination
	// dropped are pods without a profile, as far as they have left the queue.
	dropped []*corev1.Pod
	// standstill is the longest time for which the queue was held.
	standstill time.Duration
}

type ranked struct {
	*entry
	priority int32
}

func (q *Queue) newReload(logger klog.Logger, s *Settings, changed sets.Set[string]) *reload {
	old := q.currentRules() // who holds reconfiguring is the only one to replace it, Close aside
	r := &reload{Queue: q, logger: logger, next: newRuleSet(s, old, changed), renewed: sets.New[string](), most: turnPods}
	for name, p := range old.profiles {
		if r.next.profiles[name] != p {
			r.renewed.Insert(name)
		}
	}
	for name := range r.next.profiles {
		if old.profiles[name] == nil {
			r.renewed.Insert(name)
		}
	}
	return r
}

func (q *Queue) currentRules() *ruleSet {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules
}

// changeOver is the critical section of Reconfigure.
func (r *reload) changeOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.held(time.Now())
	if r.closed {
		return
	}
	old := r.rules
	r.rules = r.next
	r.reloading = r
	r.reported = sets.New[string]()
	r.ended = r.nominator.serveQueueLocked(sets.KeySet(r.rules.profiles))
	if old.order == "" || old.order != r.rules.order {
		r.reorderLocked()
	}
	for name := range r.renewed {
		if p := old.profiles[name]; p != nil {
			p.replaced = true
		}
	}
	if r.renewed.Len() == 0 {
		return
	}
	// A copy of pointers: what they point to is not looked at here.
	r.waiting = slices.Concat(r.unschedulable.entries, r.backoff.entries, r.errorBackoff.entries, r.active.entries)
	for e := r.inFlight.first; e != nil; e = e.flight.next {
		if name := e.pod.Spec.SchedulerName; r.renewed.Has(name) && r.rules.profiles[name] != nil {
			r.inFlight.record(clusterEvent{event: eventReload, reloaded: r.renewed})
			break
		}
	}
}

// turn does a part of what is left, for as long as the queue may be held. It returns false when
// nothing is left.
func (r *reload) turn() (more bool) {
	if len(r.waiting) == 0 && !r.sorted {
		// Not the order of the queue, which would have to be asked under the lock, but what matters
		// of it: pods of lower priority do not take the room of those that would have come first.
		slices.SortStableFunc(r.outdated, func(a, b ranked) int { return cmp.Compare(b.priority, a.priority) })
		r.sorted = true
	}
	if r.outdated == nil {
		r.outdated = make([]ranked, 0, len(r.waiting))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.held(time.Now())
	switch {
	case len(r.waiting) > 0:
		r.waiting = inTurn(r.waiting, r.most, r.siftLocked)
	case len(r.outdated) > 0:
		r.outdated = inTurn(r.outdated, r.most, func(o ranked) { r.current(r.logger, o.entry) })
	case len(r.ended) > 0:
		// Not with the others: whoever waits for that room may be asked now.
		nm := r.ended[0]
		r.ended = r.ended[1:]
		r.nominationEndedLocked(r.logger, nm.nominated())
	default:
		return false
	}
	return true
}

// inTurn calls do for the first of a list, most of them or as many as one turn has time for, and
// returns the others.
func inTurn[T any](list []T, most int, do func(T)) (rest []T) {
	start := time.Now()
	for i := range min(len(list), most) {
		do(list[i])
		if time.Since(start) > turnTime {
			return list[i+1:]
		}
	}
	return list[min(len(list), most):]
}

// siftLocked notes the pod if it is outdated.
func (r *reload) siftLocked(e *entry) {
	if e.outdated() {
		r.outdated = append(r.outdated, ranked{entry: e, priority: corev1helpers.PodPriority(e.pod)})
	}
}

// finish ends the reload.
func (r *reload) finish() (dropped []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reloading = nil
	for name := range r.renewed {
		if r.rules.profiles[name] == nil && !r.closed {
			r.metrics.forgetProfile(name)
		}
	}
	ownmetrics.ReloadStandstill.Observe(r.standstill.Seconds())
	slices.SortFunc(r.dropped, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return r.dropped
}

// held notes that the queue was held since start.
func (r *reload) held(start time.Time) { r.standstill = max(r.standstill, time.Since(start)) }

// outdated says whether a waiting pod has not been looked at since its profile was replaced: which
// plugins refused it, and whether they let it pass, was said by another generation. Everyone who is
// about to do something with a waiting pod by what is known of it looks at it first, by current;
// events pass it by, as it is tried again, or asked about, anyway. Requires mu.
func (e *entry) outdated() bool {
	return e.place != nowhere && e.place != InFlight && e.profile.replaced
}

// current looks at a pod if it is outdated, as if it was new: what plugins of another generation
// said of it means nothing any more. It returns false if the pod has left the queue, since its
// profile is gone. Requires mu.
func (q *Queue) current(logger klog.Logger, e *entry) bool {
	if !e.outdated() {
		return true
	}
	p := q.rules.profiles[e.pod.Spec.SchedulerName]
	if p == nil {
		q.reloading.dropped = append(q.reloading.dropped, e.pod)
		q.dropLocked(e)
		return false
	}
	q.metrics.rejected(e.info, -1)
	e.profile = p
	e.info.UnschedulablePlugins.Clear()
	e.info.PendingPlugins.Clear()
	e.info.BackoffExpiration = time.Time{}
	e.failures, e.failure = 0, ""
	q.enqueueLocked(logger, e, immediately, profileReload)
	return true
}
