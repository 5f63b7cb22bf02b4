// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// held are requests that wait until they are released.
type held struct {
	release func()
	begun   chan string // the paths, while the buffer has room
}

// hold makes the requests wait that match.
func hold(f *Faults, which func(*http.Request) bool) *held {
	released := make(chan struct{})
	h := &held{release: sync.OnceFunc(func() { close(released) }), begun: make(chan string, 100)}
	DeferCleanup(h.release)
	f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if which(r) {
			h.begun <- r.URL.Path
			select {
			case <-released:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return send()
	})
	return h
}

var _ = Describe("Writes other than bindings", func() {
	var (
		f   *Faults
		run *testcluster.Running
	)
	BeforeEach(func(ctx context.Context) {
		f = &Faults{}
		run = StartFor(f.Config())
		Create(ctx, Node("n1", "8", "16Gi", nil))
		CreateProfile(ctx, "mine", "")
	})

	// crowd makes more than a quarter of the pods that may be bound concurrently wait for the API
	// server.
	crowd := func(ctx context.Context) (*held, []*corev1.Pod) {
		GinkgoHelper()
		h := hold(f, func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/pods/slow-") &&
				strings.HasSuffix(r.URL.Path, "/binding")
		})
		var slow []*corev1.Pod
		for _, name := range Names("slow", 20) {
			slow = append(slow, CreatePod(ctx, "mine", name, CPU("10m")))
		}
		for range slow {
			Eventually(h.begun).Should(Receive())
		}
		return h, slow
	}
	scheduled := func(ctx context.Context, pod *corev1.Pod) func() []eventsv1.Event {
		return func() []eventsv1.Event { return EventsOf(ctx, pod, "Scheduled") }
	}

	It("wait while many pods are being bound, except for failures, and are not lost", func(ctx context.Context) {
		h, slow := crowd(ctx)
		quick := CreatePod(ctx, "mine", "quick", CPU("10m"))
		ExpectBound(ctx, quick)
		tooBig := CreatePod(ctx, "mine", "too-big", CPU("100"))
		ExpectEvent(ctx, tooBig, "FailedScheduling", HavePrefix("0/1 nodes are available"))
		Consistently(scheduled(ctx, quick)).WithContext(ctx).Should(BeEmpty())
		h.release()
		for _, pod := range append(slow, quick) {
			Eventually(scheduled(ctx, pod)).WithContext(ctx).Should(HaveLen(1))
		}
	})

	It("are completed when livesched is stopped", func(ctx context.Context) {
		h, _ := crowd(ctx)
		quick := CreatePod(ctx, "mine", "quick", CPU("10m"))
		ExpectBound(ctx, quick)
		Consistently(scheduled(ctx, quick)).WithContext(ctx).Should(BeEmpty())
		h.release()
		Expect(run.Stop(StopsWithin)).To(Succeed())
		Expect(scheduled(ctx, quick)()).To(HaveLen(1))
	})

	It("to the status of an unschedulable pod do not delay the pods behind it, and do not reach a pod that is bound",
		func(ctx context.Context) {
			h := hold(f, func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/big/status")
			})
			big := CreatePod(ctx, "mine", "big", CPU("10"))
			Eventually(h.begun).Should(Receive())
			ExpectBound(ctx, CreatePod(ctx, "mine", "next", CPU("10m")))

			By("binding it only when no more writes to its status are in progress")
			Create(ctx, Node("n2", "16", "16Gi", nil))
			ExpectPending(ctx, big)
			h.release()
			Expect(ExpectBound(ctx, big)).To(Equal("n2"))
			Consistently(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
				g.Expect(big.Status.Conditions).To(ContainElement(And(
					HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue))))
			}).WithContext(ctx).Should(Succeed())
		})

	It("cannot nominate a pod that another client has bound, which livesched tells from other errors",
		func(ctx context.Context) {
			NeedsServer("1.35", "it accepts the nomination of a bound pod, and Bind fails instead")
			pod := CreatePod(ctx, "nobody", "pod")
			BindByHand(ctx, "pod", "n1")
			clientset, err := kubernetes.NewForConfig(Cluster.Config)
			Expect(err).NotTo(HaveOccurred())
			err = podstatus.SetNominatedNode(ctx, clientset, pod, "n2")
			Expect(err).To(Satisfy(podstatus.IsBound))
			Expect(err).NotTo(Satisfy(podstatus.IsGone))
		})
})
