// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// BenchmarkDecide measures what a decision costs in the scheduling loop: the snapshot is refreshed, a node is chosen, and
// the pod is assumed there, so that the next decision finds that something has changed. The contenders get the same pods
// in the same run; only the ratio of two figures of one run means anything.
//
//	go test -run '^$' -bench Decide -benchtime 500x ./internal/scheduler/algorithm
//
// The kinds of pods are those of docs/performance.md.
func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15000} {
		for _, kind := range []string{"basic", "owned", "spread", "anti", "affinity", "mixed", "unique", "labels", "daemon"} {
			for _, who := range []string{"livesched", "scalar", "kube-scheduler", "kube-scheduler,100%"} {
				b.Run(fmt.Sprintf("%s/%d/%s", kind, nodes, who), func(b *testing.B) {
					ctx, cancel := context.WithCancel(quiet(b))
					percentage := int32(100)
					if who == "kube-scheduler" {
						percentage = 0
					}
					o := newOracle(ctx, b, setup{percentage: percentage, parallelism: 16, change: unspied})
					defer func() {
						cancel()
						frameworkruntime.WaitForShutdown(o.framework)
					}()
					measureDecisions(b, o, kind, nodes, who)
				})
			}
		}
	}
}

// unspied takes the spy out of a profile, which keeps its decisions off the fast path.
func unspied(p *schedconfig.KubeSchedulerProfile) {
	p.Plugins.PreScore.Enabled = nil
}

// warmUp is how many pods are decided about before the clock runs: more than there are classes.
const warmUp = 200

func measureDecisions(b *testing.B, o *oracle, kind string, nodes int, who string) {
	place := benchDecider(b, o, nodes, who)
	total := warmUp + b.N
	pods := make([]*corev1.Pod, total)
	for i := range pods {
		pods[i] = benchPod(kind, i)
	}
	for _, pod := range pods[:warmUp] {
		place(pod)
	}
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	for _, pod := range pods[warmUp:] {
		place(pod)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "us/pod")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what all goroutines have used so far. On a machine that others use it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchObjects puts what the pods of the benchmarks need into the informers.
func benchObjects(o *oracle) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner", ResourceVersion: "1"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"kind": "owned"}},
	}
	o.must(o.factory.Core().V1().Services().Informer().GetIndexer().Add(service))
	o.must(o.factory.Core().V1().Namespaces().Informer().GetIndexer().Add(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", ResourceVersion: "2"}}))
}

// benchDecider returns what decides about a pod and assumes it.
func benchDecider(b *testing.B, o *oracle, nodes int, who string) func(*corev1.Pod) {
	logger := klog.FromContext(o.ctx)
	benchObjects(o)
	if who == "kube-scheduler" || who == "kube-scheduler,100%" {
		for i := range nodes {
			o.upstream.Cache.AddNode(logger, benchNode(i))
		}
		return func(pod *corev1.Pod) {
			o.refresh()
			result, err := o.upstreamDecision(pod)
			o.must(err)
			assumed := pod.DeepCopy()
			assumed.Spec.NodeName = result.SuggestedHost
			o.must(o.upstream.Cache.AssumePod(logger, assumed))
		}
	}
	w := newWorldOn(b, o, 1, 0)
	if who == "scalar" {
		w.ours = New(Config{Snapshot: w.snapshot})
	}
	return w.decider(nodes)
}

// decider adds nodes, and returns what decides about a pod on these and assumes it.
func (w *world) decider(nodes int) func(*corev1.Pod) {
	logger := klog.FromContext(w.ctx)
	for i := range nodes {
		w.cache.AddNode(logger, benchNode(i))
	}
	profile := w.profile("default-scheduler", func(*schedconfig.KubeSchedulerProfile) {})
	return func(pod *corev1.Pod) {
		w.must(w.cache.UpdateSnapshot(logger, w.snapshot))
		result, err := w.ours.Schedule(w.ctx, profile, schedframework.NewCycleState(), pod)
		w.must(err)
		assumed := *pod
		assumed.Spec.NodeName = result.SuggestedHost
		if result.Class.ID != 0 {
			w.must(w.cache.AssumePodOfClass(logger, &assumed, result.Class))
			return
		}
		info, err := schedframework.NewPodInfo(&assumed)
		w.must(err)
		w.must(w.cache.AssumePod(logger, info))
	}
}

func benchNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{hostname: name, zone: fmt.Sprintf("zone-%d", i%3)}},
		Status:     corev1.NodeStatus{Allocatable: capacity, Capacity: capacity},
	}
}

// benchPod returns a pod as controllers and the API server make them.
func benchPod(kind string, i int) *corev1.Pod {
	if kind == "mixed" {
		kind = []string{"basic", "spread", "anti", "affinity"}[i%4]
	}
	name := fmt.Sprintf("%s-%d", kind, i)
	app := fmt.Sprintf("%s-%d", kind, i%20)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app, "kind": kind}},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/app:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("200Mi"),
			}}}},
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			},
			Volumes: []corev1.Volume{{Name: "kube-api-access-" + name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
		},
	}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	switch kind {
	case "spread":
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own},
			{MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own},
		}
	case "anti":
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: hostname, LabelSelector: own}},
		}}
	case "affinity":
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: own}},
			},
		}}
	case "unique":
		pod.Labels["app"] = name
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(100+i), resource.DecimalSI)
	case "labels":
		pod.Labels["app"] = name
	case "daemon": // as the DaemonSet controller makes them: each for a node of its own
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{benchNode(i % 1000).Name}},
				},
			}}},
		}}
	}
	return pod
}
