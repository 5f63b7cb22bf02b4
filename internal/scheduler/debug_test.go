// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/debugger"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// expectSame expects that cache, queue and nominator are what the API server says.
func expectSame(ctx context.Context, compare func(context.Context) ([]debugger.Difference, error)) {
	GinkgoHelper()
	differences, err := compare(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(differences).To(BeEmpty())
}

var _ = Describe("The comparison with the API server", func() {
	It("finds nothing, whatever has become of pods and nodes", func(ctx context.Context) {
		s := &script{}
		s.perform(waits(10 * time.Minute))
		run := start(s.register)
		create(ctx, quickRetries())
		createClasses(ctx, priorityClass("important", 1000))
		nodes(ctx, "n1", "n2", "n3")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")

		By("pods in every place")
		onFirst := selecting(corev1.LabelHostname, "n1") // out of the way of the preemption
		bound, gone := createPod(ctx, "mine", "bound", cpu("2"), onFirst), createPod(ctx, "mine", "gone", onFirst)
		expectBound(ctx, bound)
		expectBound(ctx, gone)
		createPod(ctx, "somebody-else", "assigned", on("n3"), cpu("3"))
		createPod(ctx, "somebody-else", "waits-for-somebody-else")
		createPod(ctx, "mine", "on-a-ghost", on("no-such-node"))
		createPod(ctx, "mine", "gated", gated)
		waiting := createPod(ctx, "mine", "waiting", labelled("wait", "yes"), onFirst)
		s.expectWaiting(ctx, waiting)
		huge := createPod(ctx, "mine", "huge", cpu("100"))
		expectUnscheduled(ctx, huge, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		expectSame(ctx, run.Scheduler.Compare)

		By("a pod that was promised a node")
		victim := createPod(ctx, "somebody-else", "victim", on("n2"), cpu("4"), witnessed)
		DeferCleanup(func(ctx context.Context) { release(ctx, victim) })
		createPod(ctx, "somebody-else", "filler-1", on("n1"), cpu("2"), prioritized("important"))
		createPod(ctx, "somebody-else", "filler-3", on("n3"), cpu("1"), prioritized("important"))
		preemptor := createPod(ctx, "mine", "preemptor", cpu("3900m"), prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(preemptor), preemptor)).To(Succeed())
			g.Expect(preemptor.Status.NominatedNodeName).To(Equal("n2"))
		}).WithContext(ctx).Should(Succeed())
		expectSame(ctx, run.Scheduler.Compare)

		By("pods that went, ended and were resized in their status, and a node that went before its pods")
		Expect(k8s.Delete(ctx, gone)).To(Succeed())
		Expect(k8s.Delete(ctx, huge)).To(Succeed())
		bound.Status.Phase = corev1.PodSucceeded
		Expect(k8s.Status().Update(ctx, bound)).To(Succeed())
		node := &corev1.Node{}
		Expect(k8s.Get(ctx, types.NamespacedName{Name: "n3"}, node)).To(Succeed())
		Expect(k8s.Delete(ctx, node)).To(Succeed())
		s.expectWaiting(ctx, waiting).Allow(alpha)
		expectBound(ctx, waiting)
		expectSame(ctx, run.Scheduler.Compare)

		By("no profile")
		Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
		Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
		expectSame(ctx, run.Scheduler.Compare)
	})

	It("finds what the informers missed", func(ctx context.Context) {
		f := &faults{}
		var deaf sync.Once
		watching := make(chan struct{})
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("watch") == "" {
				return send()
			}
			if r.URL.Query().Get("sendInitialEvents") != "" {
				return nil, errNoRoute // it lists then
			}
			deaf.Do(func() { close(watching) })
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		run := startFor(f.config())
		nodes(ctx, "n1")
		createProfile(ctx, "mine", "")
		Eventually(watching).Should(BeClosed())
		unseen, pending := createPod(ctx, "somebody-else", "unseen", on("n1")), createPod(ctx, "mine", "pending")
		Expect(run.Scheduler.Compare(ctx)).To(Equal([]debugger.Difference{
			{Kind: debugger.PodMissing, Object: "default/unseen", UID: unseen.UID, Detail: "the API server has it on node n1, the cache on none"},
			{Kind: debugger.QueueMissing, Object: "default/pending", UID: pending.UID,
				Detail: `it has no node and asks for scheduler "mine", but is neither queued nor under way`},
		}))
	})

	It("says that it cannot be made before the first lists are in", func(ctx context.Context) {
		f := &faults{}
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/pods") {
				return nil, errNoRoute
			}
			return send()
		})
		run := startUnstopped(f.config())
		DeferCleanup(func() {
			f.set(nil)
			Eventually(run.Scheduler.Ready()).Should(BeClosed())
			Expect(run.Stop(stopsWithin)).To(Succeed())
		})
		_, err := run.Scheduler.Compare(ctx)
		Expect(err).To(MatchError("the informers have not delivered their first lists"))
		run.Scheduler.Report(ctx)
	})
})

var _ = Describe("An event handler of a plugin that panics", func() {
	It("is counted, and pods go on being scheduled", func(ctx context.Context) {
		s := &script{}
		told := make(chan string, 100)
		s.perform(func(a *acts) {
			a.build = func(a *actor) error {
				_, err := a.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc: func(obj any) {
						told <- obj.(*corev1.Pod).Name
						panic(errors.New("a bug in a plugin"))
					},
				})
				return err
			}
		})
		counter := metrics.HandlerPanics.WithLabelValues(alpha, "Pod")
		before := testutil.ToFloat64(counter)
		start(s.register)
		nodes(ctx, "n1")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		for i, name := range names("pod", 3) {
			expectBound(ctx, createPod(ctx, "mine", name))
			Eventually(told).Should(Receive(Equal(name)), "it is told of the next one")
			Eventually(func() float64 { return testutil.ToFloat64(counter) - before }).Should(Equal(float64(i + 1)))
		}
	})
})
