// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Bindings counts how often each pod of the namespace default was bound: it watches for changes
// that set a node. One goroutine reads the watch. The methods may be called by any goroutine.
type Bindings struct {
	watch watch.Interface

	mu    sync.Mutex // guards times
	times map[types.UID]int
}

// WatchBindings counts bindings from now on, until Stop.
func (c *Cluster) WatchBindings(ctx context.Context) (*Bindings, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	w, err := clientset.CoreV1().Pods(metav1.NamespaceDefault).Watch(context.WithoutCancel(ctx), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	b := &Bindings{watch: w, times: map[types.UID]int{}}
	go b.count()
	return b, nil
}

func (b *Bindings) count() {
	nodeOf := map[types.UID]string{}
	for event := range b.watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == nodeOf[pod.UID] {
			continue
		}
		nodeOf[pod.UID] = pod.Spec.NodeName
		b.mu.Lock()
		b.times[pod.UID]++
		b.mu.Unlock()
	}
}

// Stop ends the watch. Without it, the API server waits for the watch when it stops. It may be
// called again.
func (b *Bindings) Stop() { b.watch.Stop() }

// Of returns how often a pod was bound.
func (b *Bindings) Of(uid types.UID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times[uid]
}

// Pods returns the number of pods that were bound.
func (b *Bindings) Pods() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.times)
}

// Most returns the highest number of times that any pod was bound.
func (b *Bindings) Most() (most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.times {
		most = max(most, n)
	}
	return most
}
