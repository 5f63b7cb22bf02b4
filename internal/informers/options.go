// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/interning"
)

// CacheOptions returns the options of the manager's cache that a [Source] needs:
//
//   - no resync, as in kube-scheduler: controller-runtime's default would hand every handler an
//     update of every object every ten hours;
//   - no terminated pods (phase Succeeded or Failed), since they do not use resources of a node
//     (newPodInformer in pkg/scheduler/scheduler.go); pods of other schedulers are kept, since
//     they do;
//   - objects go through [interning.NewTransform], which removes fields that nothing reads and
//     makes objects share equal parts; trimBoundPods is its argument;
//   - all namespaces, since an informer of several namespaces is not a SharedIndexInformer;
//   - informers that remember the last error of their list or watch, for [SyncError].
func CacheOptions(scheme *runtime.Scheme, trimBoundPods bool) ctrlcache.Options {
	return ctrlcache.Options{
		Scheme: scheme,
		// Nil would mean ten hours; zero reaches client-go as "no resync".
		SyncPeriod:       ptr.To(time.Duration(0)),
		DefaultTransform: interning.NewTransform(trimBoundPods),
		ByObject: map[client.Object]ctrlcache.ByObject{
			&corev1.Pod{}: {Field: fields.AndSelectors(
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
			)},
		},
		NewInformer: newWatchedInformer,
	}
}

// watchedInformer is a client-go informer that remembers the last error of its list or watch.
type watchedInformer struct {
	toolscache.SharedIndexInformer
	lastErr atomic.Pointer[error]
}

var _ toolscache.SharedIndexInformer = (*watchedInformer)(nil)

func newWatchedInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration,
	indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	i := &watchedInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)}
	// This fails only for an informer that is already running.
	utilruntime.Must(i.SetWatchErrorHandlerWithContext(toolscache.DefaultWatchErrorHandler))
	return i
}

// SetWatchErrorHandler sets a handler that is called after the informer has recorded the error.
func (w *watchedInformer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return w.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) {
		handler(r, err)
	})
}

// SetWatchErrorHandlerWithContext sets a handler that is called after the informer has recorded the
// error.
func (w *watchedInformer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	return w.SharedIndexInformer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector,
		err error) {
		w.lastErr.Store(&err)
		handler(ctx, r, err)
	})
}

// lastWatchError returns the last error of an informer's list or watch, nil if there is none.
func lastWatchError(i toolscache.SharedIndexInformer) error {
	if watched, ok := i.(*watchedInformer); ok {
		return ptr.Deref(watched.lastErr.Load(), nil)
	}
	return nil
}
