// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// series is how many pods share labels in the workloads that look at them.
const series = 100

// podOf returns the i-th pod of a workload, nil if there is no such workload.
func podOf(workload string, i int) *corev1.Pod {
	group := fmt.Sprintf("group-%d", i/series)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", i), Labels: map[string]string{"group": group}},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "registry.example/pause:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("200Mi"),
				}},
			}},
		},
	}
	selector := &metav1.LabelSelector{MatchLabels: pod.Labels}
	switch workload {
	case "basic":
	case "spread":
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector},
			{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector},
		}
	case "anti":
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelHostname}},
		}}
	default:
		return nil
	}
	return pod
}

// printMedians prints what each contender did, and what part of the ceiling that is.
func printMedians(o options, contenders []contender, results map[string][]result) {
	fmt.Printf("\n%s: %d pods on %d nodes, QPS %d, median of %d runs in turn\n", o.workload, o.pods, o.nodes, o.qps, o.runs)
	ceiling := median(results[contenders[0].name], func(r result) float64 { return r.podsPerSecond })
	for _, c := range contenders {
		m := result{
			podsPerSecond: median(results[c.name], func(r result) float64 { return r.podsPerSecond }),
			cpuPerPod:     median(results[c.name], func(r result) time.Duration { return r.cpuPerPod }),
			nodesUsed:     median(results[c.name], func(r result) int { return r.nodesUsed }),
		}
		fmt.Printf("%-17s %s   of the ceiling %.2f\n", c.name, m, m.podsPerSecond/ceiling)
	}
}

func median[T cmp.Ordered](results []result, of func(result) T) T {
	var values []T
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
