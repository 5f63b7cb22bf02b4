// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"strings"
	"sync"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fragile is a handler that panics for objects named "bad".
type fragile struct{ recorder }

func (f *fragile) OnAdd(obj any, isInInitialList bool) {
	f.recorder.OnAdd(obj, isInInitialList)
	breakOver(obj)
}

func (f *fragile) OnUpdate(oldObj, obj any) {
	f.recorder.OnUpdate(oldObj, obj)
	breakOver(obj)
}

func (f *fragile) OnDelete(obj any) {
	f.recorder.OnDelete(obj)
	breakOver(obj)
}

func breakOver(obj any) {
	if obj.(client.Object).GetName() == "bad" {
		panic("it broke")
	}
}

func TestAForeignHandlerThatPanicsMissesOnlyThatEvent(t *testing.T) {
	source, cache, _ := newTestSource(t)
	server := cache.server(podKind)
	server.Add(newPod("bad"))
	server.Add(newPod("good"))
	var mu sync.Mutex // guards panics
	var panics []HandlerPanic
	scope := source.NewForeignScope(func(p HandlerPanic) {
		mu.Lock()
		defer mu.Unlock()
		panics = append(panics, p)
	})
	defer scope.Close()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(panics)
	}
	first, second := &fragile{}, &fragile{}
	scope.SetOwner("First")
	add := func(handler toolscache.ResourceEventHandler) {
		if _, err := scope.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
	}
	add(first)
	scope.SetOwner("Second")
	waitForSync(t, scope)
	eventually(t, "the panic of the initial list", func() bool { return count() == 1 })

	server.Modify(newPod("bad"))
	server.Delete(newPod("bad"))
	server.Add(newPod("late"))
	eventually(t, "the later events", func() bool { return len(first.got()) == 5 && count() == 3 })
	add(second)
	server.Add(newPod("bad"))
	eventually(t, "the panics of both", func() bool { return count() == 5 })

	mu.Lock()
	defer mu.Unlock()
	stacks := map[string]int{}
	for _, p := range panics {
		if p.Value != "it broke" || p.Kind != podKind.GroupVersionKind {
			t.Errorf("reported %v of %v", p.Value, p.Kind)
		}
		if p.Stack != nil {
			stacks[p.Owner]++
			if !strings.Contains(string(p.Stack), "breakOver") {
				t.Errorf("a stack without what panicked: %s", p.Stack)
			}
		}
	}
	if panics[0].Stack == nil || stacks["First"] != 1 || stacks["Second"] != 1 {
		t.Errorf("stacks by owner: %v; want one each, with the first panic", stacks)
	}
}

func TestThePanicOfAnOwnHandlerIsNotRecovered(t *testing.T) {
	g := &gate{handler: &fragile{}}
	for name, call := range map[string]func(){
		"add":    func() { g.OnAdd(newPod("bad"), false) },
		"update": func() { g.OnUpdate(newPod("bad"), newPod("bad")) },
		"delete": func() { g.OnDelete(newPod("bad")) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not come through")
				}
			}()
			call()
		})
	}
}
