// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package memsize

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

type node struct {
	name string
	next *node
	any  any
}

// text returns a string that no other value shares.
func text(n int) string { return strings.Repeat("x", n) }

// sample is a kind of value: it makes one that shares nothing, and returns it with Of it.
type sample func() (value any, size int)

func of[T any](build func() T) sample {
	return func() (any, int) {
		value := build()
		return &value, Of(&value)
	}
}

// TestOfIsWhatTheHeapHolds compares the estimate with the heap.
func TestOfIsWhatTheHeapHolds(t *testing.T) {
	for name, build := range map[string]sample{
		"numbers":        of(func() [100]int { return [100]int{} }),
		"a long string":  of(func() string { return text(10000) }),
		"short strings":  of(func() []string { return texts(200, 20) }),
		"capacity":       of(func() []string { return make([]string, 0, 500) }),
		"bytes":          of(func() []byte { return make([]byte, 5000) }),
		"a list":         of(func() *node { return list(50) }),
		"a map":          of(func() map[string]string { return textMap(100) }),
		"a small map":    of(func() map[string]string { return textMap(3) }),
		"a set":          of(func() map[int64]struct{} { return numbers(500) }),
		"in interfaces":  of(func() []any { return []any{textMap(20), ptr(text(500)), texts(3, 50)} }),
		"label selector": of(func() labels.Selector { return selector(40) }),
	} {
		t.Run(name, func(t *testing.T) {
			const copies = 200
			var held [copies]any
			got, before := 0, heap()
			for i := range held {
				held[i], got = build()
			}
			inHeap := (heap() - before) / copies
			if got < inHeap*3/4 || got > inHeap*4/3+64 {
				t.Errorf("the estimate is %d, the heap has %d", got, inHeap)
			}
			runtime.KeepAlive(&held)
		})
	}
}

func TestOfNothing(t *testing.T) {
	var s struct {
		pointer *int
		slice   []string
		table   map[string]string
		any     any
		call    func()
		channel chan int
	}
	if got := Of(&s); got != 8+24+8+16+8+8 {
		t.Errorf("got %d", got)
	}
}

func ptr[T any](v T) *T { return &v }

func texts(n, length int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = text(length)
	}
	return out
}

func textMap(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("a-label-with-a-name-%d", i)] = text(30)
	}
	return m
}

func numbers(n int) map[int64]struct{} {
	m := map[int64]struct{}{}
	for i := range n {
		m[int64(i)] = struct{}{}
	}
	return m
}

func list(n int) *node {
	var first *node
	for range n {
		first = &node{name: text(24), next: first, any: ptr(text(40))}
	}
	return first
}

func selector(values int) labels.Selector {
	requirement, err := labels.NewRequirement(text(20), selection.In, texts(values, 32))
	if err != nil {
		panic(err)
	}
	return labels.NewSelector().Add(*requirement)
}

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
