// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// statusOf returns the status of a group, nil if it has none.
func statusOf(ctx context.Context, name string) map[string]any {
	GinkgoHelper()
	group := PodGroup(name, 0)
	Expect(K8s.Get(ctx, clientKey(group), group)).To(Succeed())
	found, _, err := unstructured.NestedMap(group.Object, "status")
	Expect(err).NotTo(HaveOccurred())
	return found
}

// expectStatus waits until a group has a status.
func expectStatus(ctx context.Context, group, phase string, running, succeeded, failed int64) {
	GinkgoHelper()
	Eventually(statusOf).WithArguments(ctx, group).Should(And(HaveKeyWithValue("phase", phase),
		HaveKeyWithValue("running", running), HaveKeyWithValue("succeeded", succeeded),
		HaveKeyWithValue("failed", failed)))
}

// become gives pods a phase, as kubelets do.
func become(ctx context.Context, phase corev1.PodPhase, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		before := pod.DeepCopy()
		pod.Status.Phase = phase
		Expect(K8s.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
	}
}

var _ = Describe("The status of a PodGroup", func() {
	member := func(ctx context.Context, name string) *corev1.Pod {
		GinkgoHelper()
		return CreatePod(ctx, "mine", name, MemberOf("g"), CPU("1"), func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train",
				UID: "1"}}
		})
	}

	It("says how far its pods are", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		Create(ctx, PodGroup("g", 2))
		expectStatus(ctx, "g", "Pending", 0, 0, 0)
		a, b := member(ctx, "a"), member(ctx, "b")
		expectStatus(ctx, "g", "Scheduling", 0, 0, 0)
		Expect(statusOf(ctx, "g")).To(HaveKeyWithValue("occupiedBy", "default/train"))
		CreateNodes(ctx, "n1")
		ExpectBound(ctx, a)
		ExpectBound(ctx, b)
		become(ctx, corev1.PodRunning, a)
		expectStatus(ctx, "g", "Scheduling", 1, 0, 0)
		become(ctx, corev1.PodRunning, b)
		expectStatus(ctx, "g", "Running", 2, 0, 0)
		become(ctx, corev1.PodSucceeded, a, b)
		expectStatus(ctx, "g", "Finished", 0, 2, 0)
		By("which stays so when its pods are deleted")
		Expect(K8s.Delete(ctx, a, client.GracePeriodSeconds(0))).To(Succeed())
		Consistently(statusOf).WithArguments(ctx, "g").Should(HaveKeyWithValue("succeeded", int64(2)))
		By("and is not that of the next group of its name")
		Expect(K8s.Delete(ctx, PodGroup("g", 0))).To(Succeed())
		Create(ctx, PodGroup("g", 2))
		expectStatus(ctx, "g", "Pending", 0, 1, 0)
	})

	It("lets pods that replace failed ones count together with those that have succeeded", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		CreateNodes(ctx, "n1")
		Create(ctx, PodGroup("g", 3))
		var pods []*corev1.Pod
		for _, name := range []string{"a", "b", "c"} {
			pods = append(pods, member(ctx, name))
		}
		for _, pod := range pods {
			ExpectBound(ctx, pod)
		}
		become(ctx, corev1.PodRunning, pods...)
		become(ctx, corev1.PodFailed, pods[0])
		expectStatus(ctx, "g", "Failed", 2, 0, 1)
		again := member(ctx, "a-again")
		ExpectBound(ctx, again)
		become(ctx, corev1.PodSucceeded, pods[1:]...)
		become(ctx, corev1.PodFailed, again)
		expectStatus(ctx, "g", "Failed", 0, 2, 2)
		ExpectBound(ctx, member(ctx, "a-once-more"))
	})

	It("is left to others if livesched must not keep it", func(ctx context.Context) {
		Start(func(o *app.Options) { o.PodGroupStatus = false })
		CreateProfile(ctx, "mine", "")
		CreateNodes(ctx, "n1")
		Create(ctx, PodGroup("g", 1))
		ExpectBound(ctx, member(ctx, "a"))
		Consistently(statusOf).WithArguments(ctx, "g").Should(BeEmpty())
	})

	It("is kept by the leader", func(ctx context.Context) {
		elects := func(o *app.Options) {
			o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, metav1.NamespaceDefault, "status"
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 20*time.Second, 15*time.Second, 250*time.Millisecond
		}
		first := StartUnstopped(Cluster.Config, elects)
		DeferCleanup(func() { _ = first.Stop(StopsWithin) })
		Eventually(first.Elected()).Should(BeClosed())
		f, writes := &Faults{}, atomic.Int32{}
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/podgroups/g/status") {
				writes.Add(1)
			}
			return send()
		})
		second := StartUnstopped(f.Config(), elects)
		DeferCleanup(func() { Expect(second.Stop(StopsWithin)).To(Succeed()) })
		Eventually(second.Scheduler.Ready()).Should(BeClosed())
		CreateProfile(ctx, "mine", "")
		Create(ctx, PodGroup("g", 1))
		expectStatus(ctx, "g", "Pending", 0, 0, 0)
		a := member(ctx, "a")
		expectStatus(ctx, "g", "Scheduling", 0, 0, 0)
		Expect(writes.Load()).To(BeZero())
		By("and by the next one, which has to see what has happened in the meantime")
		Expect(first.Stop(StopsWithin)).To(Succeed())
		become(ctx, corev1.PodRunning, a)
		expectStatus(ctx, "g", "Running", 1, 0, 0)
		Expect(writes.Load()).To(BeNumerically(">", 0))
	})
})
