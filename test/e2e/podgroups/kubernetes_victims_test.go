// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The entries have the names of kube-scheduler's own cases, those of
// test/integration/scheduler/preemption/podgroup/podgrouppreemption_test.go in Kubernetes 1.37 that
// 1.36 does not have. Those that need a plugin of PodGroupPostFilter, a score of placements or the
// gate PodGroupPreemptionPolicy are missing, and those that have the steps of a case in
// kubernetes_preemption_test.go: "preemption with node resources", and "single topology domain".
var _ = Describe("A PodGroup of Kubernetes that evicts pods", Ordered, func() {
	inGroups()
	four := []step{sized("n1", "1"), sized("n2", "1"), sized("n3", "1"), sized("n4", "1")}
	two := []step{sized("n1", "2"), sized("n2", "2")}
	full := []step{sized("n", "3"), of(10).single("1", "low-1", "low-2", "low-3")}

	// after prepends steps.
	after := func(first []step, then ...step) []step { return append(append([]step{}, first...), then...) }
	run := func(ctx context.Context, steps []step) {
		NeedsServer("1.37", "the cases are of 1.37")
		play(ctx, steps...)
	}

	// Two nodes have pods that may be evicted, and two have pods that may not.
	half := after(four, of(10).on("n1", "1", "v1"), of(10).on("n2", "1", "v2"), of(200).on("n3", "1", "v3"),
		of(200).on("n4", "1", "v4"))
	// So it is here, with pods of two groups that are evicted as a whole.
	halfGroups := after(four, of(50).wholeGroup("victims", 2).alone(), of(200).wholeGroup("others", 2).alone(),
		of(50).memberOn("victims", "n1", "v1"), of(50).memberOn("victims", "n2", "v2"),
		of(200).memberOn("others", "n3", "v3"), of(200).memberOn("others", "n4", "v4"))
	// A group that is evicted as a whole is more important than a pod beside it.
	reprieve := after(four[:3], of(50).wholeGroup("victims", 1).alone(), of(50).memberOn("victims", "n1", "v1"),
		of(50).memberOn("victims", "n2", "v2"), of(10).on("n3", "1", "v3"))
	// The pods are there before their group: so all of them take part in its first attempt.
	outcome := func(group *prioritizedGroup) []step {
		return []step{of(100).member("pg1", "1", "p-a", "p-b", "p-c"), unbound("p-a", "p-b", "p-c"), group.alone(),
			someBound(2, "p-a", "p-b", "p-c"), gone("v1", "v2"), bound("v3", "v4")}
	}

	DescribeTable("evicts those that kube-scheduler does", run,
		Entry("Gang scheduling: schedule as many pods as possible without preempting higher priority pods, but still "+
			"more than minCount", after(half, outcome(of(100).group("pg1", 1))...)),
		Entry("Gang scheduling: do not reprieve victim pod group of lower priority",
			after(reprieve, of(100).group("pg1", 3).pods("1", "p-a", "p-b", "p-c"),
				bound("p-a", "p-b", "p-c"), gone("v1", "v2", "v3"))),
		Entry("Gang scheduling: preempt a pod group victim but do not schedule full pod group",
			after(halfGroups, outcome(of(100).wholeGroup("pg1", 1))...)),
		Entry("Basic scheduling: schedule as many pods as possible without preempting higher priority pods",
			after(half, outcome(of(100).group("pg1", 0))...)),
		Entry("Basic scheduling: do not reprieve victim pod group of lower priority",
			after(reprieve, of(100).group("pg1", 0).pods("1", "p-a", "p-b", "p-c"),
				bound("p-a", "p-b", "p-c"), gone("v1", "v2", "v3"))),
		Entry("Basic scheduling: preempt a pod group victim but do not schedule full pod group",
			after(halfGroups, outcome(of(100).wholeGroup("pg1", 0))...)),
		Entry("PodGroup with PreemptNever preemption policy in all pods does not perform preemption, with "+
			"PodGroupPreemptionPolicy disabled",
			after(full, of(100).group("pg1", 3).alone(), peaceful("pg1", 100, "high-1", "high-2", "high-3"),
				unschedulable("high-1", "high-2", "high-3"), bound("low-1", "low-2", "low-3"))),
		Entry("Gang scheduling: preemption with node resources, prioritizes reprieval of higher priority pods",
			after(two, of(5).on("n1", "1", "initial-1"), of(10).on("n1", "1", "initial-2"),
				of(100).group("pg1", 2).alone(), of(100).changed("pg1", "1", "p-1", onlyOn("n1")),
				of(100).changed("pg1", "1", "p-2", onlyOn("n2")),
				bound("p-1", "p-2"), gone("initial-1"), bound("initial-2"))),
		Entry("Gang scheduling: preemption with pod level resources",
			after(two, of(10).changedOn("n1", "1", "initial-1", forPod("2")), of(100).group("pg1", 2).alone(),
				of(100).changed("pg1", "1", "p-1", forPod("2"), AwayFrom("app", "initial")),
				of(100).changed("pg1", "1", "p-2", forPod("2"), AwayFrom("app", "initial")),
				bound("p-1", "p-2"), gone("initial-1"))),
		Entry("Gang scheduling: preemption with pod anti-affinity constraints",
			after(two, of(10).on("n1", "250m", "initial-1"), of(100).group("pg1", 2).alone(),
				of(100).changed("pg1", "1500m", "p-1", AwayFrom("app", "initial")),
				of(100).changed("pg1", "1500m", "p-2", AwayFrom("app", "initial")),
				bound("p-1", "p-2"), gone("initial-1"))),
		Entry("Gang scheduling: preemption with pod node port",
			after(two, of(10).changedOn("n1", "250m", "initial-1", HostPort(8080)), of(100).group("pg1", 2).alone(),
				of(100).changed("pg1", "1500m", "p-1", HostPort(8080)),
				of(100).changed("pg1", "1500m", "p-2", HostPort(8080)),
				bound("p-1", "p-2"), gone("initial-1"))),
		Entry("Gang scheduling: preemption with pod topology spread constraints",
			after(two, of(10).on("n1", "250m", "foo-1"), of(100).group("pg1", 2).alone(),
				of(100).changed("pg1", "250m", "foo-2", skewed, onlyOn("n1")),
				of(100).changed("pg1", "250m", "foo-3", skewed, onlyOn("n1")),
				bound("foo-2", "foo-3"), gone("foo-1"))),
		Entry("Gang scheduling: preemption with pod topology spread constraints, single reprieve",
			after(two, of(10).on("n1", "250m", "foo-1"), of(5).on("n2", "250m", "foo-0"),
				of(100).group("pg1", 2).alone(),
				of(100).changed("pg1", "250m", "foo-2", skewed, onlyOn("n1")),
				of(100).changed("pg1", "250m", "foo-3", skewed, onlyOn("n1")),
				bound("foo-2", "foo-3"), gone("foo-1"), bound("foo-0"))),
	)

	// Two racks of two nodes with a CPU each.
	racks := []step{oneEach("1", "n1", "n2"), oneEach("2", "n3", "n4")}
	DescribeTable("chooses the rack that kube-scheduler does", run,
		Entry("Topology-Aware Preemption: two topologies, only one eligible",
			after(racks, of(10).on("n1", "1", "low-1"), of(10).on("n2", "1", "low-2"), of(200).on("n3", "1", "top-1"),
				of(200).on("n4", "1", "top-2"),
				of(100).member("pg1", "1", "high-1", "high-2"), gated("high-1", "high-2"),
				of(100).group("pg1", 2).within("rack").alone(),
				boundIn("rack", "1", "high-1", "high-2"), gone("low-1", "low-2"), bound("top-1", "top-2"))),
		Entry("Topology-Aware Preemption: insufficient capacity across all topologies, no preemption performed",
			after(racks, of(10).on("n1", "1", "low-1"), of(200).on("n2", "1", "top-1"), of(10).on("n3", "1", "low-2"),
				of(200).on("n4", "1", "top-2"),
				of(100).member("pg1", "1", "high-1", "high-2"), gated("high-1", "high-2"),
				of(100).group("pg1", 2).within("rack").alone(),
				unschedulable("high-1", "high-2"), bound("low-1", "low-2", "top-1", "top-2"))),
	)

	It("says so in the condition of the group", func(ctx context.Context) { // TestPodGroupPreemptionStatus
		play(ctx, differs("has other words"), sized("n", "1"), of(10).changedOn("n", "1", "low-1", TerminatesSlowly),
			of(100).group("pg1", 1).pods("1", "high-1"),
			condition("pg1", metav1.ConditionFalse, "Unschedulable"),
			func(ctx context.Context, s *stage) {
				group := KubernetesPodGroup("pg1"+s.suffix, 0, "")
				Expect(K8s.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
				Expect(group.Status.Conditions[0].Message).To(HaveSuffix("; preemption: evicting 1 pods"))
			})
	})

	// The victims end one after the other, and each is an event that might help the group.
	It("is tried once before it evicts pods, and once when all of them are gone", func(ctx context.Context) {
		refused := func() (attempts float64) {
			for series, n := range ProfileValues("mine") {
				if strings.HasPrefix(series, "scheduler_schedule_attempts_total") &&
					strings.Contains(series, "unschedulable") {
					attempts += n
				}
			}
			return attempts
		}
		steps := []step{differs("counts attempts in its own process"), sized("n1", "2"), sized("n2", "2")}
		for _, node := range []string{"n1", "n2"} {
			for i := range 20 {
				steps = append(steps, of(10).on(node, "100m", fmt.Sprintf("%s-%d", node, i)))
			}
		}
		var before float64
		play(ctx, append(steps,
			func(context.Context, *stage) { before = refused() },
			of(100).group("pg1", 2).pods("2", "p-1", "p-2"), bound("p-1", "p-2"),
			func(context.Context, *stage) { Expect(refused()-before).To(Equal(2.0), "one attempt at each pod") })...)
	})

	// TestPodGroupPreemption_NominatedNodeNameRespected
	It("stays with the nodes that it is nominated for when one pod finds another", func(ctx context.Context) {
		nominated := map[string]string{}
		play(ctx, sized("n1", "1"), sized("n2", "1"), sized("n3", "1"), of(200).on("n1", "1", "top-1"),
			of(10).changedOn("n2", "1", "low-2", TerminatesSlowly),
			of(10).changedOn("n3", "1", "low-3", TerminatesSlowly),
			of(50).group("pg1", 2).pods("1", "p-1", "p-2"),
			func(ctx context.Context, s *stage) {
				for _, name := range []string{"p-1", "p-2"} {
					Eventually(func(g Gomega) {
						g.Expect(K8s.Get(ctx, clientKey(s.pods[name]), s.pods[name])).To(Succeed())
						nominated[name] = s.pods[name].Status.NominatedNodeName
						g.Expect(nominated[name]).To(BeElementOf("n2", "n3"))
					}).WithContext(ctx).Should(Succeed())
				}
			},
			deleted("top-1"), gone("top-1"), seen(3),
			unbound("p-1", "p-2"),
			func(_ context.Context, s *stage) {
				for name, node := range nominated {
					Expect(s.pods[name].Status.NominatedNodeName).To(Equal(node))
				}
			})
	})

	DescribeTable("binds the pods that fit before it evicts others", func(ctx context.Context, minCount int32) {
		play(ctx, sized("n", "4"), of(100).group("pg1", minCount).pods("1", "pg-1", "pg-2"), bound("pg-1", "pg-2"),
			of(10).single("1", "low-1"),
			withdrawn("pg1"), of(100).member("pg1", "1", "high-1", "high-2"), gated("high-1", "high-2"),
			of(100).group("pg1", minCount).alone(),
			bound("high-1", "high-2"), gone("low-1"),
			func(_ context.Context, s *stage) {
				first, second := s.pods["high-1"], s.pods["high-2"]
				Expect([]string{first.Status.NominatedNodeName, second.Status.NominatedNodeName}).To(ContainElement(""))
			})
	},
		Entry("Binding first before preemption for gang policy", int32(2)),
		Entry("Binding first before preemption for basic policy", int32(0)),
	)
})

// oneEach creates nodes of a rack with a CPU each.
func oneEach(rack string, names ...string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		for _, name := range names {
			Create(ctx, Node(name, "1", "8Gi", map[string]string{"rack": rack}))
		}
	}
}

// peaceful creates pods of a group with a priority, a CPU each and the preemption policy Never.
func peaceful(group string, priority int32, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		class := PriorityClass("peaceful", priority)
		class.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		CreateClasses(ctx, class)
		for _, name := range names {
			member(group, name, "1", Prioritized(class.Name))(ctx, s)
		}
	}
}

// onlyOn makes a pod select a node.
func onlyOn(node string) func(*corev1.Pod) { return Selecting(corev1.LabelHostname, node) }

// forPod makes a pod request CPUs for all of its containers together, and none for each.
func forPod(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		CPU(cpus)(pod)
		pod.Spec.Resources = pod.Spec.Containers[0].Resources.DeepCopy()
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
}

// skewed lets at most two pods with the label app=foo be on a node: there are fewer nodes than the
// domains that the constraint asks for.
func skewed(pod *corev1.Pod) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		MinDomains: ptr.To[int32](10), LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "foo"}),
	}}
}
