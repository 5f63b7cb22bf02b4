// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

const pendingIndex = "livesched.io/pending-by-scheduler-name"

// Pending finds the pods to be queued by scheduler name, so that a new profile need not search all
// pods of the cluster. Safe for concurrent use.
type Pending struct {
	indexer toolscache.Indexer
	cache   *cache.Cache
	queue   *queue.Queue
}

// newPending adds the index to the pod informer.
func newPending(informer toolscache.SharedIndexInformer, c *cache.Cache, q *queue.Queue) (*Pending, error) {
	err := informer.AddIndexers(toolscache.Indexers{pendingIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok &&
			(!assigned(pod) || q.DeferredResizes() && podfields.ResizeDeferred(pod)) {
			return []string{pod.Spec.SchedulerName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return &Pending{indexer: informer.GetIndexer(), cache: c, queue: q}, nil
}

// Enqueue queues the pods of a scheduler name whose profile is new, the oldest first: among pods of
// one priority, the queue's order is that in which they came. Events that come in at the same
// time do no harm: the queue takes a pod once, and only while it is unassigned in the informers'
// cache, or its resize is deferred there.
func (p *Pending) Enqueue(logger klog.Logger, schedulerName string) {
	objs, err := p.indexer.ByIndex(pendingIndex, schedulerName)
	if err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Looking up the pods that wait for a profile failed",
			"schedulerName", schedulerName)
		return
	}
	for _, pod := range oldestFirst(objs) {
		// An assumed pod is being bound under the profile that had the name before. It will be
		// bound or queued.
		if !isAssumed(p.cache, pod) {
			p.queue.Add(logger, pod)
		}
	}
}

// oldestFirst returns the pods among objects by creation time, which has seconds, and then by name.
func oldestFirst(objs []any) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(objs))
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}
