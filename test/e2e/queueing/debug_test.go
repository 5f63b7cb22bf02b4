// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

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
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// expectSame expects that cache, queue and nominator agree with the API server.
func expectSame(ctx context.Context, run *testcluster.Running) {
	GinkgoHelper()
	differences, err := run.Parts().Debugger.Compare(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(differences).To(BeEmpty())
}

var _ = Describe("The comparison with the API server", func() {
	It("finds no difference, whatever happens to pods and nodes", func(ctx context.Context) {
		s := &Script{}
		s.Perform(WaitsOnPermit(10 * time.Minute))
		run := Start(s.Register)
		Create(ctx, QuickRetries())
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1", "n2", "n3")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")

		By("pods in every state")
		onFirst := Selecting(corev1.LabelHostname, "n1") // to stay out of the way of the preemption
		bound, gone := CreatePod(ctx, "mine", "bound", CPU("2"), onFirst), CreatePod(ctx, "mine", "gone", onFirst)
		ExpectBound(ctx, bound)
		ExpectBound(ctx, gone)
		CreatePod(ctx, "somebody-else", "assigned", OnNode("n3"), CPU("3"))
		CreatePod(ctx, "somebody-else", "waits-for-somebody-else")
		CreatePod(ctx, "mine", "on-a-ghost", OnNode("no-such-node"))
		CreatePod(ctx, "mine", "gated", Gated)
		waiting := CreatePod(ctx, "mine", "waiting", Labelled("wait", "yes"), onFirst)
		s.ExpectWaiting(ctx, waiting)
		huge := CreatePod(ctx, "mine", "huge", CPU("100"))
		ExpectUnscheduled(ctx, huge, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		expectSame(ctx, run)

		By("a pod that is nominated for a node")
		victim := CreatePod(ctx, "somebody-else", "victim", OnNode("n2"), CPU("4"), Witnessed)
		DeferCleanup(func(ctx context.Context) { Release(ctx, victim) })
		CreatePod(ctx, "somebody-else", "filler-1", OnNode("n1"), CPU("2"), Prioritized("important"))
		CreatePod(ctx, "somebody-else", "filler-3", OnNode("n3"), CPU("1"), Prioritized("important"))
		preemptor := CreatePod(ctx, "mine", "preemptor", CPU("3900m"), Prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(preemptor), preemptor)).To(Succeed())
			g.Expect(preemptor.Status.NominatedNodeName).To(Equal("n2"))
		}).WithContext(ctx).Should(Succeed())
		expectSame(ctx, run)

		By("pods that were deleted, ended or were resized in their status, and a node that was deleted before its pods")
		Expect(K8s.Delete(ctx, gone)).To(Succeed())
		Expect(K8s.Delete(ctx, huge)).To(Succeed())
		bound.Status.Phase = corev1.PodSucceeded
		Expect(K8s.Status().Update(ctx, bound)).To(Succeed())
		node := &corev1.Node{}
		Expect(K8s.Get(ctx, types.NamespacedName{Name: "n3"}, node)).To(Succeed())
		Expect(K8s.Delete(ctx, node)).To(Succeed())
		s.ExpectWaiting(ctx, waiting).Allow(Alpha)
		ExpectBound(ctx, waiting)
		expectSame(ctx, run)

		By("no profile")
		Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
		Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
		expectSame(ctx, run)
	})

	It("finds what the informers missed", func(ctx context.Context) {
		f := &Faults{}
		var deaf sync.Once
		watching := make(chan struct{})
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("watch") == "" {
				return send()
			}
			if r.URL.Query().Get("sendInitialEvents") != "" {
				return nil, ErrNoRoute // it lists then
			}
			deaf.Do(func() { close(watching) })
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		run := StartFor(f.Config())
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "")
		Eventually(watching).Should(BeClosed())
		unseen, pending := CreatePod(ctx, "somebody-else", "unseen", OnNode("n1")), CreatePod(ctx, "mine", "pending")
		Expect(run.Parts().Debugger.Compare(ctx)).To(Equal([]debugger.Difference{
			{Kind: debugger.PodMissing, Object: "default/unseen", UID: unseen.UID,
				Detail: "the API server has it on node n1, the cache on none"},
			{Kind: debugger.QueueMissing, Object: "default/pending", UID: pending.UID,
				Detail: `it has no node and asks for scheduler "mine", but is neither queued nor under way`},
		}))
	})

	It("returns an error before the informers have received the first lists", func(ctx context.Context) {
		f := &Faults{}
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/pods") {
				return nil, ErrNoRoute
			}
			return send()
		})
		run := StartUnstopped(f.Config())
		DeferCleanup(func() {
			f.Set(nil)
			Eventually(run.Scheduler.Ready()).Should(BeClosed())
			Expect(run.Stop(StopsWithin)).To(Succeed())
		})
		_, err := run.Scheduler.Parts()
		Expect(err).To(MatchError("livesched has not listed the cluster yet"))
		run.Scheduler.Report(ctx)
	})
})

var _ = Describe("An event handler of a plugin that panics", func() {
	It("is counted, and pods are still scheduled", func(ctx context.Context) {
		s := &Script{}
		told := make(chan string, 100)
		s.Perform(func(a *Acts) {
			a.Build = func(a *Actor) error {
				_, err := a.Handle.SharedInformerFactory().Core().V1().Pods().Informer().
					AddEventHandler(toolscache.ResourceEventHandlerFuncs{
						AddFunc: func(obj any) {
							told <- obj.(*corev1.Pod).Name
							panic(errors.New("a bug in a plugin"))
						},
					})
				return err
			}
		})
		counter := metrics.HandlerPanics.WithLabelValues(Alpha, "Pod")
		before := testutil.ToFloat64(counter)
		Start(s.Register)
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		for i, name := range Names("pod", 3) {
			ExpectBound(ctx, CreatePod(ctx, "mine", name))
			Eventually(told).Should(Receive(Equal(name)), "it receives the next event")
			Eventually(func() float64 { return testutil.ToFloat64(counter) - before }).Should(Equal(float64(i + 1)))
		}
	})
})
