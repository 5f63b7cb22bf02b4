// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// The benchmarks run the same operations on this cache and on kube-scheduler's, one after the other
// in the same run: only the ratio of two figures of one run is meaningful. The units are
// microseconds and bytes allocated per pod.
//
//	go test -run '^$' -bench . ./internal/scheduler/cache

// contender is a cache with its snapshot, used as its scheduler uses it.
type contender interface {
	addNode(node *corev1.Node)
	// assume places a pod, as read from the queue, on a node.
	assume(pod *corev1.Pod, nodeName string) *corev1.Pod
	confirm(pod *corev1.Pod)
	update(old, pod *corev1.Pod)
	remove(pod *corev1.Pod)
	refresh()
}

type ourContender struct {
	testing.TB
	cache    *Cache
	snapshot *Snapshot
	queued   *schedframework.PodInfo // a pod as the queue has parsed it; the same for all
	class    *Class                  // nil: classes are not known
}

func (o *ourContender) check(err error) {
	if err != nil {
		o.Fatal(err)
	}
}

func (o *ourContender) addNode(node *corev1.Node) { o.cache.AddNode(quiet, node) }

func (o *ourContender) assume(pod *corev1.Pod, nodeName string) *corev1.Pod {
	assumed := *pod
	assumed.Spec.NodeName = nodeName
	if o.class != nil {
		o.check(o.cache.AssumePodOfClass(quiet, &assumed, *o.class))
	} else {
		info := *o.queued
		info.Pod = &assumed
		o.check(o.cache.AssumePod(quiet, &info))
	}
	return &assumed
}

func (o *ourContender) confirm(pod *corev1.Pod)     { o.check(o.cache.AddPod(quiet, pod)) }
func (o *ourContender) update(old, pod *corev1.Pod) { o.check(o.cache.UpdatePod(quiet, old, pod)) }
func (o *ourContender) remove(pod *corev1.Pod)      { o.check(o.cache.RemovePod(quiet, pod)) }
func (o *ourContender) refresh()                    { o.check(o.cache.UpdateSnapshot(quiet, o.snapshot)) }

type theirContender struct {
	testing.TB
	cache    upstream.Cache
	snapshot *upstream.Snapshot
}

func (o *theirContender) check(err error) {
	if err != nil {
		o.Fatal(err)
	}
}

func (o *theirContender) addNode(node *corev1.Node) { o.cache.AddNode(quiet, node) }

func (o *theirContender) assume(pod *corev1.Pod, nodeName string) *corev1.Pod {
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = nodeName
	o.check(o.cache.AssumePod(quiet, assumed))
	return assumed
}

func (o *theirContender) confirm(pod *corev1.Pod)     { o.check(o.cache.AddPod(quiet, pod)) }
func (o *theirContender) update(old, pod *corev1.Pod) { o.check(o.cache.UpdatePod(quiet, old, pod)) }
func (o *theirContender) remove(pod *corev1.Pod)      { o.check(o.cache.RemovePod(quiet, pod)) }
func (o *theirContender) refresh()                    { o.check(o.cache.UpdateSnapshot(quiet, o.snapshot)) }

// eachContender runs a benchmark for both caches, on clusters of the usual sizes and for pods with
// and without anti-affinity.
func eachContender(b *testing.B, run func(b *testing.B, c contender, nodes int, template *corev1.Pod)) {
	for _, kind := range []string{"basic", "anti"} {
		template := newPod("template", "")
		if kind == "anti" {
			withRequiredAntiAffinity(template)
		}
		class := &Class{ID: 1, Like: infoOf(template)}
		class.Like.CalculateResource()
		for _, nodes := range []int{1000, 5000, 15000} {
			for _, contender := range []struct {
				name string
				make func(b *testing.B) contender
			}{
				{"kube-scheduler", func(b *testing.B) contender {
					return &theirContender{TB: b, cache: upstream.New(b.Context(), nil, false, false),
						snapshot: upstream.NewEmptySnapshot()}
				}},
				{"livesched", func(b *testing.B) contender {
					return &ourContender{TB: b, cache: New(), snapshot: NewSnapshot(), queued: infoOf(template)}
				}},
				{"livesched,class", func(b *testing.B) contender {
					return &ourContender{TB: b, cache: New(), snapshot: NewSnapshot(), class: class}
				}},
			} {
				b.Run(fmt.Sprintf("%s/%d/%s", kind, nodes, contender.name), func(b *testing.B) {
					c := contender.make(b)
					for i := range nodes {
						c.addNode(newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i%3)))
					}
					c.refresh()
					run(b, c, nodes, template)
				})
			}
		}
	}
}

// measured measures the cost per operation of n operations.
func measured(b *testing.B, n int, run func()) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	run()
	b.StopTimer()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/1000, "us/pod")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(n), "B/pod")
	b.ReportMetric(0, "ns/op")
}

// pending makes the pods in the queue, each with its own UID.
func pending(template *corev1.Pod, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = objects.Edited(template, func(p *corev1.Pod) { p.UID = newPod(fmt.Sprintf("p%d", i), "").UID })
	}
	return pods
}

// BenchmarkAssume measures the cache's part of a scheduling cycle: a copy of the pod with its node,
// the assumption, and the snapshot for the next cycle.
func BenchmarkAssume(b *testing.B) {
	eachContender(b, func(b *testing.B, c contender, nodes int, template *corev1.Pod) {
		pods := pending(template, b.N)
		measured(b, b.N, func() {
			for i, pod := range pods {
				c.assume(pod, fmt.Sprintf("n%d", i%nodes))
				c.refresh()
			}
		})
	})
}

// BenchmarkLife measures a pod from its assumption to its deletion: it is confirmed, reported to
// run, and deleted while a hundred others are at other stages, with a snapshot update each time
// another is assumed.
func BenchmarkLife(b *testing.B) {
	const apart = 25
	eachContender(b, func(b *testing.B, c contender, nodes int, template *corev1.Pod) {
		n := b.N + 4*apart
		pods := pending(template, n)
		confirmed, ran := make([]*corev1.Pod, n), make([]*corev1.Pod, n)
		for i := range pods {
			confirmed[i] = objects.Edited(pods[i], onNode(fmt.Sprintf("n%d", i%nodes)))
			ran[i] = objects.Edited(confirmed[i], reported)
		}
		measured(b, b.N, func() {
			for i := range pods {
				c.assume(pods[i], confirmed[i].Spec.NodeName)
				c.refresh()
				if i >= apart {
					c.confirm(confirmed[i-apart])
				}
				if i >= 2*apart {
					c.update(confirmed[i-2*apart], ran[i-2*apart])
				}
				if i >= 3*apart {
					c.remove(ran[i-3*apart])
				}
			}
		})
	})
}
