// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// roomy changes the capacity of a node.
func roomy(n *corev1.Node, of corev1.ResourceName, quantity string) *corev1.Node {
	n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
	n.Status.Allocatable[of] = resource.MustParse(quantity)
	return n
}

// haveNodeStatus changes the status of a node.
func haveNodeStatus(name string, change func(*corev1.Node)) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		n := NodeOf(name)
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(n), n)).To(Succeed())
		change(n)
		Expect(K8s.Status().Update(ctx, n)).To(Succeed())
	}
}

// p returns a pod of a table; the spec sets its scheduler.
func p(name string, changes ...func(*corev1.Pod)) *corev1.Pod { return PodOf("", name, changes...) }

func asking(of corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		r := &pod.Spec.Containers[0].Resources
		r.Requests, r.Limits = r.Requests.DeepCopy(), corev1.ResourceList{of: resource.MustParse(quantity)}
		r.Requests[of] = resource.MustParse(quantity)
	}
}

var _ = Describe("A change of nodes", Ordered, ContinueOnFailure, func() {
	var w wakers
	BeforeAll(func() { w.start() })
	BeforeEach(w.expectCleared)

	added := of(fwk.Node, fwk.Add)
	allocatable, labels, taints := of(fwk.Node, fwk.UpdateNodeAllocatable), of(fwk.Node, fwk.UpdateNodeLabel),
		of(fwk.Node, fwk.UpdateNodeTaint)

	DescribeTable("wakes the pods that it may help, and no others:", w.check,
		Entry("a node grows: pods that lack room there, not those that do not tolerate it", wake{
			plugin: "NodeResourcesFit", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			woken:   []*corev1.Pod{p("tolerant", CPU("6"), Tolerating("sick"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, corev1.ResourceCPU, "6") }),
			event:   allocatable,
		}),
		Entry("a node grows, but is still tainted", wake{
			plugin: "TaintToleration", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			asleep:  []*corev1.Pod{p("intolerant", CPU("6"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, corev1.ResourceCPU, "6") }),
			event:   allocatable,
		}),
		Entry("a node gets more of one resource, and pods lack another", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("memory", asking(corev1.ResourceMemory, "12Gi"))},
			asleep:  []*corev1.Pod{p("cpu", CPU("6"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, corev1.ResourceMemory, "16Gi") }),
			event:   allocatable,
		}),
		Entry("a node grows, but not by enough", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("small", CPU("5"))},
			asleep:  []*corev1.Pod{p("big", CPU("9"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, corev1.ResourceCPU, "6") }),
			event:   allocatable,
		}),
		Entry("a node allows more pods", wake{
			plugin: "NodeResourcesFit",
			given: []client.Object{roomy(NodeOf("n1"), corev1.ResourcePods, "1"),
				PodOf("somebody-else", "resident", OnNode("n1"))},
			woken:   []*corev1.Pod{p("pod")},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, corev1.ResourcePods, "2") }),
			event:   allocatable,
		}),
		Entry("a node gets an extended resource", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("gpu", asking("example.com/gpu", "1"))},
			asleep:  []*corev1.Pod{p("fpga", asking("example.com/fpga", "1"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) { roomy(n, "example.com/gpu", "2") }),
			event:   allocatable,
		}),
		Entry("a node with room for some is added", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("small", CPU("5"))},
			asleep:  []*corev1.Pod{p("big", CPU("9"))},
			happens: come(roomy(NodeOf("n2"), corev1.ResourceCPU, "6")), event: added,
		}),
		Entry("a node gets a label that some pods select", wake{
			plugin: "NodeAffinity", given: []client.Object{NodeOf("n1", "group", "a")},
			woken:   []*corev1.Pod{p("b", Selecting("group", "b"))},
			asleep:  []*corev1.Pod{p("c", Selecting("group", "c"))},
			happens: have(NodeOf("n1"), Relabelled("group", "b")), event: labels,
		}),
		Entry("a node that pods already selected gets a label", wake{
			plugin: "NodeAffinity", also: []string{"NodeResourcesFit"},
			given:   []client.Object{NodeOf("n1", "group", "a"), NodeOf("n2", "group", "b")},
			asleep:  []*corev1.Pod{p("a", Selecting("group", "a"), CPU("6"))},
			happens: have(NodeOf("n1"), Relabelled("group", "a", "more", "yes")), event: labels,
		}),
		Entry("a node that some pods select is added", wake{
			plugin: "NodeAffinity", given: []client.Object{NodeOf("n1", "group", "a")},
			woken:   []*corev1.Pod{p("b", Selecting("group", "b"))},
			asleep:  []*corev1.Pod{p("c", Selecting("group", "c"))},
			happens: come(NodeOf("n2", "group", "b")), event: added,
		}),
		Entry("a taint is removed: does not wake pods that wait for something else", wake{
			plugin: "NodeAffinity", given: []client.Object{Tainted(NodeOf("n1", "group", "a"), "sick")},
			asleep:  []*corev1.Pod{p("b", Selecting("group", "b"), Tolerating("sick"))},
			happens: have(NodeOf("n1"), func(n *corev1.Node) { n.Spec.Taints = nil }), event: taints,
		}),
		Entry("a taint is replaced by one that some pods tolerate", wake{
			plugin: "TaintToleration", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			woken:   []*corev1.Pod{p("one", Tolerating("gpu"))},
			asleep:  []*corev1.Pod{p("two", Tolerating("fpga")), p("three")},
			happens: have(NodeOf("n1"), func(n *corev1.Node) { Tainted(n, "gpu") }), event: taints,
		}),
		Entry("a node with a taint that some pods tolerate is added", wake{
			plugin: "TaintToleration", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			woken:   []*corev1.Pod{p("one", Tolerating("gpu"))},
			asleep:  []*corev1.Pod{p("two", Tolerating("fpga")), p("three")},
			happens: come(Tainted(NodeOf("n2"), "gpu")), event: added,
		}),
		Entry("a node is uncordoned", wake{
			plugin: "NodeUnschedulable", alone: true, given: []client.Object{Cordoned(NodeOf("n1"))},
			woken:   []*corev1.Pod{p("pod")},
			happens: have(NodeOf("n1"), func(n *corev1.Node) { n.Spec.Unschedulable = false }), event: taints,
		}),
		Entry("a node is added", wake{
			plugin: "NodeUnschedulable", alone: true, given: []client.Object{Cordoned(NodeOf("n1"))},
			woken:   []*corev1.Pod{p("pod")},
			happens: come(NodeOf("n2")), event: added,
		}),
		Entry("a cordoned node is added", wake{
			plugin: "NodeUnschedulable", alone: true, given: []client.Object{Cordoned(NodeOf("n1"))},
			asleep:  []*corev1.Pod{p("pod")},
			happens: come(Cordoned(NodeOf("n2"))), event: added,
		}),
		Entry("a node without used host ports is added", wake{
			plugin:  "NodePorts",
			given:   []client.Object{NodeOf("n1"), PodOf("somebody-else", "resident", HostPort(8080), OnNode("n1"))},
			woken:   []*corev1.Pod{p("pod", HostPort(8080))},
			happens: come(NodeOf("n2")), event: added,
		}),
		Entry("a node that a pod names is added", wake{
			plugin: "NodeAffinity", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("pod", Selecting(corev1.LabelHostname, "n2"))},
			happens: come(NodeOf("n2")), event: added,
		}),
		Entry("annotations of a node change", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep: []*corev1.Pod{p("pod", CPU("6"))},
			happens: have(NodeOf("n1"),
				func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "seen", "yes") }),
			event: of(fwk.Node, fwk.UpdateNodeAnnotation),
		}),
		Entry("conditions of a node change", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep: []*corev1.Pod{p("pod", CPU("6"))},
			happens: haveNodeStatus("n1", func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}),
			event: of(fwk.Node, fwk.UpdateNodeCondition),
		}),
		Entry("images and heartbeats of a node are reported, which affects no pod", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep: []*corev1.Pod{p("pod", CPU("6"))},
			happens: func(ctx context.Context) {
				haveNodeStatus("n1", func(n *corev1.Node) {
					n.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example/pause:1"},
						SizeBytes: 1 << 20}}
				})(ctx)
				// The next change shows that this one was handled.
				have(NodeOf("n1"),
					func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "seen", "yes") })(ctx)
			},
			event: of(fwk.Node, fwk.UpdateNodeAnnotation),
		}),
		Entry("a node is deleted", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), NodeOf("n2")},
			asleep:  []*corev1.Pod{p("pod", CPU("6"))},
			happens: goAway(NodeOf("n2")), event: of(fwk.Node, fwk.Delete),
		}),
	)
})
