// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
)

// Reconfigure replaces the settings in one critical section. The settings that Pop returns with a
// pod are those whose plugins admitted, rejected and ordered that pod.
//
// A profile is new if its settings differ or if changed names it. Pods of new profiles are
// evaluated again immediately: the new PreEnqueue plugins decide whether a waiting pod becomes
// active or gated, without a back-off. Pods in flight are retried when they come back. The same
// applies to pods that another one of the two profiles of their scheduler name has to decide,
// because a canary came, went, or has another share.
//
// Pods whose scheduler name has no profile any more leave the queue and the nominator, which frees
// the room that they were nominated for. Reconfigure returns them, ordered by namespace and name.
// Pods in flight are not among them: the queue drops them when they come back.
//
// The critical section does not grow with the number of waiting pods, unless the order of the queue
// changes. Waiting pods are evaluated afterwards, by descending priority, in short turns between
// which the queue is free. A call that reaches such a pod first, such as Pop, evaluates it before
// it does anything else with it; see outdatedLocked. All pods have been evaluated when Reconfigure
// returns.
//
// On a closed queue it does nothing.
func (q *Queue) Reconfigure(logger klog.Logger, s *Settings, changed sets.Set[string]) (dropped []*corev1.Pod) {
	q.reconfiguring.Lock()
	defer q.reconfiguring.Unlock()
	r := q.newReload(logger, s, changed)
	r.replaceRules()
	takeTurns(r.runTurn)
	return r.finish()
}

// reload is one call of Reconfigure. The goroutine that makes the call owns it, except for dropped,
// which mu guards: other goroutines renew pods as well.
type reload struct {
	*Queue
	logger klog.Logger
	next   *ruleSet
	// renewed holds the scheduler names whose profile or canary is new or gone. shifted means that
	// the share of a canary has changed.
	renewed sets.Set[string]
	shifted bool
	// waiting holds the pods that waited when the settings were replaced. The reload first collects
	// the outdated ones among them and then renews those.
	waiting  []*entry
	outdated []candidate
	sorted   bool
	// maxPods is the number of pods that one turn processes at most.
	maxPods int
	// ended holds the removed nominations for which the reload has not reported NominationEnded
	// yet.
	ended []*nomination
	// dropped holds the pods that left the queue because they have no profile any more.
	dropped []*corev1.Pod
	// longestHold is the longest time for which the reload held the queue.
	longestHold time.Duration
}

func (q *Queue) newReload(logger klog.Logger, s *Settings, changed sets.Set[string]) *reload {
	old := q.currentRules() // only Close and the holder of reconfiguring replace the rules
	r := &reload{Queue: q, logger: logger, next: newRuleSet(s, old, changed, q.groups), renewed: sets.New[string](),
		maxPods: turnPods}
	for name := range sets.KeySet(old.profiles).Union(sets.KeySet(r.next.profiles)) {
		switch {
		case r.next.profiles[name] != old.profiles[name] || r.next.canaries[name] != old.canaries[name]:
			r.renewed.Insert(name)
		case r.next.splits[name] != old.splits[name]:
			r.shifted = true
		}
	}
	return r
}

func (q *Queue) currentRules() *ruleSet {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules
}

// replaceRules is the critical section of Reconfigure.
func (r *reload) replaceRules() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.noteHold(time.Now())
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
	kept := sets.New[*profileRules]()
	for p := range r.rules.all() {
		kept.Insert(p)
	}
	for p := range old.all() {
		p.replaced = !kept.Has(p)
	}
	r.rules.splitLocked(old, r.groups)
	if r.renewed.Len() == 0 && !r.shifted {
		return
	}
	// This copies pointers and reads nothing that they point to.
	r.waiting = slices.Concat(r.unschedulable.entries, r.backoff.entries, r.errorBackoff.entries, r.active.entries)
}

// runTurn does as much of the remaining work as fits into one turn. It returns false when no work
// is left.
func (r *reload) runTurn() (more bool) {
	if r.runTurnOnPods() {
		return true
	}
	// Nominations come last, when the pods that wait for their room have been renewed.
	if len(r.ended) == 0 {
		return false
	}
	nm := r.ended[0]
	r.ended = r.ended[1:]
	r.nominationEnded(r.logger, nm.nominated()) // takes turns of its own
	return true
}

// runTurnOnPods is a turn in which waiting pods are renewed. It returns false when none is left.
func (r *reload) runTurnOnPods() (more bool) {
	if len(r.waiting) == 0 && !r.sorted {
		// The order of the queue would need its lock. Priorities suffice: a pod of lower priority
		// must not take the room of a pod of higher priority.
		slices.SortStableFunc(r.outdated, byPriority)
		r.sorted = true
	}
	if r.outdated == nil {
		r.outdated = make([]candidate, 0, len(r.waiting))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.noteHold(time.Now())
	switch {
	case len(r.waiting) > 0:
		r.waiting = processSome(r.waiting, r.maxPods, r.siftLocked)
	case len(r.outdated) > 0:
		r.outdated = processSome(r.outdated, r.maxPods, func(c candidate) { r.renewLocked(r.logger, c.entry) })
	default:
		return false
	}
	return true
}

// siftLocked collects the pod if it is outdated.
func (r *reload) siftLocked(e *entry) {
	if e.outdatedLocked() {
		r.outdated = append(r.outdated, newCandidate(e))
	}
}

// finish ends the reload and returns the pods that left the queue.
func (r *reload) finish() (dropped []*corev1.Pod) {
	for name := range r.end() {
		ownmetrics.PendingPods.DeletePartialMatch(prometheus.Labels{ownmetrics.LabelProfile: name})
	}
	ownmetrics.ReloadStandstill.Observe(r.longestHold.Seconds())
	slices.SortFunc(r.dropped, byName)
	return r.dropped
}

// end is the last critical section of Reconfigure. It returns the scheduler names whose profile is
// gone.
func (r *reload) end() (gone sets.Set[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.noteHold(time.Now())
	r.reloading = nil
	gone = sets.New[string]()
	for name := range r.renewed {
		if r.rules.profiles[name] == nil && !r.closed {
			gone.Insert(name)
		}
	}
	if gone.Len() > 0 {
		r.metrics.forget(gone)
	}
	return gone
}

// noteHold records that the reload held the queue since start.
func (r *reload) noteHold(start time.Time) { r.longestHold = max(r.longestHold, time.Since(start)) }

// outdatedLocked reports whether a waiting pod has not been evaluated since its profile was
// replaced, or since it has to be decided by the other profile of its scheduler name: plugins of
// another instance rejected or admitted it. Every function that acts on the state of a waiting pod
// calls renewLocked first. Events skip outdated pods, which are retried or evaluated anyway.
func (e *entry) outdatedLocked() bool {
	return e.place != nowhere && e.place != InFlight && (e.profile.replaced || e.strayedLocked())
}

// renewLocked evaluates an outdated pod as if it was new, since the results of another instance's
// plugins do not count any more. It returns false if the pod has left the queue because its profile
// is gone.
func (q *Queue) renewLocked(logger klog.Logger, e *entry) bool {
	if !e.outdatedLocked() {
		return true
	}
	p := q.rules.assignLocked(e, e.pod)
	if p == nil {
		q.reloading.dropped = append(q.reloading.dropped, e.pod)
		q.dropLocked(e)
		return false
	}
	q.metrics.rejected(e.info, -1)
	e.profile = p
	q.classifyLocked(e)
	e.info.UnschedulablePlugins.Clear()
	e.info.PendingPlugins.Clear()
	e.info.BackoffExpiration = time.Time{}
	e.failures, e.failure, e.refusal = 0, "", ""
	q.enqueueLocked(logger, e, immediately, profileReload)
	return true
}
