// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Swap makes next the current map, and returns the scheduler names whose profile changed. Pods of
// removed profiles leave the queue, which Events report; a new profile takes up the pods that wait
// for its name. It may be called once Ready is closed.
func (s *Scheduler) Swap(logger klog.Logger, next *profile.Map) sets.Set[string] {
	change := s.store.Swap(logger, next, s.queue)
	for _, pod := range change.Dropped {
		s.tellDropped(logger, pod)
	}
	for name := range change.Added {
		s.takeUp(logger, name)
	}
	return change.Names
}

// takeUp queues the pods that wait for a profile that is new. Events that come in at the same time
// are no harm: the queue takes a pod once, and only while the informers hold it as unassigned.
func (s *Scheduler) takeUp(logger klog.Logger, schedulerName string) {
	pods, err := s.pending.of(schedulerName)
	if err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Looking up the pods that wait for a profile failed", "schedulerName", schedulerName)
		return
	}
	for _, pod := range pods {
		// The binding of an assumed pod is under way, under the profile that had the name before.
		// It ends in a bound pod or in a queued one.
		if !s.assumed(pod) {
			s.queue.Add(logger, pod)
		}
	}
}

// isBack interprets what came of handing a popped pod back to the queue. It returns false if there
// is nothing left to schedule: the pod is gone, bound after all, or its profile was removed while
// it was under way.
func (s *Scheduler) isBack(logger klog.Logger, pod *corev1.Pod, kept bool, err error) bool {
	switch {
	case errors.Is(err, queue.ErrGone), errors.Is(err, queue.ErrAlreadyQueued):
		logger.V(2).Info("The pod is not retried", "pod", klog.KObj(pod), "reason", err)
	case err != nil:
		utilruntime.HandleErrorWithLogger(logger, err, "Requeueing the pod failed", "pod", klog.KObj(pod))
	case !kept:
		s.tellDropped(logger, pod)
	}
	return kept
}

// tellDropped tells the owner of a pod that nobody schedules it any more.
func (s *Scheduler) tellDropped(logger klog.Logger, pod *corev1.Pod) {
	if !s.leading.Load() {
		return
	}
	name := pod.Spec.SchedulerName
	s.env.Recorder(name).WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
		"the SchedulerProfile with scheduler name %q is gone; the pod waits until there is one again", name)
}

// pendingPods finds unassigned pods by scheduler name, so that a new profile does not have to look
// at every pod of the cluster.
type pendingPods struct{ indexer toolscache.Indexer }

const pendingPodsIndex = "livesched.io/pending-by-scheduler-name"

// newPendingPods adds the index to the pod informer.
func newPendingPods(informer toolscache.SharedIndexInformer) (*pendingPods, error) {
	err := informer.AddIndexers(toolscache.Indexers{pendingPodsIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
			return []string{pod.Spec.SchedulerName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return &pendingPods{indexer: informer.GetIndexer()}, nil
}

func (p *pendingPods) of(schedulerName string) ([]*corev1.Pod, error) {
	objs, err := p.indexer.ByIndex(pendingPodsIndex, schedulerName)
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(objs))
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
