// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resourceScenes are about what pods need of a node.
func resourceScenes() {
	const full = `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, requests: {cpu: 3}}}
`
	BeforeAll(func(ctx context.Context) {
		class := &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "sandboxed",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}
		create(ctx, class)
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, class)).To(Succeed()) })
	})

	DescribeTable("by the room on nodes:", play,
		Entry("to the last bit", full+`
pod: {requests: {cpu: 1}}
`, goesTo("n1")),
		Entry("and not a bit beyond", full+`
pod: {requests: {cpu: 1001m}}
`, goesNowhere("1 Insufficient cpu")),
		Entry("of every kind that it needs", `
nodes: {n1: {allocatable: {ephemeral-storage: 10Gi}}}
pod: {requests: {cpu: 5, memory: 9Gi, ephemeral-storage: 11Gi}}
`, goesNowhere("1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient memory")),
		Entry("for one that asks for nothing, also when it is full", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, requests: {cpu: 4, memory: 8Gi}}}
pod: {requests: {}}
`, goesTo("n1")),
		Entry("in the number of pods", `
nodes: {n1: {allocatable: {pods: 1}}, n2: {allocatable: {pods: 2}}}
pods: {r1: {nodeName: n1}, r2: {nodeName: n2}}
pod: {}
`, goesTo("n2")),
		Entry("in the number of pods, for one that asks for nothing, too", `
nodes: {n1: {allocatable: {pods: 1}}}
pods: {r1: {nodeName: n1, requests: {}}}
pod: {requests: {}}
`, goesNowhere("1 Too many pods")),
		Entry("for extended resources", `
nodes: {n1: {}, n2: {allocatable: {example.com/gpu: 2}}}
pods: {resident: {nodeName: n2, requests: {example.com/gpu: 1}}}
pod: {requests: {example.com/gpu: 1}}
`, goesTo("n2")),
		Entry("for extended resources, which run out", `
nodes: {n1: {}, n2: {allocatable: {example.com/gpu: 2}}}
pods: {resident: {nodeName: n2, requests: {example.com/gpu: 1}}}
pod: {requests: {example.com/gpu: 2}}
`, goesNowhere("2 Insufficient example.com/gpu")),
		Entry("for huge pages", `
nodes: {n1: {}, n2: {allocatable: {hugepages-2Mi: 4Mi}}}
pod: {containers: [{resources: {requests: {cpu: 1, hugepages-2Mi: 4Mi}, limits: {cpu: 1, hugepages-2Mi: 4Mi}}}]}
`, goesTo("n2")),
	)

	DescribeTable("by what its containers need together:", play,
		Entry("all of them", full+`
pod: {containers: [{resources: {requests: {cpu: 600m}}}, {resources: {requests: {cpu: 600m}}}]}
`, goesNowhere("1 Insufficient cpu")),
		Entry("the biggest of the init containers, which run before", full+`
pod: {initContainers: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 900m}}}], containers: [{resources: {requests: {cpu: 1}}}]}
`, goesTo("n1")),
		Entry("an init container that needs more than the others", full+`
pod: {initContainers: [{resources: {requests: {cpu: 1100m}}}], containers: [{resources: {requests: {cpu: 1}}}]}
`, goesNowhere("1 Insufficient cpu")),
		Entry("sidecars beside the others", full+`
pod: {initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 600m}}}], containers: [{resources: {requests: {cpu: 600m}}}]}
`, goesNowhere("1 Insufficient cpu")),
		Entry("sidecars beside the init containers after them", full+`
pod: {initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 600m}}}, {resources: {requests: {cpu: 500m}}}], containers: [{resources: {requests: {cpu: 100m}}}]}
`, goesNowhere("1 Insufficient cpu")),
		Entry("but not sidecars beside the init containers before them", full+`
pod: {initContainers: [{resources: {requests: {cpu: 900m}}}, {restartPolicy: Always, resources: {requests: {cpu: 600m}}}], containers: [{resources: {requests: {cpu: 400m}}}]}
`, goesTo("n1")),
		Entry("the overhead of its runtime class", full+`
pod: {runtimeClassName: sandboxed, requests: {cpu: 100m}}
`, goesNowhere("1 Insufficient cpu")),
		Entry("the overhead of those that are there", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, runtimeClassName: sandboxed, requests: {cpu: 2500m}}}
pod: {requests: {cpu: 1}}
`, goesNowhere("1 Insufficient cpu")),
		Entry("what the pod asks for as a whole rather than its containers", full+`
pod: {resources: {requests: {cpu: 2}}, containers: [{resources: {requests: {cpu: 100m}}}]}
`, goesNowhere("1 Insufficient cpu")),
		Entry("what those that are there ask for as a whole", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, resources: {requests: {cpu: 3500m}}, containers: [{resources: {requests: {cpu: 100m}}}]}}
pod: {requests: {cpu: 1}}
`, goesNowhere("1 Insufficient cpu")),
		Entry("the sidecars of those that are there", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}], containers: [{resources: {requests: {cpu: 1500m}}}]}}
pod: {requests: {cpu: 1}}
`, goesNowhere("1 Insufficient cpu")),
	)

	resize := func(ctx context.Context, pod *corev1.Pod, quantity string) {
		GinkgoHelper()
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		cpu(quantity)(pod)
		Expect(k8s.SubResource("resize").Update(ctx, pod)).To(Succeed())
	}
	// runsWith has the status of a pod say what its container has been given.
	runsWith := func(ctx context.Context, pod *corev1.Pod, quantity string) {
		GinkgoHelper()
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		given := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity), corev1.ResourceMemory: resource.MustParse("100Mi")}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", AllocatedResources: given, Resources: &corev1.ResourceRequirements{Requests: given},
			Image: "registry.example/pause:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
	}

	It("is found when a pod is made smaller in place, once it really is", func(ctx context.Context) {
		nodes(ctx, "n1")
		resident := podOf("somebody-else", "resident", cpu("3"), on("n1"))
		create(ctx, resident)
		runsWith(ctx, resident, "3")
		expectSeen(ctx, 1)
		pod := createPod(ctx, "mine", "pod", cpu("2"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu. "))
		resize(ctx, resident, "1")
		expectPending(ctx, pod)
		runsWith(ctx, resident, "1")
		Expect(expectBound(ctx, pod)).To(Equal("n1"))
	})

	It("is not found any more when a pod is made bigger in place, before it really is", func(ctx context.Context) {
		nodes(ctx, "n1")
		resident := podOf("somebody-else", "resident", cpu("1"), on("n1"))
		create(ctx, resident)
		runsWith(ctx, resident, "1")
		resize(ctx, resident, "3")
		expectSeen(ctx, 1)
		expectUnscheduled(ctx, createPod(ctx, "mine", "pod", cpu("2")), corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu. "))
	})
}

// hostPortScenes are about ports of nodes.
func hostPortScenes() {
	const taken = "node(s) didn't have free ports for the requested pod ports"

	DescribeTable("by host ports:", play,
		Entry("where the port is free", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, goesTo("n2")),
		Entry("nowhere when it is taken everywhere", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}, r2: {nodeName: n2, ports: [{containerPort: 81, hostPort: 8080}]}}
pod: {ports: [{containerPort: 82, hostPort: 8080}]}
`, goesNowhere("2 "+taken)),
		Entry("beside another port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8081}]}
`, goesTo("n1")),
		Entry("beside another protocol on the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 53, hostPort: 53, protocol: TCP}]}}
pod: {ports: [{containerPort: 53, hostPort: 53, protocol: UDP}]}
`, goesTo("n1")),
		Entry("beside another address with the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.2}]}
`, goesTo("n1")),
		Entry("not on one address when all addresses are taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 0.0.0.0}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.2}]}
`, goesNowhere("1 "+taken)),
		Entry("not on all addresses when one is taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, goesNowhere("1 "+taken)),
		Entry("not when any of its ports is taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 81, hostPort: 8081}, {containerPort: 80, hostPort: 8080}]}
`, goesNowhere("1 "+taken)),
		Entry("beside a pod that uses the number in its own network", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 8080}]}}
pod: {ports: [{containerPort: 8080, hostPort: 8080}]}
`, goesTo("n1")),
		Entry("not beside a pod that uses the network of the node", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, hostNetwork: true, ports: [{containerPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, goesNowhere("1 "+taken)),
		Entry("not beside a pod whose sidecar has the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, initContainers: [{restartPolicy: Always, ports: [{containerPort: 80, hostPort: 8080}]}], containers: [{}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, goesNowhere("1 "+taken)),
	)
}
