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
	"k8s.io/client-go/util/retry"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// resident returns a pod of another scheduler that runs on a node.
func resident(name, nodeName string, changes ...func(*corev1.Pod)) *corev1.Pod {
	return PodOf("somebody-else", name, append(changes, OnNode(nodeName))...)
}

// terms selects pods that have a label, whatever its value, over a topology.
func terms(label, topologyKey string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}},
		TopologyKey: topologyKey,
	}}
}

func beside(label, topologyKey string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(label, topologyKey)}}
	}
}

func apart(label, topologyKey string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(label,
				topologyKey)}}
	}
}

// spread limits the skew of pods with a label, including the pod itself, to one over the values of
// a node label, with a minimum number of domains.
func spread(label, topologyKey string, minDomains int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		Labelled(label, "x")(pod)
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: &minDomains,
			LabelSelector: terms(label, topologyKey)[0].LabelSelector,
		}}
	}
}

// resize changes a pod's request of CPU.
func resize(name, quantity string) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		pod := p(name)
		// The write of the pod's condition may come in between.
		Expect(retry.RetryOnConflict(testcluster.Patience, func() error {
			if err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(quantity)
			return K8s.SubResource("resize").Update(ctx, pod)
		})).To(Succeed())
	}
}

var _ = Describe("A change of pods", Ordered, ContinueOnFailure, func() {
	var w wakers
	BeforeAll(func() { w.start() })
	BeforeEach(w.expectCleared)

	added, deleted := schedframework.EventAssignedPodAdd, schedframework.EventAssignedPodDelete
	relabel, scaledDown := assignedPod(fwk.UpdatePodLabel), assignedPod(fwk.UpdatePodScaleDown)
	const host = corev1.LabelHostname

	DescribeTable("wakes the pods that it may help, and no others:", w.check,
		// The pod itself.
		Entry("a pod gets a toleration", wake{
			plugin: "TaintToleration", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			woken: []*corev1.Pod{p("pod")}, asleep: []*corev1.Pod{p("other")},
			happens: have(p("pod"), Tolerating("sick")), event: podItself,
		}),
		Entry("a pod gets a toleration for cordoned nodes", wake{
			plugin: "NodeUnschedulable", alone: true, given: []client.Object{Cordoned(NodeOf("n1"))},
			woken: []*corev1.Pod{p("pod")}, asleep: []*corev1.Pod{p("other")},
			happens: have(p("pod"), Tolerating(corev1.TaintNodeUnschedulable)), event: podItself,
		}),
		Entry("a pod that lacks a toleration gets a label", wake{
			plugin: "TaintToleration", given: []client.Object{Tainted(NodeOf("n1"), "sick")},
			asleep:  []*corev1.Pod{p("pod")},
			happens: have(p("pod"), Labelled("app", "web")), event: podItself,
		}),
		Entry("a pod requests less", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			woken: []*corev1.Pod{p("pod", CPU("6"))}, asleep: []*corev1.Pod{p("other", CPU("6"))},
			happens: resize("pod", "1"), event: podItself,
		}),
		Entry("a pod requests more", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep:  []*corev1.Pod{p("pod", CPU("6")), p("other", CPU("6"))},
			happens: resize("pod", "7"), event: podItself,
		}),
		Entry("a pod gets an annotation", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep: []*corev1.Pod{p("pod", CPU("6"))},
			happens: have(p("pod"),
				func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "seen", "yes") }),
			event: podItself,
		}),
		Entry("a pod gets the label of its own affinity", wake{
			plugin: "InterPodAffinity", given: []client.Object{NodeOf("n1")},
			woken: []*corev1.Pod{p("pod", beside("web", host))}, asleep: []*corev1.Pod{p("other", beside("db", host))},
			happens: have(p("pod"), Labelled("web", "x")), event: podItself,
		}),

		// Gates.
		Entry("the gates of a pod are removed", wake{
			plugin: "SchedulingGates", gated: true, given: []client.Object{NodeOf("n1")},
			woken: []*corev1.Pod{p("pod", GatedBy("one", "two"))}, asleep: []*corev1.Pod{p("other", GatedBy("one"))},
			happens: have(p("pod"), GatedBy()), event: podItself,
		}),
		Entry("one of the gates of a pod is removed", wake{
			plugin: "SchedulingGates", gated: true, given: []client.Object{NodeOf("n1")},
			asleep:  []*corev1.Pod{p("pod", GatedBy("one", "two"))},
			happens: have(p("pod"), GatedBy("two")), event: podItself,
		}),
		Entry("another field of a gated pod changes", wake{
			plugin: "SchedulingGates", gated: true, given: []client.Object{NodeOf("n1")},
			asleep:  []*corev1.Pod{p("pod", GatedBy("one"))},
			happens: have(p("pod"), Labelled("app", "web")), event: podItself,
		}),
		Entry("a node is added, which helps no gated pod", wake{
			plugin: "SchedulingGates", gated: true, given: []client.Object{NodeOf("n1")},
			asleep:  []*corev1.Pod{p("pod", GatedBy("one"))},
			happens: come(NodeOf("n2")), event: of(fwk.Node, fwk.Add),
		}),

		// Room.
		Entry("a pod is deleted", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), resident("resident", "n1", CPU("3"))},
			woken:   []*corev1.Pod{p("pod", CPU("2"))},
			happens: goAway(resident("resident", "n1")), event: deleted,
		}),
		Entry("a pod terminates", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), resident("resident", "n1", CPU("3"))},
			woken: []*corev1.Pod{p("pod", CPU("2"))},
			happens: func(ctx context.Context) {
				pod := resident("resident", "n1")
				Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				pod.Status.Phase = corev1.PodFailed
				Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
			},
			event: deleted,
		}),
		Entry("a pod requests less of what others lack", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), resident("resident", "n1", CPU("3"))},
			woken:   []*corev1.Pod{p("pod", CPU("2"))},
			happens: resize("resident", "1"), event: scaledDown,
		}),
		Entry("a pod is created, which takes room", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1")},
			asleep:  []*corev1.Pod{p("pod", CPU("6"))},
			happens: come(resident("resident", "n1")), event: added,
		}),
		Entry("a pod gets a label, which frees no room", wake{
			plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), resident("resident", "n1", CPU("3"))},
			asleep:  []*corev1.Pod{p("pod", CPU("2"))},
			happens: have(resident("resident", "n1"), Labelled("app", "web")), event: relabel,
		}),
		Entry("a pod with a host port is deleted", wake{
			plugin: "NodePorts",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", HostPort(8080)),
				resident("two", "n1", HostPort(8081))},
			woken: []*corev1.Pod{p("pod", HostPort(8080))}, asleep: []*corev1.Pod{p("other", HostPort(8081))},
			happens: goAway(resident("one", "n1")), event: deleted,
		}),

		// Affinity.
		Entry("a pod loses the label of others' anti-affinity", wake{
			plugin:  "InterPodAffinity",
			given:   []client.Object{NodeOf("n1"), resident("resident", "n1", Labelled("loud", "x"), bothLabels)},
			woken:   []*corev1.Pod{p("pod", apart("loud", host))},
			asleep:  []*corev1.Pod{p("other", apart("smelly", host))},
			happens: have(resident("resident", "n1"), func(pod *corev1.Pod) { delete(pod.Labels, "loud") }),
			event:   relabel,
		}),
		Entry("a pod that others have anti-affinity to is deleted", wake{
			plugin: "InterPodAffinity",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", Labelled("loud", "x")),
				resident("two", "n1", Labelled("smelly", "x"))},
			woken:   []*corev1.Pod{p("pod", apart("loud", host))},
			asleep:  []*corev1.Pod{p("other", apart("smelly", host))},
			happens: goAway(resident("one", "n1")), event: deleted,
		}),
		Entry("a pod with anti-affinity to others is deleted", wake{
			plugin: "InterPodAffinity",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", apart("loud", host)),
				resident("two", "n1", apart("smelly", host))},
			woken:   []*corev1.Pod{p("pod", Labelled("loud", "x"))},
			asleep:  []*corev1.Pod{p("other", Labelled("smelly", "x"))},
			happens: goAway(resident("one", "n1")), event: deleted,
		}),
		Entry("a pod gets the label of others' affinity", wake{
			plugin: "InterPodAffinity", given: []client.Object{NodeOf("n1"), resident("resident", "n1")},
			woken: []*corev1.Pod{p("pod", beside("web", host))}, asleep: []*corev1.Pod{p("other", beside("db", host))},
			happens: have(resident("resident", "n1"), Labelled("web", "x")), event: relabel,
		}),
		Entry("a pod that others have affinity to is created", wake{
			plugin: "InterPodAffinity", given: []client.Object{NodeOf("n1")},
			woken: []*corev1.Pod{p("pod", beside("web", host))}, asleep: []*corev1.Pod{p("other", beside("db", host))},
			happens: come(resident("resident", "n1", Labelled("web", "x"))), event: added,
		}),
		Entry("a node with the topology of an affinity is added", wake{
			plugin: "InterPodAffinity", given: []client.Object{NodeOf("n1")},
			woken:   []*corev1.Pod{p("pod", beside("web", "zone"), Labelled("web", "x"))},
			asleep:  []*corev1.Pod{p("other", beside("db", "region"), Labelled("db", "x"))},
			happens: come(NodeOf("n2", "zone", "z1")), event: of(fwk.Node, fwk.Add),
		}),
		Entry("a node gets the topology of an affinity", wake{
			plugin:  "InterPodAffinity",
			given:   []client.Object{NodeOf("n1", "region", "r1"), resident("resident", "n1", Labelled("web", "x"))},
			woken:   []*corev1.Pod{p("pod", beside("web", "zone"), Labelled("web", "x"))},
			asleep:  []*corev1.Pod{p("other", beside("db", "rack"), Labelled("db", "x"))},
			happens: have(NodeOf("n1"), Relabelled("zone", "z1", "region", "r1")),
			event:   of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("a node gets another value of the topology of an affinity", wake{
			plugin: "InterPodAffinity", also: []string{"NodeAffinity"},
			given: []client.Object{NodeOf("n1", "region", "r1"), NodeOf("n2", "region", "r2", "group", "b"),
				resident("resident", "n1", Labelled("web", "x"))},
			woken:   []*corev1.Pod{p("pod", beside("web", "region"), Selecting("group", "b"))},
			asleep:  []*corev1.Pod{p("other", beside("web", "rack"), Selecting("group", "b"))},
			happens: have(NodeOf("n1"), Relabelled("region", "r2")), event: of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("a node loses, and gets another value of, the topology of an anti-affinity", wake{
			plugin: "InterPodAffinity",
			given: []client.Object{NodeOf("n1", "rack", "k1", "service", "s1", "row", "w1"),
				resident("resident", "n1", Labelled("loud", "x"))},
			woken:   []*corev1.Pod{p("loses", apart("loud", "rack")), p("changes", apart("loud", "service"))},
			asleep:  []*corev1.Pod{p("stays", apart("loud", "row"))},
			happens: have(NodeOf("n1"), Relabelled("service", "s2", "row", "w1")),
			event:   of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("the last pod is deleted that a pod needs which needs its like", wake{
			plugin: "InterPodAffinity",
			given: []client.Object{NodeOf("n1", "rack", "k1"), NodeOf("n2"),
				resident("resident", "n1", Labelled("web", "x")), resident("database", "n2", Labelled("db", "x"))},
			woken: []*corev1.Pod{p("pod", beside("web", "region"), Labelled("web", "x"))},
			asleep: []*corev1.Pod{p("other", beside("web", "region")),
				p("third", beside("db", "region"), Labelled("db", "x"))},
			happens: goAway(resident("resident", "n1")), event: of(fwk.AssignedPod, fwk.Delete),
		}),
		Entry("a node is added, and only the anti-affinity of others excludes the pod", wake{
			plugin:  "InterPodAffinity",
			given:   []client.Object{NodeOf("n1", "rack", "k1"), resident("resident", "n1", apart("quiet", "rack"))},
			woken:   []*corev1.Pod{p("pod", Labelled("quiet", "x"))},
			asleep:  []*corev1.Pod{p("other", beside("db", "region"), Labelled("db", "x"))},
			happens: come(NodeOf("n2", "rack", "k2")), event: of(fwk.Node, fwk.Add),
		}),
		Entry("a node moves, and only the anti-affinity of others excludes the pod", wake{
			plugin: "InterPodAffinity",
			given: []client.Object{NodeOf("n1", "rack", "k1"), NodeOf("n2", "rack", "k1"),
				resident("resident", "n1", apart("quiet", "rack"))},
			woken:   []*corev1.Pod{p("pod", Labelled("quiet", "x"))},
			asleep:  []*corev1.Pod{p("other", beside("db", "region"), Labelled("db", "x"))},
			happens: have(NodeOf("n2"), Relabelled("rack", "k2")), event: of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("the labels of a namespace change, which wakes no pod with a namespace selector, as in kube-scheduler",
			wake{
				plugin: "InterPodAffinity",
				given: []client.Object{
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, NodeOf("n1"),
					inNamespace(resident("resident", "n1", Labelled("web", "x")), "team"),
				},
				asleep: []*corev1.Pod{p("pod", func(pod *corev1.Pod) {
					beside("web", host)(pod)
					pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
						&metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
				})},
				happens: func(ctx context.Context) {
					have(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
						func(n *corev1.Namespace) { n.Labels["team"] = "blue" })(ctx)
					have(NodeOf("n1"),
						func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "seen", "yes") })(ctx)
				},
				event: of(fwk.Node, fwk.UpdateNodeAnnotation),
			}),

		// Spread.
		Entry("a pod that counts is created", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", Labelled("web", "x")),
				resident("two", "n1", Labelled("db", "x"))},
			woken:   []*corev1.Pod{p("pod", spread("web", host, 3))},
			asleep:  []*corev1.Pod{p("other", spread("db", host, 3))},
			happens: come(resident("three", "n1", Labelled("web", "x"))), event: added,
		}),
		Entry("a pod no longer counts", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", Labelled("web", "x")),
				resident("two", "n1", Labelled("db", "x"))},
			woken:   []*corev1.Pod{p("pod", spread("web", host, 3))},
			asleep:  []*corev1.Pod{p("other", spread("db", host, 3))},
			happens: have(resident("one", "n1"), func(pod *corev1.Pod) { pod.Labels = nil }), event: relabel,
		}),
		Entry("a pod that counts is deleted", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{NodeOf("n1"), resident("one", "n1", Labelled("web", "x")),
				resident("two", "n1", Labelled("db", "x"))},
			woken:   []*corev1.Pod{p("pod", spread("web", host, 2))},
			asleep:  []*corev1.Pod{p("other", spread("db", host, 3))},
			happens: goAway(resident("one", "n1")), event: deleted,
		}),
		Entry("a node is added to a topology", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{NodeOf("n1", "rack", "k1"), NodeOf("n2", "zone", "z1"),
				resident("one", "n1", Labelled("web", "x")), resident("two", "n2", Labelled("web", "x"))},
			woken:   []*corev1.Pod{p("pod", spread("web", "rack", 2))},
			asleep:  []*corev1.Pod{p("other", spread("web", "zone", 2))},
			happens: come(NodeOf("n3", "rack", "k1")), event: of(fwk.Node, fwk.Add),
		}),
		Entry("a node leaves a topology, joins one, changes within one", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{
				NodeOf("n1", "rack", "k1", "region", "r1", "service", "s1"),
				NodeOf("n2", "rack", "k1", "region", "r1", "service", "s1"),
				resident("one", "n1", Labelled("web", "x")), resident("two", "n2", Labelled("web", "x")),
			},
			woken: []*corev1.Pod{
				p("leaves", spread("web", "rack", 3)), p("comes", spread("web", "zone", 3)),
				p("changes", spread("web", "service", 3)),
			},
			asleep:  []*corev1.Pod{p("stays", spread("web", "region", 3)), p("other", spread("web", "row", 3))},
			happens: have(NodeOf("n2"), Relabelled("zone", "z1", "region", "r1", "service", "s2")),
			event:   of(fwk.Node, fwk.UpdateNodeLabel),
		}),
		Entry("a node of a topology is deleted", wake{
			plugin: "PodTopologySpread",
			given: []client.Object{NodeOf("n1", "rack", "k1"), NodeOf("n2", "zone", "z1"),
				resident("one", "n1", Labelled("web", "x")), resident("two", "n2", Labelled("web", "x"))},
			woken:   []*corev1.Pod{p("pod", spread("web", "zone", 3))},
			asleep:  []*corev1.Pod{p("other", spread("web", "rack", 3))},
			happens: goAway(NodeOf("n2")), event: of(fwk.Node, fwk.Delete),
		}),
		Entry("the taint of a node of a topology changes", wake{
			plugin: "PodTopologySpread", alone: true,
			given: []client.Object{
				NodeOf("n1", "rack", "k1"), NodeOf("n2", "zone", "z1"), Tainted(NodeOf("n3", "zone", "z1"), "sick"),
				resident("one", "n1", Labelled("web", "x")), resident("two", "n2", Labelled("web", "x")),
			},
			woken:   []*corev1.Pod{p("pod", spread("web", "zone", 3), Tolerating("gpu"))},
			asleep:  []*corev1.Pod{p("other", spread("web", "rack", 3))},
			happens: have(NodeOf("n3"), func(n *corev1.Node) { Tainted(n, "gpu") }),
			event:   of(fwk.Node, fwk.UpdateNodeTaint),
		}),
	)
})

func bothLabels(pod *corev1.Pod) { Labelled("smelly", "x")(pod) }

func inNamespace(pod *corev1.Pod, namespace string) *corev1.Pod {
	pod.Namespace = namespace
	return pod
}
