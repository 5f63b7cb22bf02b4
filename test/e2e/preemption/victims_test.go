// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// CreateBudget creates a disruption budget for the pods with a label app, with a status that allows
// some disruptions, as its controller would write it.
func CreateBudget(ctx context.Context, app string, allowed int32) {
	GinkgoHelper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	CreateFor(ctx, b)
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed}
	Expect(K8s.Status().Update(ctx, b)).To(Succeed())
	ExpectCached(ctx, b)
}

// ExpectStays makes sure that pods are not deleted.
func ExpectStays(ctx context.Context, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.DeletionTimestamp).To(BeNil())
	}
}

// Terminate ends the wait for a pod that terminates slowly.
func Terminate(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
}

// ExpectTerminating waits until a pod is terminating.
func ExpectTerminating(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
	}).WithContext(ctx).Should(Succeed())
}

// ExpectNominated waits until the status of a pod names a node, or none.
func ExpectNominated(ctx context.Context, pod *corev1.Pod, node string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.NominatedNodeName).To(Equal(node))
	}).WithContext(ctx).Should(Succeed())
}

// createExclusive creates a claim that one pod at a time may use, with a volume on the node n1.
func createExclusive(ctx context.Context, name string) {
	GinkgoHelper()
	volume, claim := VolumeOn(name, "none", "n1"), ClaimOf(name, "none")
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	volume.Spec.AccessModes, claim.Spec.AccessModes = modes, modes
	CreateVolumes(ctx, volume, claim)
	BindVolume(ctx, volume, claim)
}

// residents creates pods that run: each is "node class [app]", and needs half a node.
func residents(ctx context.Context, specs ...[]string) map[string]*corev1.Pod {
	GinkgoHelper()
	pods := map[string]*corev1.Pod{}
	for i, spec := range specs {
		changes := []func(*corev1.Pod){CPU("2"), OnNode(spec[0]), Prioritized(spec[1])}
		if len(spec) > 2 {
			changes = append(changes, Labelled("app", spec[2]))
		}
		name := fmt.Sprintf("%s-%d", spec[0], i)
		pods[name] = CreatePod(ctx, "somebody-else", name, changes...)
	}
	return pods
}

var _ = Describe("Preemption chooses", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
		CreateClasses(ctx, PriorityClass("lowest", 1), PriorityClass("low", 10), PriorityClass("middle", 100),
			PriorityClass("important", 1000))
	})

	DescribeTable("the victims with the lowest cost:",
		func(ctx context.Context, budgets map[string]int32, specs [][]string, needs string, node string,
			victims ...string) {
			CreateNodes(ctx, "n1", "n2", "n3")
			for app, allowed := range budgets {
				CreateBudget(ctx, app, allowed)
			}
			pods := residents(ctx, specs...)
			high := CreatePod(ctx, "mine", "high", CPU(needs), Prioritized("important"))
			Expect(ExpectBound(ctx, high)).To(Equal(node))
			for name, pod := range pods {
				if slices.Contains(victims, name) {
					ExpectGone(ctx, pod)
				} else {
					ExpectStays(ctx, pod)
				}
			}
		},
		Entry("a pod of higher priority rather than one that a budget protects", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "middle"}, {"n2", "important"}, {"n2", "important"},
				{"n3", "important"}, {"n3", "important"}}, "2", "n1", "n1-1"),
		Entry("the victims of a node where no budget is violated", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "middle"}, {"n2", "middle"},
				{"n3", "low", "app"}, {"n3", "middle"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("the victims of the node with the fewest budget violations", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "middle", "app"}, {"n2", "middle"},
				{"n3", "low", "app"}, {"n3", "low", "app"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("the pods that a budget allows to be disrupted", map[string]int32{"app": 2, "other": 1},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "lowest", "other"}, {"n2", "lowest", "other"},
				{"n3", "middle"}, {"n3", "middle"}}, "4", "n1", "n1-0", "n1-1"),
		Entry("the victims of the node whose highest priority is lowest", map[string]int32{},
			[][]string{{"n1", "middle"}, {"n1", "lowest"}, {"n2", "low"}, {"n2", "low"}, {"n3", "middle"},
				{"n3", "low"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("the victims with the lowest sum of priorities", map[string]int32{},
			[][]string{{"n1", "middle"}, {"n1", "low"}, {"n2", "middle"}, {"n2", "lowest"}, {"n3", "middle"},
				{"n3", "low"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("the pod of lowest priority on a node, if one victim is enough", map[string]int32{},
			[][]string{{"n1", "lowest"}, {"n1", "middle"}, {"n2", "low"}, {"n2", "middle"}, {"n3", "important"},
				{"n3", "important"}}, "2", "n1", "n1-0"),
	)

	It("protected pods if there are no others", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateBudget(ctx, "app", 0)
		pods := residents(ctx, []string{"n1", "low", "app"}, []string{"n1", "low", "app"})
		ExpectBound(ctx, CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important")))
		for _, pod := range pods {
			ExpectGone(ctx, pod)
		}
	})

	It("pods of lower priority whose anti-affinity excludes the preemptor, or that the preemptor's anti-affinity "+
		"excludes", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2", "n3")
		shy := CreatePod(ctx, "somebody-else", "shy", OnNode("n1"), Prioritized("low"), AwayFrom("app", "loud"))
		bystander := CreatePod(ctx, "somebody-else", "bystander", OnNode("n1"), Prioritized("low"))
		equal := CreatePod(ctx, "somebody-else", "equal", OnNode("n2"), Prioritized("important"),
			AwayFrom("app", "loud"))
		above := CreatePod(ctx, "somebody-else", "above", OnNode("n3"), Prioritized("important"),
			AwayFrom("app", "loud"))
		loud := CreatePod(ctx, "mine", "loud", Prioritized("important"), Labelled("app", "loud"))
		Expect(ExpectBound(ctx, loud)).To(Equal("n1"))
		ExpectGone(ctx, shy)

		fussy := CreatePod(ctx, "mine", "fussy", Prioritized("important"), Labelled("app", "loud"),
			Selecting(corev1.LabelHostname, "n2"))
		ExpectUnschedulable(ctx, fussy, "0/3 nodes are available: 1 node(s) didn't satisfy existing pods "+
			"anti-affinity rules, 2 node(s) didn't match Pod's node affinity/selector. "+
			"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is "+
			"not helpful for scheduling.")
		ExpectStays(ctx, bystander, equal, above, loud)
	})

	It("all pods of lower priority that affinity sets against the preemptor, and none where one is as important",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			against := func(name, node, itsClass, otherClass string) []*corev1.Pod {
				return []*corev1.Pod{
					CreatePod(ctx, "somebody-else", name+"-disliked", OnNode(node), Prioritized(itsClass),
						Labelled("app", "quiet")),
					CreatePod(ctx, "somebody-else", name+"-shy", OnNode(node), Prioritized(otherClass),
						AwayFrom("app", "loud")),
				}
			}
			victims, stay := against("a", "n1", "middle", "low"), against("b", "n2", "lowest", "important")
			loud := CreatePod(ctx, "mine", "loud", Prioritized("important"), Labelled("app", "loud"),
				AwayFrom("app", "quiet"))
			Expect(ExpectBound(ctx, loud)).To(Equal("n1"))
			for _, victim := range victims {
				ExpectGone(ctx, victim)
			}
			ExpectStays(ctx, stay...)
		})

	It("pods that count in a topology spread constraint of the preemptor", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		counted := CreatePod(ctx, "somebody-else", "counted", OnNode("n1"), Prioritized("low"),
			Labelled("app", "spread"))
		bystander := CreatePod(ctx, "somebody-else", "bystander", OnNode("n1"), Prioritized("lowest"))
		full := CreatePod(ctx, "somebody-else", "full", OnNode("n2"), CPU("4"), Prioritized("important"))
		high := CreatePod(ctx, "mine", "high", CPU("1"), Prioritized("important"), Spreading(corev1.LabelHostname))
		Expect(ExpectBound(ctx, high)).To(Equal("n1"))
		ExpectGone(ctx, counted)
		ExpectStays(ctx, bystander, full)
	})
})

var _ = Describe("Preemption with as few candidates as possible", func() {
	It("chooses a node where no budget is violated if there is one", func(ctx context.Context) {
		StartProfiles(ctx, map[string]string{
			"mine": "pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 1, " +
				"minCandidateNodesAbsolute: 1}}]",
		})
		CreateClasses(ctx, PriorityClass("low", 10), PriorityClass("middle", 100), PriorityClass("important", 1000))
		CreateBudget(ctx, "app", 0)
		protected, free := []string{"n1", "n2", "n3", "n4", "n5"}, "n6"
		CreateNodes(ctx, append(protected, free)...)
		var specs [][]string
		for _, node := range protected {
			specs = append(specs, []string{node, "low", "app"}, []string{node, "low", "app"})
		}
		stay := residents(ctx, specs...)
		residents(ctx, []string{free, "middle"}, []string{free, "middle"})
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important")))).To(Equal(free))
		ExpectStays(ctx, slices.Collect(maps.Values(stay))...)
	})
})

var _ = Describe("A preemptor", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
		CreateClasses(ctx, PriorityClass("low", 10), PriorityClass("middle", 100), PriorityClass("important", 1000))
	})

	It("waits for victims that terminate slowly instead of preempting more, and keeps its room",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), TerminatesSlowly)
			spared := CreatePod(ctx, "somebody-else", "spared", CPU("3"), OnNode("n2"), Prioritized("middle"))
			high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
			ExpectTerminating(ctx, victim)
			ExpectNominated(ctx, high, "n1")

			By("retrying it after another change")
			Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, func(node *corev1.Node) {
				node.Labels["color"] = "green"
			})
			small := CreatePod(ctx, "somebody-else", "small", OnNode("n2"))
			Expect(K8s.Delete(ctx, small)).To(Succeed())
			ExpectUnscheduled(ctx, high, corev1.PodReasonUnschedulable,
				HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
			waiting := CreatePod(ctx, "mine", "waiting", CPU("3"), Prioritized("low"))
			ExpectUnscheduled(ctx, waiting, corev1.PodReasonUnschedulable,
				HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
			ExpectPending(ctx, high)
			ExpectStays(ctx, spared)
			Expect(high.Status.NominatedNodeName).To(Equal("n1"))

			ExpectEvent(ctx, high, "FailedScheduling", HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))

			Terminate(ctx, victim)
			Expect(ExpectBound(ctx, high)).To(Equal("n1"))
			ExpectPending(ctx, waiting)
		})

	It("gets the room that it freed, however many pods of lower priority wait for it", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		var victims, waiting []*corev1.Pod
		for _, name := range Names("victim", 4) {
			victims = append(victims, CreatePod(ctx, "somebody-else", name, CPU("1"), OnNode("n1"), Witnessed))
		}
		DeferCleanup(func(ctx context.Context) {
			for _, victim := range victims {
				Release(ctx, victim)
			}
		})
		for _, name := range Names("before", 8) {
			waiting = append(waiting, CreatePod(ctx, "mine", name, CPU("500m")))
		}
		ExpectUnscheduled(ctx, waiting[7], corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		ExpectNominated(ctx, high, "n1")
		for i, victim := range victims {
			Release(ctx, victim)
			waiting = append(waiting, CreatePod(ctx, "mine", fmt.Sprint("after-", i), CPU("500m")))
		}
		ExpectBound(ctx, high)
		for _, pod := range waiting {
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Spec.NodeName).To(BeEmpty())
		}
	})

	It("leaves the victims of another preemptor alone, and preempts its own", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2", "n3")
		var low []*corev1.Pod
		for i, node := range []string{"n1", "n2", "n3"} {
			low = append(low, CreatePod(ctx, "somebody-else", Names("low", 3)[i], CPU("3"), OnNode(node)))
		}
		var high []*corev1.Pod
		for _, name := range Names("high", 2) {
			high = append(high, CreatePod(ctx, "mine", name, CPU("3"), Prioritized("important")))
		}
		Expect(ExpectBound(ctx, high[0])).NotTo(Equal(ExpectBound(ctx, high[1])))
		stay := 0
		for _, pod := range low {
			if err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err == nil {
				stay++
			} else {
				Expect(apierrors.IsNotFound(err)).To(BeTrue())
			}
		}
		Expect(stay).To(Equal(1))
	})

	It("gives way to a pod of higher priority, which clears its nomination, and finds another node",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			victim := CreatePod(ctx, "somebody-else", "victim", CPU("2"), OnNode("n1"), TerminatesSlowly)
			other := CreatePod(ctx, "somebody-else", "other", CPU("2"), OnNode("n1"), Prioritized("middle"),
				TerminatesSlowly)
			middle := CreatePod(ctx, "mine", "middle", CPU("2"), Prioritized("middle"))
			ExpectNominated(ctx, middle, "n1")
			ExpectTerminating(ctx, victim)
			high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
			ExpectNominated(ctx, high, "n1")
			ExpectTerminating(ctx, other)
			ExpectNominated(ctx, middle, "")
			Create(ctx, Node("n2", "2", "8Gi", nil)) // too small for the other
			Expect(ExpectBound(ctx, middle)).To(Equal("n2"))
			Terminate(ctx, victim)
			ExpectPending(ctx, high)
			Terminate(ctx, other)
			Expect(ExpectBound(ctx, high)).To(Equal("n1"))
		})

	It("does not keep its room from a pod of higher priority, which needs no preemption", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), TerminatesSlowly)
		middle := CreatePod(ctx, "mine", "middle", CPU("3500m"), Prioritized("middle"))
		ExpectNominated(ctx, middle, "n1")
		equal := CreatePod(ctx, "mine", "equal", CPU("1"), Prioritized("middle"))
		ExpectUnscheduled(ctx, equal, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		ExpectBound(ctx, CreatePod(ctx, "mine", "high", CPU("1"), Prioritized("important")))

		By("finding no room when its victim is gone")
		Terminate(ctx, victim)
		ExpectNominated(ctx, middle, "")
		ExpectBound(ctx, equal)
		ExpectPending(ctx, middle)
	})

	It("preempts on another node when its nominated node is deleted", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), TerminatesSlowly)
		next := CreatePod(ctx, "somebody-else", "next", CPU("3"), OnNode("n2"), Prioritized("low"))
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectNominated(ctx, high, "n1")
		Expect(K8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
		Terminate(ctx, victim)
		Expect(ExpectBound(ctx, high)).To(Equal("n2"))
		ExpectGone(ctx, next)
	})

	It("loses its nomination when its nominated node is deleted and no other node is left", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), TerminatesSlowly)
		above := CreatePod(ctx, "somebody-else", "above", CPU("3"), OnNode("n2"), Prioritized("important"))
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectNominated(ctx, high, "n1")
		Expect(K8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
		Terminate(ctx, victim)
		ExpectNominated(ctx, high, "")
		ExpectUnschedulable(ctx, high, "0/1 nodes are available: 1 Insufficient cpu. "+
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
		ExpectStays(ctx, above)
	})

	It("takes a ReadWriteOncePod claim from the pod that uses it", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		createExclusive(ctx, "shared")
		user := CreatePod(ctx, "mine", "user", UsingClaim("shared"))
		ExpectBound(ctx, user)
		polite := CreatePod(ctx, "mine", "polite", UsingClaim("shared"))
		ExpectUnscheduled(ctx, polite, corev1.PodReasonUnschedulable,
			HavePrefix("0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "+
				"ReadWriteOncePod access mode already in-use by another pod."))
		high := CreatePod(ctx, "mine", "high", UsingClaim("shared"), Prioritized("important"))
		Expect(ExpectBound(ctx, high)).To(Equal("n1"))
		ExpectGone(ctx, user)
		// VolumeRestrictions does not see nominated pods as long as no pod uses the claim, here as
		// in kube-scheduler: the polite pod may have had it for a moment, and was a victim, too.
		Consistently(func(g Gomega) {
			err := K8s.Get(ctx, client.ObjectKeyFromObject(polite), polite)
			if !apierrors.IsNotFound(err) {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(polite.Spec.NodeName).To(BeEmpty())
			}
		}).Should(Succeed())
	})

	It("takes ReadWriteOncePod claims from all pods that use them", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		createExclusive(ctx, "one")
		createExclusive(ctx, "two")
		bystander := CreatePod(ctx, "mine", "bystander")
		users := []*corev1.Pod{
			CreatePod(ctx, "mine", "first", UsingClaim("one")), CreatePod(ctx, "mine", "second", UsingClaim("two")),
		}
		for _, user := range users {
			ExpectBound(ctx, user)
		}
		middle := CreatePod(ctx, "mine", "middle", UsingClaim("one"), UsingClaim("two"), Prioritized("middle"))
		ExpectBound(ctx, middle)
		for _, user := range users {
			ExpectGone(ctx, user)
		}
		By("taking both from the one that has them now")
		high := CreatePod(ctx, "mine", "high", UsingClaim("one"), UsingClaim("two"), Prioritized("important"))
		ExpectBound(ctx, high)
		ExpectGone(ctx, middle)
		ExpectStays(ctx, bystander)
	})
})
