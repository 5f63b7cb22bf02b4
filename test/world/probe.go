// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/sidebyside"
)

// checkDecisions checks that each profile decides about another pod as it does in a livesched that
// knows only the present objects, on the path that calls the plugins for each node.
func (w *World) checkDecisions(number int) {
	resolved := w.resolved()
	for _, name := range profileNames {
		profile := &v1alpha1.SchedulerProfile{}
		if err := w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: name}, profile); err != nil {
			w.fail("profile %s: %v", name, err)
		}
		if w.failure != nil {
			return
		}
		if apimeta.IsStatusConditionTrue(profile.Status.Conditions, v1alpha1.ConditionReady) {
			for _, which := range []string{"a", "b", smallProbe} {
				w.probe(number, which, resolved.Profiles[name])
			}
		}
	}
}

// probe creates a pod, and deletes it once livesched has decided.
func (w *World) probe(number int, which string, profile *resolve.Profile) {
	// The end of the probe before may have woken pods, which take its room or preempt others.
	w.RunUntil(time.Now().Add(time.Second), nil)
	if w.failure != nil || w.anyNominated() {
		return // room is kept for a pod that cannot use it
	}
	// The same pod for all profiles, and in two rounds: livesched may keep scores for its next pod.
	r := w.stream(fmt.Sprint("probe ", number/2, which))
	pod := w.newPod(r)
	w.addDetails(r, pod)
	if which == smallProbe {
		makeSmall(r, pod)
	}
	pod.Name, pod.Spec.SchedulerName = fmt.Sprintf("probe-%d-%s-%s", number, profile.Name, which), profile.SchedulerName
	withoutDevices(pod)
	w.must(w.cluster.objects.Create(w.ctx, pod))
	best, err := w.bestNodes(profile, pod)
	if err != nil {
		w.fail("a new livesched: %v", err)
		return
	}
	now := func() *corev1.Pod { return w.cluster.pods["/registry/pods/"+pod.Namespace+"/"+pod.Name] }
	gone := func() bool { return now() == nil }
	if best.Len() > 0 {
		others := w.counts["bound"] + w.counts["evicted"]
		w.RunUntil(time.Now().Add(time.Minute), func() bool { return gone() || now().Spec.NodeName != "" })
		w.RunUntil(time.Now().Add(time.Second), nil) // until others that were decided before are bound
		others = w.counts["bound"] + w.counts["evicted"] - others
		if !gone() && now().Spec.NodeName != "" {
			others--
		}
		if w.counts["probes"]++; others > 0 || w.anyNominated() {
			w.counts["probes that others came before"]++ // since the end of the probe before has woken them
		} else if w.failure == nil && (gone() || !best.Has(now().Spec.NodeName)) {
			w.fail("pod %s: the best nodes of profile %s are %v: %v", pod.Name, profile.Name, sets.List(best), now())
			w.logSituation(pod)
		}
	}
	w.deletePod(pod)
	w.RunUntil(time.Now().Add(time.Minute), gone)
}

// smallProbe is the name of probes that fit on many nodes, so that scores decide.
const smallProbe = "c"

func makeSmall(r *rand.Rand, pod *corev1.Pod) {
	main := corev1.Container{Name: "main", Image: pod.Spec.Containers[0].Image}
	main.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("8Mi")}
	pod.Spec = corev1.PodSpec{Containers: []corev1.Container{main}}
	addPodPreferences(r, pod)
	affinityOf(pod).NodeAffinity = &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{one(r, zones)}}}}}}}
}

func (w *World) anyNominated() bool {
	for _, pod := range w.cluster.pods {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
			return true
		}
	}
	return false
}

// bestNodes returns the nodes that a new livesched scores highest for a pod.
func (w *World) bestNodes(profile *resolve.Profile, pod *corev1.Pod) (sets.Set[string], error) {
	objects := sidebyside.NewObjects()
	if err := objects.Put(w.cluster.informed()...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	l, err := sidebyside.NewResolved(ctx, objects,
		func(sets.Set[string]) (*resolve.Profile, error) { return profile, nil },
		sidebyside.ScalarPath, framework.Registry{slowPlugin: newQuick})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for _, node := range w.cluster.nodes {
		l.Cache.AddNode(logr.Discard(), node)
	}
	for _, other := range w.cluster.judgedPods() {
		if other.Spec.NodeName != "" {
			if err := l.Cache.AddPod(logr.Discard(), other); err != nil {
				return nil, err
			}
		}
	}
	l.EveryNode, l.Scored = true, len(w.cluster.nodes)
	best := sets.New[string]()
	if decision := l.Decide(pod); decision.Host != "" {
		best.Insert(decision.Host) // a node that is the only one has no score
	}
	for _, node := range l.Scores {
		if node.TotalScore == l.Scores[0].TotalScore {
			best.Insert(node.Name)
		}
	}
	return best, nil
}

// newQuick returns the plugin Slow without its pauses.
func newQuick(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &slow{}, nil }
