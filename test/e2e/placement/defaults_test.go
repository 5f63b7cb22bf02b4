// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The default plugins", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
	})

	// zoned creates a node in a zone.
	zoned := func(ctx context.Context, name, zone string, changes ...func(*corev1.Node)) {
		n := Node(name, "4", "8Gi", map[string]string{"zone": zone})
		for _, change := range changes {
			change(n)
		}
		Create(ctx, n)
	}
	// counted counts pods by a property of their nodes.
	counted := func(ctx context.Context, by func(node string) string, pods ...*corev1.Pod) map[string]int {
		count := map[string]int{}
		for _, pod := range pods {
			count[by(ExpectBound(ctx, pod))]++
		}
		return count
	}
	zone := func(node string) string { return node[:1] }
	itself := func(node string) string { return node }

	It("spread pods over the zones as evenly as their constraints require", func(ctx context.Context) {
		zoned(ctx, "a1", "a")
		zoned(ctx, "a2", "a")
		zoned(ctx, "b1", "b")
		zoned(ctx, "c1", "c")
		var pods []*corev1.Pod
		for _, name := range Names("pod", 6) {
			pods = append(pods, CreatePod(ctx, "mine", name, Spreading("zone")))
		}
		Expect(counted(ctx, zone, pods...)).To(Equal(map[string]int{"a": 2, "b": 2, "c": 2}))
	})

	It("spread pods over the nodes as far as possible", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		var pods []*corev1.Pod
		for _, name := range Names("pod", 4) {
			pods = append(pods, CreatePod(ctx, "mine", name, Spreading(corev1.LabelHostname), func(pod *corev1.Pod) {
				pod.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
			}))
		}
		Expect(counted(ctx, itself, pods...)).To(Equal(map[string]int{"n1": 2, "n2": 2}))
	})

	It("place pods together and apart according to their affinity, even within one burst", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2", "n3")
		db := CreatePod(ctx, "mine", "db", Labelled("app", "db"), AwayFrom("app", "db"))
		other := CreatePod(ctx, "mine", "other-db", Labelled("app", "db"), AwayFrom("app", "db"))
		Expect(ExpectBound(ctx, db)).NotTo(Equal(ExpectBound(ctx, other)))

		web := CreatePod(ctx, "mine", "web", Labelled("app", "web"), Near("app", "db"), func(pod *corev1.Pod) {
			AwayFrom("app", "db-2")(pod)
			near := HostTerm("app", "db")
			pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}
		})
		Expect(ExpectBound(ctx, web)).To(BeElementOf(db.Spec.NodeName, other.Spec.NodeName))

		loner := CreatePod(ctx, "mine", "loner", AwayFrom("app", "db"))
		Expect(ExpectBound(ctx, loner)).NotTo(BeElementOf(db.Spec.NodeName, other.Spec.NodeName))
	})

	It("keep new pods away from a pod with anti-affinity to them", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		CreatePod(ctx, "somebody-else", "hermit", AwayFrom("app", "noisy"), OnNode("n1"))
		for _, name := range Names("noisy", 2) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name, Labelled("app", "noisy")))).To(Equal("n2"))
		}
	})

	It("prefer the nodes that pods prefer", func(ctx context.Context) {
		zoned(ctx, "a1", "a")
		zoned(ctx, "b1", "b")
		CreatePod(ctx, "somebody-else", "filler", CPU("3"), OnNode("b1")) // the filler would send pods elsewhere
		prefers := func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 100, Preference: corev1.NodeSelectorTerm{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone",
							Operator: corev1.NodeSelectorOpIn,
							Values:   []string{"b"}}},
					}}},
			}}
		}
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "prefers", prefers))).To(Equal("b1"))
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "does-not-care"))).To(Equal("a1"))
	})

	It("use only the nodes that pods require", func(ctx context.Context) {
		zoned(ctx, "a1", "a")
		zoned(ctx, "b1", "b")
		requires := func(operator corev1.NodeSelectorOperator) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{
							MatchExpressions: []corev1.NodeSelectorRequirement{
								{Key: "zone", Operator: operator, Values: []string{"a"}}},
						}}},
				}}
			}
		}
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "in", requires(corev1.NodeSelectorOpIn)))).To(Equal("a1"))
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "not-in", requires(corev1.NodeSelectorOpNotIn)))).To(Equal("b1"))
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "selects", Selecting("zone", "b")))).To(Equal("b1"))
	})

	It("avoid taints, cordoned nodes and used host ports", func(ctx context.Context) {
		tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
			return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "only", Value: "gpu", Effect: effect}} }
		}
		zoned(ctx, "a1", "a", tainted(corev1.TaintEffectNoSchedule))
		zoned(ctx, "b1", "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		zoned(ctx, "c1", "c")
		zoned(ctx, "d1", "d", tainted(corev1.TaintEffectPreferNoSchedule))

		first := CreatePod(ctx, "mine", "first", HostPort(8080))
		Expect(ExpectBound(ctx, first)).To(Equal("c1"))
		By("using the less preferred node when the other has no free port")
		second := CreatePod(ctx, "mine", "second", HostPort(8080))
		Expect(ExpectBound(ctx, second)).To(Equal("d1"))
		By("tolerating the taint")
		third := CreatePod(ctx, "mine", "third", HostPort(8080), func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "only", Operator: corev1.TolerationOpExists}}
		})
		Expect(ExpectBound(ctx, third)).To(Equal("a1"))
		By("reporting for each node why the last pod does not fit there")
		ExpectUnschedulable(ctx, CreatePod(ctx, "mine", "fourth", HostPort(8080)),
			"0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 node(s) "+
				"didn't have free ports for the requested pod ports. "+
				"preemption: 0/4 nodes are available: 2 No preemption victims found for "+
				"incoming pod, 2 Preemption is not helpful for scheduling.")
	})

	It("ignore pods with gates until all gates are removed", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", Gated, func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates,
				corev1.PodSchedulingGate{Name: "example.com/another"})
		})
		ExpectPending(ctx, pod)
		Expect(pod.Status.Conditions).
			To(ContainElement(And(HaveField("Type", corev1.PodScheduled),
				HaveField("Reason", corev1.PodReasonSchedulingGated))))
		Update(ctx, pod, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[:1] })
		ExpectPending(ctx, pod)
		Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		Update(ctx, pod, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
		ExpectBound(ctx, pod)
	})

	It("schedule the pod with the highest priority first", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000), PriorityClass("unimportant", -1000))
		// All wait for a node that has room for two.
		n1 := Cordoned(NodeOf("n1"))
		Create(ctx, n1)
		pods := []*corev1.Pod{
			CreatePod(ctx, "mine", "least", CPU("2"), Prioritized("unimportant")),
			CreatePod(ctx, "mine", "middling", CPU("2")),
			CreatePod(ctx, "mine", "most", CPU("2"), Prioritized("important")),
		}
		for _, pod := range pods {
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 node(s) were unschedulable."))
		}
		// A pod in back-off comes after those that are not, whatever its priority. At this time no
		// pod is in back-off: the first back-off ends with the second after the one in which a pod
		// was rejected.
		last := pods[2].Status.Conditions[0].LastTransitionTime
		Eventually(time.Now).Should(BeTemporally(">=", last.Add(2*time.Second)))
		Update(ctx, n1, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		ExpectBound(ctx, pods[1])
		ExpectBound(ctx, pods[2])
		ExpectPending(ctx, pods[0])
	})

	It("choose a pod's node by its resources, and count pods of all namespaces", func(ctx context.Context) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
		Expect(client.IgnoreAlreadyExists(K8s.Create(ctx, namespace))).To(Succeed())
		CreateNodes(ctx, "n1", "n2")
		resident := PodOf("somebody-else", "resident", CPU("3500m"), OnNode("n1"))
		resident.Namespace = "elsewhere"
		CreateFor(ctx, resident)
		for _, name := range Names("pod", 3) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name, CPU("1")))).To(Equal("n2"))
		}
	})
})
