// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
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

	"github.com/livesched/livesched/test/objects"
)

// budget creates a disruption budget for the pods with a label app, as its controller would: with a
// status that allows some disruptions.
func budget(ctx context.Context, app string, allowed int32) {
	GinkgoHelper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	createFor(ctx, b)
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed}
	Expect(k8s.Status().Update(ctx, b)).To(Succeed())
	expectCached(ctx, b)
}

// expectStays makes sure that nobody deletes pods.
func expectStays(ctx context.Context, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.DeletionTimestamp).To(BeNil())
	}
}

// terminatesSlowly has a pod stay for a long time after it is deleted, as one does whose kubelet
// waits for it to end.
func terminatesSlowly(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600) }

// terminate ends the wait for a pod that terminates slowly.
func terminate(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
}

// expectTerminating waits until a pod is on its way out.
func expectTerminating(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
	}).WithContext(ctx).Should(Succeed())
}

// expectNominated waits until the status of a pod names a node, or none.
func expectNominated(ctx context.Context, pod *corev1.Pod, node string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.NominatedNodeName).To(Equal(node))
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("Preemption chooses", func() {
	BeforeEach(func(ctx context.Context) {
		startDefault(ctx)
		createClasses(ctx, priorityClass("lowest", 1), priorityClass("low", 10), priorityClass("middle", 100), priorityClass("important", 1000))
	})

	// residents creates pods that run: each is "node class [app]", and needs half a node.
	residents := func(ctx context.Context, specs ...[]string) map[string]*corev1.Pod {
		GinkgoHelper()
		pods := map[string]*corev1.Pod{}
		for i, spec := range specs {
			changes := []func(*corev1.Pod){cpu("2"), on(spec[0]), prioritized(spec[1])}
			if len(spec) > 2 {
				changes = append(changes, labelled("app", spec[2]))
			}
			name := fmt.Sprintf("%s-%d", spec[0], i)
			pods[name] = createPod(ctx, "somebody-else", name, changes...)
		}
		return pods
	}

	DescribeTable("the victims that cost least:",
		func(ctx context.Context, budgets map[string]int32, specs [][]string, needs string, node string, victims ...string) {
			nodes(ctx, "n1", "n2", "n3")
			for app, allowed := range budgets {
				budget(ctx, app, allowed)
			}
			pods := residents(ctx, specs...)
			high := createPod(ctx, "mine", "high", cpu(needs), prioritized("important"))
			Expect(expectBound(ctx, high)).To(Equal(node))
			for name, pod := range pods {
				if slices.Contains(victims, name) {
					expectGone(ctx, pod)
				} else {
					expectStays(ctx, pod)
				}
			}
		},
		Entry("a more important one rather than one that a budget protects", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "middle"}, {"n2", "important"}, {"n2", "important"}, {"n3", "important"}, {"n3", "important"}}, "2", "n1", "n1-1"),
		Entry("those of a node where no budget is violated", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "middle"}, {"n2", "middle"}, {"n3", "low", "app"}, {"n3", "middle"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("those of the node where budgets are violated least", map[string]int32{"app": 0},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "middle", "app"}, {"n2", "middle"}, {"n3", "low", "app"}, {"n3", "low", "app"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("those that a budget allows to be disrupted", map[string]int32{"app": 2, "other": 1},
			[][]string{{"n1", "low", "app"}, {"n1", "low", "app"}, {"n2", "lowest", "other"}, {"n2", "lowest", "other"}, {"n3", "middle"}, {"n3", "middle"}}, "4", "n1", "n1-0", "n1-1"),
		Entry("those of the node whose most important one is least important", map[string]int32{},
			[][]string{{"n1", "middle"}, {"n1", "lowest"}, {"n2", "low"}, {"n2", "low"}, {"n3", "middle"}, {"n3", "low"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("those that are less important in all", map[string]int32{},
			[][]string{{"n1", "middle"}, {"n1", "low"}, {"n2", "middle"}, {"n2", "lowest"}, {"n3", "middle"}, {"n3", "low"}}, "4", "n2", "n2-2", "n2-3"),
		Entry("the least important one of a node, if one is enough", map[string]int32{},
			[][]string{{"n1", "lowest"}, {"n1", "middle"}, {"n2", "low"}, {"n2", "middle"}, {"n3", "important"}, {"n3", "important"}}, "2", "n1", "n1-0"),
	)

	It("even protected pods if there is nobody else", func(ctx context.Context) {
		nodes(ctx, "n1")
		budget(ctx, "app", 0)
		pods := residents(ctx, []string{"n1", "low", "app"}, []string{"n1", "low", "app"})
		expectBound(ctx, createPod(ctx, "mine", "high", cpu("4"), prioritized("important")))
		for _, pod := range pods {
			expectGone(ctx, pod)
		}
	})

	It("pods that keep the preemptor away, or that it keeps away from, if they are less important", func(ctx context.Context) {
		nodes(ctx, "n1", "n2", "n3")
		shy := createPod(ctx, "somebody-else", "shy", on("n1"), prioritized("low"), awayFrom("app", "loud"))
		bystander := createPod(ctx, "somebody-else", "bystander", on("n1"), prioritized("low"))
		equal := createPod(ctx, "somebody-else", "equal", on("n2"), prioritized("important"), awayFrom("app", "loud"))
		above := createPod(ctx, "somebody-else", "above", on("n3"), prioritized("important"), awayFrom("app", "loud"))
		loud := createPod(ctx, "mine", "loud", prioritized("important"), labelled("app", "loud"))
		Expect(expectBound(ctx, loud)).To(Equal("n1"))
		expectGone(ctx, shy)

		fussy := createPod(ctx, "mine", "fussy", prioritized("important"), labelled("app", "loud"), selecting(corev1.LabelHostname, "n2"))
		expectUnschedulable(ctx, fussy, "0/3 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.")
		expectStays(ctx, bystander, equal, above, loud)
	})
})

var _ = Describe("A preemptor", func() {
	BeforeEach(func(ctx context.Context) {
		startDefault(ctx)
		createClasses(ctx, priorityClass("low", 10), priorityClass("middle", 100), priorityClass("important", 1000))
	})

	It("waits for victims that terminate slowly, rather than preempting more, and its room is kept for it", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), terminatesSlowly)
		spared := createPod(ctx, "somebody-else", "spared", cpu("3"), on("n2"), prioritized("middle"))
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectTerminating(ctx, victim)
		expectNominated(ctx, high, "n1")

		By("being tried again, since something has changed")
		update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, func(node *corev1.Node) {
			node.Labels["color"] = "green"
		})
		small := createPod(ctx, "somebody-else", "small", on("n2"))
		Expect(k8s.Delete(ctx, small)).To(Succeed())
		expectUnscheduled(ctx, high, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		waiting := createPod(ctx, "mine", "waiting", cpu("3"), prioritized("low"))
		expectUnscheduled(ctx, waiting, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		expectPending(ctx, high)
		expectStays(ctx, spared)
		Expect(high.Status.NominatedNodeName).To(Equal("n1"))

		expectEvent(ctx, high, "FailedScheduling", HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))

		terminate(ctx, victim)
		Expect(expectBound(ctx, high)).To(Equal("n1"))
		expectPending(ctx, waiting)
	})

	It("gets the room that it made, however many less important pods wait for some", func(ctx context.Context) {
		nodes(ctx, "n1")
		var victims, waiting []*corev1.Pod
		for _, name := range names("victim", 4) {
			victims = append(victims, createPod(ctx, "somebody-else", name, cpu("1"), on("n1"), witnessed))
		}
		DeferCleanup(func(ctx context.Context) {
			for _, victim := range victims {
				release(ctx, victim)
			}
		})
		for _, name := range names("before", 8) {
			waiting = append(waiting, createPod(ctx, "mine", name, cpu("500m")))
		}
		expectUnscheduled(ctx, waiting[7], corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectNominated(ctx, high, "n1")
		for i, victim := range victims {
			release(ctx, victim)
			waiting = append(waiting, createPod(ctx, "mine", fmt.Sprint("after-", i), cpu("500m")))
		}
		expectBound(ctx, high)
		for _, pod := range waiting {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Spec.NodeName).To(BeEmpty())
		}
	})

	It("leaves the victims of another preemptor to that one, and finds its own", func(ctx context.Context) {
		nodes(ctx, "n1", "n2", "n3")
		var low []*corev1.Pod
		for i, node := range []string{"n1", "n2", "n3"} {
			low = append(low, createPod(ctx, "somebody-else", names("low", 3)[i], cpu("3"), on(node)))
		}
		var high []*corev1.Pod
		for _, name := range names("high", 2) {
			high = append(high, createPod(ctx, "mine", name, cpu("3"), prioritized("important")))
		}
		Expect(expectBound(ctx, high[0])).NotTo(Equal(expectBound(ctx, high[1])))
		stay := 0
		for _, pod := range low {
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err == nil {
				stay++
			} else {
				Expect(apierrors.IsNotFound(err)).To(BeTrue())
			}
		}
		Expect(stay).To(Equal(1))
	})

	It("has to give way to a more important one, which is told, and finds another place", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("2"), on("n1"), terminatesSlowly)
		other := createPod(ctx, "somebody-else", "other", cpu("2"), on("n1"), prioritized("middle"), terminatesSlowly)
		middle := createPod(ctx, "mine", "middle", cpu("2"), prioritized("middle"))
		expectNominated(ctx, middle, "n1")
		expectTerminating(ctx, victim)
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectNominated(ctx, high, "n1")
		expectTerminating(ctx, other)
		expectNominated(ctx, middle, "")
		create(ctx, objects.Node("n2", "2", "8Gi", nil)) // too small for the other
		Expect(expectBound(ctx, middle)).To(Equal("n2"))
		terminate(ctx, victim)
		expectPending(ctx, high)
		terminate(ctx, other)
		Expect(expectBound(ctx, high)).To(Equal("n1"))
	})

	It("does not keep its room from a more important pod, which needs no preemption", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), terminatesSlowly)
		middle := createPod(ctx, "mine", "middle", cpu("3500m"), prioritized("middle"))
		expectNominated(ctx, middle, "n1")
		equal := createPod(ctx, "mine", "equal", cpu("1"), prioritized("middle"))
		expectUnscheduled(ctx, equal, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		expectBound(ctx, createPod(ctx, "mine", "high", cpu("1"), prioritized("important")))

		By("being out of luck when its victim is gone")
		terminate(ctx, victim)
		expectNominated(ctx, middle, "")
		expectBound(ctx, equal)
		expectPending(ctx, middle)
	})

	It("preempts on another node when the one that it waits for is deleted", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), terminatesSlowly)
		next := createPod(ctx, "somebody-else", "next", cpu("3"), on("n2"), prioritized("low"))
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectNominated(ctx, high, "n1")
		Expect(k8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
		terminate(ctx, victim)
		Expect(expectBound(ctx, high)).To(Equal("n2"))
		expectGone(ctx, next)
	})

	It("is nominated for no node any more when the one that it waits for is deleted and none is left", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), terminatesSlowly)
		above := createPod(ctx, "somebody-else", "above", cpu("3"), on("n2"), prioritized("important"))
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectNominated(ctx, high, "n1")
		Expect(k8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})).To(Succeed())
		terminate(ctx, victim)
		expectNominated(ctx, high, "")
		expectUnschedulable(ctx, high, "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
		expectStays(ctx, above)
	})

	It("takes a claim that only one pod may use from the pod that has it", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		volume, claim := volumeOn("shared", "none", "n1"), claimOf("shared", "none")
		for _, modes := range []*[]corev1.PersistentVolumeAccessMode{&volume.Spec.AccessModes, &claim.Spec.AccessModes} {
			*modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		createVolumes(ctx, volume, claim)
		bindVolume(ctx, volume, claim)
		user := createPod(ctx, "mine", "user", using("shared"))
		expectBound(ctx, user)
		polite := createPod(ctx, "mine", "polite", using("shared"))
		expectUnscheduled(ctx, polite, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod."))
		high := createPod(ctx, "mine", "high", using("shared"), prioritized("important"))
		Expect(expectBound(ctx, high)).To(Equal("n1"))
		expectGone(ctx, user)
		// VolumeRestrictions does not see nominated pods where nobody uses the claim, here as in
		// kube-scheduler: the polite pod may have had it for a moment, and was a victim, too.
		Consistently(func(g Gomega) {
			err := k8s.Get(ctx, client.ObjectKeyFromObject(polite), polite)
			if !apierrors.IsNotFound(err) {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(polite.Spec.NodeName).To(BeEmpty())
			}
		}).Should(Succeed())
	})
})
