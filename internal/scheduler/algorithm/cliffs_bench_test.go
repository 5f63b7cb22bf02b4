// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// BenchmarkDecideInOddClusters measures decisions in clusters, or about pods, that occur less often
// than those of BenchmarkDecide.
func BenchmarkDecideInOddClusters(b *testing.B) {
	const nodes = 5000
	of := func(kind string) func(int) *corev1.Pod {
		return func(i int) *corev1.Pod { return workload.Pods{Kind: kind}.Pod(i) }
	}
	for _, odd := range []struct {
		name string
		node func(i int, node *corev1.Node)
		// pods are placed first, then others, which are measured.
		first, pod func(i int) *corev1.Pod
	}{
		{"one-hostname-twice/anti", shareHostname, nil, of(workload.Anti)},
		{"one-hostname-twice/spread", shareHostname, nil, hard(corev1.LabelHostname)},
		{"racks-of-4/anti", rackOf(4), nil, antiIn("rack")},
		{"racks-of-4/spread", rackOf(4), nil, hard("rack")},
		{"topology-keys-of-30-tenants", tenantKeys, nil, tenant},
		{"unique-beside-affinity", func(int, *corev1.Node) {}, of(workload.Mixed), of(workload.Unique)},
		{"unique-requests-beside-affinity", func(int, *corev1.Node) {}, of(workload.Mixed), uniqueRequests},
		{"new-label-keys-elsewhere", func(int, *corev1.Node) {}, nil, newKeysElsewhere},
	} {
		b.Run(odd.name, func(b *testing.B) {
			cluster, err := decidebench.NewWithProfiles(decidebench.Livesched, decidebench.Profiles{Number: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer cluster.Close()
			for i := range nodes {
				node := workload.Node(i)
				odd.node(i, node)
				cluster.AddNode(node)
			}
			place := func(pods []*corev1.Pod) {
				for _, pod := range pods {
					if _, err := cluster.Place(pod); err != nil {
						b.Fatal(err)
					}
				}
			}
			made := func(from, to int, pod func(int) *corev1.Pod) (pods []*corev1.Pod) {
				for i := from; i < to; i++ {
					pods = append(pods, workload.Admit(pod(i)))
				}
				return pods
			}
			if odd.first != nil {
				place(made(1_000_000, 1_001_000, odd.first))
			}
			place(made(0, warmUp, odd.pod))
			pods := made(warmUp, warmUp+b.N, odd.pod)
			b.ReportAllocs()
			before := decidebench.CPUTime()
			b.ResetTimer()
			place(pods)
			b.StopTimer()
			b.ReportMetric(float64((decidebench.CPUTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "us/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func shareHostname(i int, node *corev1.Node) {
	if i == 1 {
		node.Labels[corev1.LabelHostname] = workload.NodeName(0)
	}
}

func rackOf(nodes int) func(int, *corev1.Node) {
	return func(i int, node *corev1.Node) { node.Labels["rack"] = fmt.Sprint("rack-", i/nodes) }
}

// hard returns pods with a DoNotSchedule constraint.
func hard(key string) func(int) *corev1.Pod {
	return func(i int) *corev1.Pod {
		pod := workload.Pods{Kind: workload.Basic}.Pod(i)
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key,
			WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}}}
		return pod
	}
}

// antiIn returns pods that prefer not to share a domain.
func antiIn(key string) func(int) *corev1.Pod {
	return func(i int) *corev1.Pod {
		pod := workload.Pods{Kind: workload.Basic}.Pod(i)
		own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: own}},
			}}}
		return pod
	}
}

const tenants, keysOfTenant = 30, 3

func tenantKey(tenant, key int) string { return fmt.Sprintf("tenant-%d/key-%d", tenant, key) }

func tenantKeys(i int, node *corev1.Node) {
	for tenant := range tenants {
		for key := range keysOfTenant {
			node.Labels[tenantKey(tenant, key)] = fmt.Sprint(i % (key + 2))
		}
	}
}

// tenant returns pods of tenants in turn, each spread over the tenant's own topology keys.
func tenant(i int) *corev1.Pod {
	pod := workload.Pods{Kind: workload.Basic, Series: tenants}.Pod(i)
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	for key := range keysOfTenant {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: tenantKey(i%tenants, key),
				WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own})
	}
	return pod
}

// uniqueRequests returns pods that differ in requests alone.
func uniqueRequests(i int) *corev1.Pod {
	pod := workload.Pods{Kind: workload.Unique}.Pod(i)
	pod.Labels["app"] = workload.Unique
	return pod
}

// newKeysElsewhere returns pods of which every hundredth is in another namespace and is spread by a
// label whose key was not used before.
func newKeysElsewhere(i int) *corev1.Pod {
	if i%100 != 0 {
		return workload.Pods{Kind: workload.Owned}.Pod(i)
	}
	pod := workload.Pods{Kind: workload.Basic}.Pod(i)
	pod.Namespace = fmt.Sprint("other-", i/20_000)
	key := fmt.Sprint("key-", i)
	pod.Labels = map[string]string{key: "x"}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
		TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}}}
	return pod
}
