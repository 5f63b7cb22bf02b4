// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestObjectsAreThoseOfAnInformerThatHasSynced(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	cache.server(podKind).Add(newPod("b"))
	scope := source.NewScope()
	defer scope.Close()
	if objects, version := source.Objects(podKind.GroupVersionKind); len(objects) > 0 || version != "" {
		t.Errorf("got %v at %q before any scope has asked for pods", objects, version)
	}

	lister := scope.Core().V1().Pods().Lister()
	waitForSync(t, scope)
	objects, version := source.Objects(podKind.GroupVersionKind)
	var names []string
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		names = append(names, pod.Name)
		if listed, err := lister.Pods(pod.Namespace).Get(pod.Name); err != nil || listed != pod {
			t.Errorf("%s is a copy, or not in the lister: %v", pod.Name, err)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if version == "" {
		t.Error("there is no resource version")
	}
	if objects, _ := source.Objects(nodeKind.GroupVersionKind); len(objects) > 0 {
		t.Errorf("got the nodes %v, which no scope has asked for", objects)
	}
}

func TestThereAreNoObjectsBeforeTheInformerHasSynced(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.never[podKind] = true
	scope := source.NewScope()
	defer scope.Close()
	scope.Core().V1().Pods().Informer()
	if objects, version := source.Objects(podKind.GroupVersionKind); objects != nil || version != "" {
		t.Errorf("got %v at %q", objects, version)
	}
}
