// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// BenchmarkGroup decides groups of 1,000 pods on 5,000 nodes in 50 racks: all are placed, and taken
// back. What is measured is the time from Pop to the decision about the whole group, without the
// way back to the queue.
//
//	go test -run '^$' -bench Group -benchtime 20x ./internal/scheduler/loop
func BenchmarkGroup(b *testing.B) {
	for _, kind := range []struct {
		name    string
		kinds   int
		terms   bool
		cpu     string
		rack    string
		refused bool
	}{
		{"alike", 1, false, "1", "", false},
		{"alike-in-one-rack", 1, false, "500m", "rack", false},
		{"ten-kinds", 10, true, "1", "", false},
		{"hopeless", 1, false, "13", "", true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			const nodes, pods = 5000, 1000
			w := newGroupWorld(b)
			for i := range nodes {
				// One node in six has room for a pod of the hopeless group.
				cpu := 8 + i%6
				w.addNode(fmt.Sprintf("n%d", i), fmt.Sprint(cpu), "rack", fmt.Sprintf("r%d", i%50))
			}
			w.setTopology(pods, podgroup.Topology{Required: kind.rack})
			var decisions time.Duration
			for b.Loop() {
				for i := range pods {
					w.addPod(fmt.Sprintf("p%d", i), kind.cpu, func(pod *corev1.Pod) {
						if k := fmt.Sprint("kind-", i%kind.kinds); kind.terms {
							pod.Labels["kind"] = k
							objects.AwayFrom("kind", k)(pod)
						}
					})
				}
				popped := w.cluster.Queue.Pop(logr.Discard())
				began := time.Now()
				g := w.loop.newGroupCycle(&popped)
				g.skip(w.ctx)
				placed := g.attempt(w.ctx)
				decisions += time.Since(began)
				if placed == kind.refused {
					b.Fatalf("the group is placed: %v", placed)
				}
				g.TakeBack(w.ctx)
				g.End(w.ctx)
				for _, m := range g.members {
					w.cluster.Queue.Done(m.pod.Pod.UID)
					m.profile.Release(logr.Discard())
				}
			}
			b.ReportMetric(float64(decisions.Microseconds())/float64(b.N)/1000, "ms/group")
			b.ReportMetric(float64(decisions.Nanoseconds())/float64(b.N*pods)/1000, "us/pod")
		})
	}
}

// BenchmarkGroupPreempts chooses the victims for groups of pods of a high priority, on 5,000 nodes
// that are full of pods of a lower one, without evicting them. Each pod needs one victim. The pods
// of the hopeless group must be in different racks, of which there are fewer: it evicts none.
//
//	go test -run '^$' -bench GroupPreempts -benchtime 5x ./internal/scheduler/loop
func BenchmarkGroupPreempts(b *testing.B) {
	for _, kind := range []struct {
		name     string
		pods     int
		hopeless bool
		// inGroups puts the running pods of each node into a PodGroup of Kubernetes.
		inGroups bool
	}{
		{"8", 8, false, false}, {"64", 64, false, false}, {"1000", 1000, false, false}, {"64-hopeless", 64, true, false},
		{"64-among-groups", 64, false, true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			const nodes = 5000
			pods := kind.pods
			var apart []func(*corev1.Pod)
			if kind.hopeless {
				apart = append(apart, objects.Labelled("group", "g"), objects.AwayFrom("group", "g"),
					func(pod *corev1.Pod) {
						terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
						terms[0].TopologyKey = "rack"
					})
			}
			w := newGroupWorld(b)
			for i := range nodes {
				name := fmt.Sprintf("n%d", i)
				w.addNode(name, "8", "rack", fmt.Sprintf("r%d", i%50))
				var running []func(*corev1.Pod)
				if kind.inGroups {
					w.cluster.Groups.SetGroup(podgroup.Group{MinMember: 1, Priority: new(int32),
						Key: podgroup.Key{Source: podgroup.Kubernetes, Namespace: "default", Name: name}})
					running = append(running, objects.InGroup(name))
				}
				for j := range 8 {
					w.addRunning(fmt.Sprintf("%s-%d", name, j), name, "1", int32(j), running...)
				}
			}
			w.setMinMember(pods)
			var chosen time.Duration
			for b.Loop() {
				w.addMembers(pods, apart...)
				popped := w.cluster.Queue.Pop(logr.Discard())
				g := w.loop.newGroupCycle(&popped)
				g.skip(w.ctx)
				if g.attempt(w.ctx) {
					b.Fatal("the group is placed")
				}
				began := time.Now()
				plan, _, err := g.Preempt(w.ctx)
				chosen += time.Since(began)
				if (plan == nil) != kind.hopeless {
					b.Fatalf("plan %v, error %v", plan, err)
				}
				g.End(w.ctx)
				for _, m := range g.members {
					w.cluster.Queue.Done(m.pod.Pod.UID)
					m.profile.Release(logr.Discard())
				}
			}
			b.ReportMetric(float64(chosen.Microseconds())/float64(b.N)/1000, "ms/group")
			b.ReportMetric(float64(chosen.Microseconds())/float64(b.N*pods), "us/pod")
		})
	}
}
