// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestPodsOfANewProfileAreQueuedByAge has pods that waited before their profile was there, as after
// each start of the process.
func TestPodsOfANewProfileAreQueuedByAge(t *testing.T) {
	h := listening(t)
	byName := toolscache.Indexers{pendingIndex: func(obj any) ([]string, error) {
		return []string{obj.(*corev1.Pod).Spec.SchedulerName}, nil
	}}
	p := &Pending{indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, byName), cache: h.cache,
		queue: h.queue}
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const count = 50
	for i := range count {
		pod := podAt(types.UID(fmt.Sprint(i)), "1", "")
		// The youngest has the first name. Two pods are of one age each, and go by name.
		pod.Name = fmt.Sprintf("pod-%02d", count-i)
		pod.CreationTimestamp = metav1.NewTime(created.Add(time.Duration(i/2) * time.Second))
		if err := p.indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	p.Enqueue(logr.Discard(), "mine")
	for i := range count {
		if got, want := h.queue.Pop(logr.Discard()).Pod.Pod.UID, types.UID(fmt.Sprint(i^1)); got != want {
			t.Fatalf("pod %s is at position %d, not %s", got, i, want)
		}
	}
}
