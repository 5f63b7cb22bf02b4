// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// podsPerNode is the number of pods on each node of a benchmark, a tenth of them of each kind.
const podsPerNode = 10

// kinds are the pods of the benchmarks.
var kinds = map[string]func(*corev1.Pod){
	"owned": func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owned",
			UID: "owned", Controller: ptr.To(true)}}
	},
	"spread": func(p *corev1.Pod) {
		for _, key := range []string{zone, hostname} {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 5, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: likeItself(p),
			}, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: likeItself(p),
			})
		}
	},
	"anti": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: hostname, LabelSelector: likeItself(p)}},
		}}
	},
	"affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: zone, LabelSelector: likeItself(p)}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: hostname,
					LabelSelector: likeItself(p)}},
			},
		}}
	},
}

func likeItself(p *corev1.Pod) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: p.Labels}
}

func kindOfPod(kind string, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", kind, i)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": kind}}}
	if edit := kinds[kind]; edit != nil {
		edit(pod)
	}
	return pod
}

// benchCluster has nodes in three zones, with pods of the kinds and, mostly, of none.
func benchCluster(b testing.TB, nodes int) *cluster {
	c := newCluster(b, newGenerator(1))
	c.store(c.factory.Core().V1().Namespaces().Informer().GetIndexer(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}})
	c.store(c.factory.Core().V1().Services().Informer().GetIndexer(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "other"}})
	c.store(c.factory.Apps().V1().ReplicaSets().Informer().GetIndexer(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "owned"},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "owned"}}},
	})
	shapes := map[string]cache.Class{}
	placed := 0
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		c.cache.AddNode(quiet, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name),
			Labels: map[string]string{hostname: name, zone: fmt.Sprintf("zone-%d", i%3)},
		}})
		for range podsPerNode {
			kind := pick(c.generator,
				[]string{"owned", "spread", "anti", "affinity", "none", "none", "none", "none", "none", "none"})
			placed++
			pod := kindOfPod(kind, placed)
			pod.Spec.NodeName = name
			class, ok := shapes[kind]
			if !ok {
				info, err := schedframework.NewPodInfo(pod)
				c.must(err)
				info.CalculateResource()
				class = cache.Class{ID: cache.ClassID(len(shapes) + 1), Like: info}
				shapes[kind] = class
			}
			c.must(c.cache.AssumePodOfClass(quiet, pod, class))
		}
	}
	c.refresh()
	return c
}

// BenchmarkDecision measures the cost of one decision over all nodes, with one node updated, for
// both twins and for the plugins; and the cost of making the twins of a new class.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15000} {
		c := benchCluster(b, nodes)
		p := profiles(b, c)[0]
		feasible := c.order()
		scores := make([]int64, len(feasible))
		for _, kind := range []string{"none", "owned", "spread", "anti", "affinity"} {
			pod := kindOfPod(kind, 0)
			var crosses [2]Tracker
			build := func() {
				var err error
				crosses[0], err = p.sources.Spread(p.spread, pod)
				c.must(err)
				crosses[1], err = p.sources.Affinity(p.affinity, pod)
				c.must(err)
			}
			build()
			measure := func(what string, do func(i int)) {
				b.Run(fmt.Sprintf("nodes=%d/%s/%s", nodes, kind, what), func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						do(i)
					}
				})
			}
			measure("stale", func(int) {
				if crosses[0].Stale() || crosses[1].Stale() {
					b.Fatal("stale")
				}
			})
			measure("update", func(i int) {
				slot := feasible[i%len(feasible)]
				crosses[0].Update(slot)
				crosses[1].Update(slot)
			})
			kept := make([]cache.Slot, len(feasible))
			measure("filter", func(int) {
				copy(kept, feasible)
				crosses[1].Keep(crosses[0].Keep(kept))
			})
			measure("score", func(int) {
				crosses[0].Score(feasible, nil, scores)
				crosses[1].Score(feasible, nil, scores)
			})
			measure("build", func(int) { build() })
			measure("plugins", func(int) {
				for _, pl := range p.plugins {
					decide(silent(b), pl, pod, c.snapshot)
				}
			})
		}
	}
}

// decide runs a plugin on all nodes as the framework does, and scores all of them.
func decide(ctx context.Context, p plugin, pod *corev1.Pod, s *cache.Snapshot) {
	state := schedframework.NewCycleState()
	nodes, _ := s.List()
	if _, status := p.PreFilter(ctx, state, pod, nodes); !status.IsSkip() {
		for _, node := range nodes {
			p.Filter(ctx, state, pod, node)
		}
	}
	if p.PreScore(ctx, state, pod, nodes).IsSkip() {
		return
	}
	scores := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		scores[i].Name = node.Node().Name
		scores[i].Score, _ = p.Score(ctx, state, pod, node)
	}
	p.ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
}
