// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The pods of a PodGroup", func() {
	var s *Script

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		Start(s.Register)
		Create(ctx, QuickRetries())
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
	})

	// members creates pods of a group that take a CPU each.
	members := func(ctx context.Context, group string, names ...string) (pods []*corev1.Pod) {
		for _, name := range names {
			pods = append(pods, CreatePod(ctx, "mine", name, MemberOf(group), CPU("1")))
		}
		return pods
	}
	expectAllBound := func(ctx context.Context, pods []*corev1.Pod) {
		GinkgoHelper()
		for _, pod := range pods {
			ExpectBound(ctx, pod)
		}
	}
	expectNoneBound := func(ctx context.Context, group string) {
		GinkgoHelper()
		Consistently(func() int { _, bound := boundOf(ctx, group); return bound }).Should(BeZero())
	}

	It("wait for their PodGroup and for each other", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		pods := members(ctx, "g", "a", "b")
		expectNoneBound(ctx, "g")
		Create(ctx, PodGroup("g", 3))
		expectNoneBound(ctx, "g")
		ExpectBound(ctx, CreatePod(ctx, "mine", "alone"))
		expectAllBound(ctx, append(pods, members(ctx, "g", "c")...))
		By("and one that comes later waits for nobody")
		expectAllBound(ctx, members(ctx, "g", "d"))
	})

	It("say what they wait for, if that lasts", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		Create(ctx, PodGroup("h", 3))
		orphans, few := members(ctx, "g", "a", "b"), members(ctx, "h", "c", "d") // both wait in the same 10 s
		expect := func(pods []*corev1.Pod, message string) {
			GinkgoHelper()
			for _, pod := range pods {
				ExpectEvent(ctx, pod, "FailedScheduling", Equal(message))
				ExpectUnscheduled(ctx, pod, v1alpha1.PodReasonPreEnqueueRejected, Equal(message))
			}
		}
		expect(orphans, "The pod waits for its pod group: there is no PodGroup default/g")
		expect(few,
			"The pod waits for its pod group: fewer than 3 pods of the pod group default/h are ready to be scheduled")
		Create(ctx, PodGroup("g", 2))
		expectAllBound(ctx, orphans)
	})

	It("get no node before there is room for all, and say so", func(ctx context.Context) {
		Create(ctx, Node("n1", "2", "8Gi", nil), PodGroup("g", 3))
		pods := members(ctx, "g", "a", "b", "c")
		for _, pod := range pods {
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				Equal("pod group default/g: 3 pods must be placed together, but there are resources for 2 of them at "+
					"most"))
			ExpectEvent(ctx, pod, "FailedScheduling", HavePrefix("pod group default/g: 3 pods must be placed together"))
		}
		By("taking no room in the meantime")
		small := CreatePod(ctx, "mine", "small", CPU("2"))
		ExpectBound(ctx, small)
		Create(ctx, Node("n2", "2", "8Gi", nil))
		expectNoneBound(ctx, "g")
		Create(ctx, Node("n3", "1", "8Gi", nil))
		expectAllBound(ctx, pods)
	})

	It("get nodes if fewer are needed now", func(ctx context.Context) {
		group := PodGroup("g", 3)
		Create(ctx, Node("n1", "2", "8Gi", nil), group)
		members(ctx, "g", "a", "b", "c")
		expectNoneBound(ctx, "g")
		setMinMember(ctx, group, 2)
		Eventually(func() int { _, bound := boundOf(ctx, "g"); return bound }).Should(Equal(2))
	})

	It("share a rack if the PodGroup requires it", func(ctx context.Context) {
		for _, name := range []string{"a1", "a2", "b1", "b2"} {
			Create(ctx, NodeOf(name, "rack", name[:1]))
		}
		Create(ctx, Node("c1", "64", "64Gi", nil))
		group := PodGroup("g", 8)
		group.SetAnnotations(map[string]string{podgroup.AnnotationRequired: "a rack"})
		Create(ctx, group)
		ExpectBound(ctx, CreatePod(ctx, "mine", "small", Selecting("rack", "a"), CPU("1")))
		pods := members(ctx, "g", Names("p", 8)...)
		ExpectUnscheduled(ctx, pods[0], corev1.PodReasonUnschedulable,
			ContainSubstring(`"a rack" is not the key of a label`))
		By("correcting the key")
		setAnnotation(ctx, group, podgroup.AnnotationRequired, "rack")
		for _, pod := range pods {
			Expect(ExpectBound(ctx, pod)).To(HavePrefix("b"))
		}
	})

	It("are retried when a node moves to a rack", func(ctx context.Context) {
		for _, name := range []string{"a1", "b1"} {
			Create(ctx, Node(name, "2", "8Gi", map[string]string{"rack": name[:1]}))
		}
		group := PodGroup("g", 4)
		group.SetAnnotations(map[string]string{podgroup.AnnotationRequired: "rack"})
		Create(ctx, group)
		pods := members(ctx, "g", "p1", "p2", "p3", "p4")
		for _, pod := range pods {
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				HaveSuffix("there are resources for 2 of them at most in one rack"))
		}
		Update(ctx, Node("b1", "2", "8Gi", nil), func(node *corev1.Node) { node.Labels["rack"] = "a" })
		expectAllBound(ctx, pods)
	})

	It("leave volumes and devices to others if too few of them fit", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		CreateVolumes(ctx,
			&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
				VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			},
			VolumeOn("volume", "local", "n1"), ClaimOf("one", "local"), ClaimOf("two", "local"),
			DeviceClass("gpu"), Device("device", "n1"), DeviceClaim("device-one", "gpu"),
			DeviceClaim("device-two", "gpu"))
		Create(ctx, PodGroup("g", 2))
		pods := []*corev1.Pod{
			CreatePod(ctx, "mine", "a", MemberOf("g"), UsingClaim("one"), UsingDevices("device-one")),
			CreatePod(ctx, "mine", "b", MemberOf("g"), Selecting("no", "node")),
		}
		for _, pod := range pods {
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				HavePrefix("pod group default/g: 1 of 2 pods that must be placed together fit; b: "))
		}
		other := CreatePod(ctx, "mine", "other", UsingClaim("two"), UsingDevices("device-two"))
		Eventually(func() []string { return s.Points(other) }).
			Should(ContainElement("Permit"), "the volume and the device are free")
	})

	It("are not starved by small pods if the policy lets them keep room", func(ctx context.Context) {
		Create(ctx, Node("n1", "3", "8Gi", nil), PodGroup("g", 3))
		for i := range 50 {
			CreatePod(ctx, "mine", fmt.Sprintf("small-%d", i), CPU("1"))
		}
		running := func() (pods []*corev1.Pod) {
			var list corev1.PodList
			Expect(K8s.List(ctx, &list, client.InNamespace(corev1.NamespaceDefault))).To(Succeed())
			for i := range list.Items {
				if pod := &list.Items[i]; pod.Spec.NodeName != "" && pod.Labels[podgroup.Label] == "" {
					pods = append(pods, pod)
				}
			}
			return pods
		}
		Eventually(running).Should(HaveLen(3))
		pods := members(ctx, "g", "a", "b", "c")
		By("ending one small pod after the other, whose room the next one takes")
		for range 4 {
			Expect(K8s.Delete(ctx, running()[0])).To(Succeed())
			Eventually(running).Should(HaveLen(3))
		}
		_, bound := boundOf(ctx, "g")
		Expect(bound).To(BeZero())
		By("keeping room for the group from now on")
		Update(ctx, QuickRetries(), func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.PodGroupReserveAfter = &metav1.Duration{Duration: time.Second}
		})
		Eventually(func() int {
			if left := running(); len(left) > 0 {
				Expect(client.IgnoreNotFound(K8s.Delete(ctx, left[0]))).To(Succeed())
			}
			_, bound := boundOf(ctx, "g")
			return bound
		}).WithPolling(200 * time.Millisecond).WithTimeout(30 * time.Second).Should(Equal(3))
		Expect(running()).To(BeEmpty())
		expectAllBound(ctx, pods)
	})

	It("do not deadlock with those of another one", func(ctx context.Context) {
		Create(ctx, Node("n1", "3", "8Gi", nil), PodGroup("g", 3), PodGroup("h", 3))
		for i := range 3 {
			members(ctx, "g", fmt.Sprintf("g%d", i))
			members(ctx, "h", fmt.Sprintf("h%d", i))
		}
		both := func() (bounds []int) {
			for _, group := range []string{"g", "h"} {
				_, bound := boundOf(ctx, group)
				bounds = append(bounds, bound)
			}
			return bounds
		}
		Eventually(both).Should(ConsistOf(0, 3))
		Consistently(both).Should(ConsistOf(0, 3))
	})

	It("are not bound while one of them cannot be", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		var failures atomic.Int32
		s.Perform(func(a *Acts) {
			a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "c" && failures.Add(1) <= 2 {
					return fwk.AsStatus(errors.New("no volume"))
				}
				return nil
			}
		})
		Create(ctx, PodGroup("g", 3))
		pods := members(ctx, "g", "a", "b", "c")
		expectAllBound(ctx, pods)
		Expect(failures.Load()).To(Equal(int32(3)))
		for _, pod := range pods {
			Expect(s.At(pod, "PreBind")).To(HaveLen(3), "all were taken back together")
			Expect(s.At(pod, "Unreserve")).To(HaveLen(2))
			Eventually(s.At).WithArguments(pod, "PostBind").Should(HaveLen(1))
		}
	})

	It("are not bound before those that came earlier can be", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		mounted := make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(ctx context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name != "b" && pod.Name != "c" {
					return nil
				}
				select {
				case <-mounted:
					return nil
				case <-ctx.Done():
					return fwk.AsStatus(context.Cause(ctx))
				}
			}
		})
		Create(ctx, PodGroup("g", 3))
		pods := members(ctx, "g", "a", "b", "c")
		for _, pod := range pods {
			Eventually(s.At).WithArguments(pod, "PreBind").Should(HaveLen(1))
		}
		By("two of three, and one that comes later")
		pods = append(pods, members(ctx, "g", "d")...)
		Eventually(s.At).WithArguments(pods[3], "PreBind").Should(HaveLen(1))
		expectNoneBound(ctx, "g")
		close(mounted)
		expectAllBound(ctx, pods)
	})

	It("that a leader has bound count for the next one", func(ctx context.Context) {
		Create(ctx, Node("n1", "4", "8Gi", nil), Node("n2", "4", "8Gi", nil), PodGroup("g", 4))
		pods := members(ctx, "g", "a", "b", "c")
		expectNoneBound(ctx, "g")
		By("binding two by hand, as one that was killed after them")
		BindByHand(ctx, "a", "n1")
		BindByHand(ctx, "b", "n2")
		ExpectPending(ctx, pods[2])
		expectAllBound(ctx, append(pods[2:], members(ctx, "g", "d")...))
	})

	It("are placed one by one if one is enough", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		Create(ctx, PodGroup("g", 1))
		expectAllBound(ctx, members(ctx, "g", "a", "b"))
	})
})
