// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// round is one call of Run.
type round struct {
	Config
	queue   workqueue.TypedDelayingInterface[string] // keys of groups, as namespace/name
	retries workqueue.TypedRateLimiter[string]
	pods    toolscache.Indexer

	mu sync.Mutex
	// earliest is when the status of a group may be written again.
	earliest map[string]time.Time // guarded by mu
}

func (r *round) enqueue(key string) { r.queue.AddAfter(key, settle) }

// keepNext writes the status of one group, if it has to change. It returns false at the end.
func (r *round) keepNext(ctx context.Context) bool {
	key, closed := r.queue.Get()
	if closed {
		return false
	}
	defer r.queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	g, next, err := r.read(key)
	switch {
	case err != nil:
		r.repeat(ctx, key, err)
	case g == nil:
		r.forget(key)
	case next == g.Status:
		r.retries.Forget(key)
	default:
		if wait := r.wait(key); wait > 0 {
			r.queue.AddAfter(key, wait)
			return true
		}
		if err := r.write(ctx, g, next); err != nil && !apierrors.IsNotFound(err) {
			r.repeat(ctx, key, err)
			return true
		}
		r.retries.Forget(key)
		r.pause(key, interval)
	}
	return true
}

// repeat lets a group be looked at again after an error.
func (r *round) repeat(ctx context.Context, key string, err error) {
	if ctx.Err() != nil {
		return
	}
	delay := r.retries.When(key)
	if !apierrors.IsConflict(err) { // then, the informer has not seen the latest version yet
		namespace, name, _ := toolscache.SplitMetaNamespaceKey(key)
		klog.FromContext(ctx).Error(err, "Keeping the status of a PodGroup failed", "podGroup", klog.KRef(namespace, name), "nextAttempt", delay)
	}
	r.pause(key, delay)
	r.queue.AddAfter(key, delay)
}

// read returns a group and the status that it should have, nil if it is gone.
func (r *round) read(key string) (*group, status, error) {
	object, exists, err := r.Informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, status{}, err
	}
	found, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, status{}, fmt.Errorf("the informer has a %T", object)
	}
	g := &group{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, g); err != nil {
		return nil, status{}, err
	}
	pods, err := r.membersOf(key)
	if err != nil {
		return nil, status{}, err
	}
	if len(pods) > 0 && !slices.ContainsFunc(pods, func(m *member) bool { return r.Scheduled(m.schedulerName) }) {
		return g, g.Status, nil // it belongs to another scheduler
	}
	return g, g.Status.next(g.Spec.MinMember, pods), nil
}

func (r *round) membersOf(key string) ([]*member, error) {
	objects, err := r.pods.ByIndex(byGroup, key)
	if err != nil {
		return nil, err
	}
	members := make([]*member, 0, len(objects))
	for _, object := range objects {
		if m, ok := object.(*member); ok {
			members = append(members, m)
		}
	}
	return members, nil
}

// wait returns how long to wait before the status of a group may be written.
func (r *round) wait(key string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.earliest[key])
}

// pause lets the status of a group not be written for a while.
func (r *round) pause(key string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.earliest[key] = time.Now().Add(d)
}

func (r *round) forget(key string) {
	r.retries.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.earliest, key)
}

// write writes a status. The resource version keeps the status of a group from its successor of the
// same name: the API server ignores the UID in a patch of the status of custom resources.
func (r *round) write(ctx context.Context, g *group, next status) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": g.ResourceVersion}, "status": next})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = r.Groups.Resource(podgroup.Resource).Namespace(g.Namespace).
		Patch(ctx, g.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
