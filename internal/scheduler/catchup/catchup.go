// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catchup makes a new leader wait until its cache has the bindings of the last leader, and
// the devices that it gave away.
//
// Informers lag behind the API server, by milliseconds or by seconds. A pod that is bound, but
// which the cache has as pending or not at all, takes up room that would be given away a second
// time.
//
// The wait has two ways. The first is cheap: read the present resource version from the API server,
// and wait until the informer of pods has reached it, which needs a change of any pod. Where pods
// change all the time, that takes milliseconds, and so it does for each new pod. If no pod changes,
// the second way follows: list the names of all bound pods, and wait until the cache has each.
//
// Then it waits in the second way for the resource claims, whose devices would be given away a
// second time. Many clusters have none.
package catchup

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// patience is how long to wait for a change of any pod before all bound pods are listed.
	patience = 200 * time.Millisecond
	// poll is the time between looks at informer and cache, and recheck that between reads of pods
	// that the cache still lacks.
	poll    = 5 * time.Millisecond
	recheck = time.Second
	// maxReads is the number of pods that are read then: an informer that lacks many has a long way
	// to go.
	maxReads = 10
	// A wait is logged after firstWord, and then each nextWord.
	firstWord = time.Second
	nextWord  = 30 * time.Second
	// readTimeout bounds one request, and pageSize the pods in its response.
	readTimeout = 10 * time.Second
	pageSize    = 5000
)

// retry is the time between requests that fail.
var retry = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 6, Cap: 2 * time.Second}

// Config holds what a wait reads. All fields are required.
type Config struct {
	// Client and Metadata read from the API server.
	Client   clientset.Interface
	Metadata metadata.Interface
	// Informer is the informer of pods, and Pods its lister.
	Informer toolscache.SharedIndexInformer
	Pods     corev1listers.PodLister
	// Cache is filled by a handler of the informer.
	Cache *cache.Cache
	// Claims has the resource claims.
	Claims Claims
}

// Claims has the resource claims that decisions are made with.
type Claims interface {
	// HasClaim reports whether decisions are made with this version of a claim, or a later one.
	HasClaim(claim *metav1.ObjectMeta) bool
}

// waiting is one wait. It belongs to one goroutine, except for state.
type waiting struct {
	Config
	// state is what the wait waits for now.
	state atomic.Pointer[state]
}

// state is the condition that the wait is blocked on.
type state struct {
	what string
	// missing is the number of bound pods or claims that the cache lacks.
	missing int
	err     error
}

// Wait returns when the cache has each pod that was bound, and each resource claim that was
// allocated, when Wait was called, or an error if ctx ends. It does not give up: scheduling with a
// cache that is known to be behind would overcommit nodes. The log and a metric show that it waits.
func Wait(ctx context.Context, cfg Config) error {
	w := &waiting{Config: cfg}
	w.note("the resource version", 0, nil)
	metrics.CatchingUp.Set(1)
	defer metrics.CatchingUp.Set(0)
	began := time.Now()
	talking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.talk(talking, began) })
	err := w.run(ctx)
	stop()
	running.Wait()
	if err == nil {
		klog.FromContext(ctx).Info("The cache has all bindings and claims", "waited", time.Since(began))
	}
	return err
}

func (w *waiting) note(what string, missing int, err error) {
	w.state.Store(&state{what, missing, err})
}

// talk logs what the wait waits for, if it takes long.
func (w *waiting) talk(ctx context.Context, began time.Time) {
	timer := time.NewTimer(firstWord)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		s := w.state.Load()
		klog.FromContext(ctx).Info("Not scheduling yet: the cache may lack bindings of the last leader",
			"waitingFor", s.what, "missing", s.missing, "lastError", s.err, "waited", time.Since(began))
		timer.Reset(nextWord)
	}
}

func (w *waiting) run(ctx context.Context) error {
	pods := &resource{
		name: "pods", objects: w.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")), selector: boundPods,
		has: w.hasPod, isGone: w.isPodGone,
	}
	missing, err := w.missingPods(ctx, pods)
	if err != nil {
		return err
	}
	if err := w.awaitAll(ctx, pods, missing); err != nil {
		return err
	}
	claims := &resource{name: "resource claims",
		objects: w.Metadata.Resource(resourcev1.SchemeGroupVersion.WithResource("resourceclaims")),
		has:     w.Claims.HasClaim}
	claims.isGone = claims.isDeleted
	if missing, err = w.missing(ctx, claims); err != nil {
		return err
	}
	return w.awaitAll(ctx, claims, missing)
}

// missingPods returns the bound pods that the cache lacks.
func (w *waiting) missingPods(ctx context.Context, pods *resource) ([]*metav1.ObjectMeta, error) {
	var version string
	err := w.read(ctx, "the resource version", func(ctx context.Context) error {
		one, err := w.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			version = one.ResourceVersion
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	reached, err := w.reach(ctx, version)
	if err != nil {
		return nil, err
	}
	if reached {
		return w.undelivered(), nil
	}
	return w.missing(ctx, pods)
}

// read calls f until it succeeds or ctx ends.
func (w *waiting) read(ctx context.Context, what string, f func(context.Context) error) error {
	return retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		err := f(ctx)
		w.note(what, 0, err)
		return err == nil, nil
	})
}

// reach reports whether the informer's store reaches a resource version soon.
func (w *waiting) reach(ctx context.Context, version string) (bool, error) {
	reached := func(context.Context) (bool, error) {
		stored := w.Informer.GetStore().LastStoreSyncResourceVersion()
		order, err := resourceversion.CompareResourceVersion(stored, version)
		if err != nil || order < 0 {
			return false, nil
		}
		// The objects of a new list are stored one by one, in any order: wait for all of them.
		order, err = resourceversion.CompareResourceVersion(stored, w.Informer.LastSyncResourceVersion())
		return err != nil || order >= 0, nil
	}
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, reached)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil, nil
}

// undelivered returns the bound pods that the informer has, and that its handler has not delivered.
func (w *waiting) undelivered() []*metav1.ObjectMeta {
	all, err := w.Pods.List(labels.Everything())
	if err != nil {
		return nil // a store has no errors
	}
	var missing []*metav1.ObjectMeta
	for _, pod := range all {
		if pod.Spec.NodeName != "" && !w.hasPod(&pod.ObjectMeta) {
			missing = append(missing, &pod.ObjectMeta)
		}
	}
	return missing
}

func (w *waiting) hasPod(pod *metav1.ObjectMeta) bool {
	_, err := w.Cache.GetPod(&corev1.Pod{ObjectMeta: *pod})
	return err == nil
}

// isPodGone reports whether a pod takes up no room any more.
func (w *waiting) isPodGone(ctx context.Context, pod *metav1.ObjectMeta) bool {
	now, err := w.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.UID != pod.UID || now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed
}
