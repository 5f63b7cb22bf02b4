// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// eventNodes are the nodes of the clusters of BenchmarkDecideAmidEvents.
const eventNodes = 5000

// BenchmarkDecideAmidEvents measures decisions while pods are nominated, and decisions about pods
// that fit nowhere while nodes come.
func BenchmarkDecideAmidEvents(b *testing.B) {
	kind := func(kind string) func(int) *corev1.Pod {
		return func(i int) *corev1.Pod { return workload.Pods{Kind: kind}.Pod(i) }
	}
	requesting := func(kind string, resourceName corev1.ResourceName, amount string) func(int) *corev1.Pod {
		return func(i int) *corev1.Pod {
			pod := workload.Pods{Kind: kind}.Pod(i)
			pod.Spec.Containers[0].Resources.Requests[resourceName] = resource.MustParse(amount)
			return pod
		}
	}
	tooLarge := requesting(workload.Basic, corev1.ResourceCPU, "1000")
	for _, scene := range []struct {
		name string
		pod  func(i int) *corev1.Pod
		// nominated is the number of nominated pods, which avoid each other. If event is not nil,
		// it happens before each decision.
		nominated int
		event     func(b *testing.B, c decidebench.Cluster, i int)
	}{
		{"quiet/basic", kind(workload.Basic), 0, nil},
		{"quiet/anti", kind(workload.Anti), 0, nil},
		{"one-nominated/basic", kind(workload.Basic), 1, nil},
		{"one-nominated/anti", kind(workload.Anti), 1, nil},
		{"one-nominated/spread", kind(workload.Spread), 1, nil},
		{"1000-nominated/basic", kind(workload.Basic), 1000, nominateAnother},
		{"1000-nominated/anti", kind(workload.Anti), 1000, nominateAnother},
		{"no-room/quiet", tooLarge, 0, nil},
		{"no-room/node-added", tooLarge, 0, addNode},
		{"no-room/gpu", requesting(workload.Basic, "nvidia.com/gpu", "1"), 0, nil},
		{"no-room/affinity-and-pod-placed", besideNobody, 0, placePod},
	} {
		b.Run(scene.name, func(b *testing.B) {
			cluster, err := decidebench.New(decidebench.Livesched)
			if err != nil {
				b.Fatal(err)
			}
			defer cluster.Close()
			for i := range eventNodes {
				cluster.AddNode(workload.Node(i))
			}
			decide := func(pod *corev1.Pod) {
				var unfit *schedframework.FitError
				if _, err := cluster.Place(pod); err != nil && !errors.As(err, &unfit) {
					b.Fatal(err)
				}
			}
			made := func(from, to int) (pods []*corev1.Pod) {
				for i := from; i < to; i++ {
					pods = append(pods, workload.Admit(scene.pod(i)))
				}
				return pods
			}
			for i := range scene.nominated {
				nominate(b, cluster, i, workload.NodeName(i))
			}
			for _, pod := range made(0, warmUp) {
				decide(pod)
			}
			pods := made(warmUp, warmUp+b.N)
			before := decidebench.CPUTime()
			b.ResetTimer()
			for i, pod := range pods {
				if scene.event != nil {
					scene.event(b, cluster, i)
				}
				decide(pod)
			}
			b.StopTimer()
			b.ReportMetric(float64((decidebench.CPUTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// besideNobody returns a pod that has to run in the zone of pods that there are not.
func besideNobody(i int) *corev1.Pod {
	pod := workload.Pods{Kind: workload.Basic}.Pod(i)
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelTopologyZone,
			LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "nobody"}),
		}},
	}}
	return pod
}

// nominated returns a pod to nominate. Pods of another number have another name.
func nominated(i int) *corev1.Pod {
	pod := workload.Admit(workload.Pods{Kind: workload.Anti}.Pod(i))
	pod.Name = fmt.Sprint("nominated-", i)
	pod.UID = types.UID(pod.Name)
	return pod
}

func nominate(b *testing.B, c decidebench.Cluster, i int, node string) {
	b.Helper()
	if err := c.Nominate(nominated(i), node); err != nil {
		b.Fatal(err)
	}
}

// nominateAnother nominates a pod to a node, or ends that.
func nominateAnother(b *testing.B, c decidebench.Cluster, i int) {
	if i%2 == 0 {
		nominate(b, c, -1, workload.NodeName(eventNodes/2))
	} else {
		c.Denominate(nominated(-1))
	}
}

func addNode(_ *testing.B, c decidebench.Cluster, i int) { c.AddNode(workload.Node(eventNodes + i)) }

func placePod(b *testing.B, c decidebench.Cluster, i int) {
	if _, err := c.Place(workload.Admit(workload.Pods{Kind: workload.Basic}.Pod(i))); err != nil {
		b.Fatal(err)
	}
}
