// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// eventReload is kept for pods in flight whose profile changed.
var eventReload = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: profileReload}

// Reconfigure replaces the settings in one critical section, in which commit, if not nil, is called as well: it makes
// the profiles that s was made of those that decide. So whoever pops a pod afterwards finds that pod's profile, and the
// plugins that let the pod pass, refused it and ordered it, to be of one generation.
//
// changed names the profiles that are not what they were; those that were not in the settings before are changed, too.
// Their pods are looked at again at once: waiting ones are asked about by the new PreEnqueue plugins and are active, or
// gated, without waiting for a back-off; those in flight are tried again when they come back.
//
// Pods of names that have no profile any more leave the queue and the nominator, and others may have the room that they
// were nominated for. They are returned, ordered by namespace and name, without those in flight: those are dropped when
// they come back.
func (q *Queue) Reconfigure(logger klog.Logger, s *Settings, changed sets.Set[string], commit func()) (dropped []*corev1.Pod) {
	gen := newGeneration(s)

	q.mu.Lock()
	defer q.mu.Unlock()
	if commit != nil {
		commit() // first: should it panic, nothing has changed
	}
	old := q.gen
	q.gen = gen
	q.reported = sets.New[string]()
	ended := q.nominator.serve(sets.KeySet(gen.profiles))
	q.reorder()

	again := changed.Clone()
	for name := range gen.profiles {
		if old.profiles[name] == nil {
			again.Insert(name)
		}
	}
	var waiting []*entry
	retry := false
	for _, e := range q.pods {
		name := e.pod.Spec.SchedulerName
		if gen.profiles[name] == nil && e.place != InFlight {
			dropped = append(dropped, e.pod)
			q.drop(e)
			continue
		}
		e.profile = gen.profiles[name]
		switch {
		case e.profile == nil || !again.Has(name):
		case e.place == InFlight:
			retry = true
		default:
			waiting = append(waiting, e)
		}
	}
	for _, e := range waiting {
		q.lookAgain(logger, e)
	}
	for _, nm := range ended {
		q.nominationEnded(logger, nm.nominated())
	}
	if retry {
		q.inFlight.record(clusterEvent{event: eventReload, reloaded: again})
	}
	for name := range old.profiles {
		if gen.profiles[name] == nil {
			q.metrics.forgetProfile(name)
		}
	}
	slices.SortFunc(dropped, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return dropped
}

// lookAgain treats a waiting pod as if it was new: what plugins of another generation said of it means nothing any
// more. Requires mu.
func (q *Queue) lookAgain(logger klog.Logger, e *entry) {
	q.metrics.rejected(e.info, -1)
	e.info.UnschedulablePlugins.Clear()
	e.info.PendingPlugins.Clear()
	e.info.BackoffExpiration = time.Time{}
	e.failures, e.failure = 0, ""
	q.enqueue(logger, e, immediately, profileReload)
}
