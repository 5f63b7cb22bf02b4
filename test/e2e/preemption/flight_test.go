// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A preemption in progress", func() {
	var (
		s   *Script
		f   *Faults
		run *testcluster.Running
	)
	const observed = "plugins: {preFilter: {enabled: [{name: Alpha}]}}"

	BeforeEach(func(ctx context.Context) {
		s, f = &Script{}, &Faults{}
		run = StartFor(f.Config(), s.Register)
		Create(ctx, QuickRetries())
		CreateProfile(ctx, "mine", observed)
		CreateClasses(ctx, PriorityClass("middle", 100), PriorityClass("important", 1000), PriorityClass("top", 2000))
	})

	// expectAttempts makes sure that a pod has had that many attempts, and gets no more.
	expectAttempts := func(pod *corev1.Pod, count int) {
		GinkgoHelper()
		Eventually(s.Attempts).WithArguments(pod).Should(Equal(count))
		Consistently(s.Attempts).WithArguments(pod).Should(Equal(count))
	}

	It("holds the preemptor back, whatever happens, and retries it when it ends", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		early := CreatePod(ctx, "somebody-else", "early", CPU("2"), OnNode("n1"))
		CreatePod(ctx, "somebody-else", "late", CPU("2"), OnNode("n1"))
		reached, letGo := f.Hold(func(r *http.Request) bool { return DeletesPod(r, "late") })
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		Eventually(reached).Should(BeClosed())
		ExpectGone(ctx, early)
		ExpectNominated(ctx, high, "n1")
		CreateNodes(ctx, "n2")
		expectAttempts(high, 1)
		letGo()
		ExpectBound(ctx, high)
	})

	It("retries the preemptor as soon as its victims are gone, even if another client deleted them",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"))
			reached, _ := f.Hold(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/victim/status") ||
					DeletesPod(r, "victim")
			})
			high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
			Eventually(reached).Should(BeClosed())
			Expect(K8s.Delete(ctx, victim)).To(Succeed())
			ExpectGone(ctx, victim)
			Expect(ExpectBound(ctx, high)).To(Equal("n1"))
			Expect(EventsOf(ctx, victim, "Preempted")).To(BeEmpty())
		})

	It("retries the preemptor only once", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), TerminatesSlowly)
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectTerminating(ctx, victim)
		ExpectEvent(ctx, victim, "Preempted", Not(BeEmpty()))
		expectAttempts(high, 1)
		Terminate(ctx, victim)
		ExpectBound(ctx, high)
		Expect(s.Attempts(high)).To(Equal(2))
	})

	It("is retried when a deletion fails, with few attempts of the preemptor", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"))
		var refused atomic.Int32
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if DeletesPod(r, "victim") && refused.Add(1) <= 2 {
				return nil, ErrNoRoute
			}
			return send()
		})
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectBound(ctx, high)
		Expect(refused.Load()).To(Equal(int32(3)))
		Expect(s.Attempts(high)).To(BeNumerically("<=", 4))
	})

	It("keeps the room from pods of lower priority, but not from pods of higher priority", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreatePod(ctx, "somebody-else", "victim", CPU("4"), OnNode("n1"))
		reached, letGo := f.Hold(func(r *http.Request) bool { return DeletesPod(r, "victim") })
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		Eventually(reached).Should(BeClosed())
		middle := CreatePod(ctx, "mine", "middle", CPU("4"), Prioritized("middle"))
		ExpectUnscheduled(ctx, middle, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		top := CreatePod(ctx, "mine", "top", CPU("4"), Prioritized("top"))
		ExpectNominated(ctx, top, "n1")
		ExpectNominated(ctx, high, "")
		letGo()
		ExpectBound(ctx, top)
		ExpectPending(ctx, high)
		ExpectPending(ctx, middle)
	})

	It("shares a large node with the preemption of a pod of lower priority", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		for _, name := range Names("victim", 2) {
			CreatePod(ctx, "somebody-else", name, CPU("2"), OnNode("n1"))
		}
		reached, letGo := f.Hold(func(r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/victim-")
		})
		high := CreatePod(ctx, "mine", "high", CPU("2"), Prioritized("important"))
		Eventually(reached).Should(BeClosed())
		middle := CreatePod(ctx, "mine", "middle", CPU("2"), Prioritized("middle"))
		ExpectNominated(ctx, middle, "n1")
		expectAttempts(middle, 1)
		letGo()
		ExpectBound(ctx, high)
		ExpectBound(ctx, middle)
	})

	Describe("whose profile is reloaded", func() {
		var (
			high  *corev1.Pod
			letGo func()
		)
		BeforeEach(func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"))
			var reached <-chan struct{}
			reached, letGo = f.Hold(func(r *http.Request) bool { return DeletesPod(r, "victim") })
			high = CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
			Eventually(reached).Should(BeClosed())
		})

		It("holds the preemptor back under the new generation, too, and outlives the old one",
			func(ctx context.Context) {
				Respec(ctx, "mine", "{plugins: {preFilter: {enabled: [{name: Alpha}]}}, pluginConfig: [{name: Alpha, "+
					"args: {as: new}}]}")
				Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
				expectAttempts(high, 1)
				letGo()
				ExpectBound(ctx, high)
				// It may be admitted before the victim's deletion has reached the cache. In that
				// case, it waits for the deletion.
				Expect(slices.Compact(s.At(high, "PreFilter"))).To(Equal([]string{"Alpha", "Alpha new"}))
			})

		It("holds no pod back if the new generation does not preempt", func(ctx context.Context) {
			Respec(ctx, "mine", `{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}, preFilter: `+
				`{enabled: [{name: Alpha}]}}}`)
			expectAttempts(high, 2)
			letGo()
			ExpectBound(ctx, high)
		})

		It("ends without its profile, and the preemptor is scheduled once the profile is back",
			func(ctx context.Context) {
				Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
				ExpectEvent(ctx, high, "FailedScheduling", ContainSubstring("is gone"))
				Eventually(run.Scheduler.Store().Alive).Should(BeZero())
				CreateProfile(ctx, "mine", observed)
				expectAttempts(high, 1)
				letGo()
				ExpectBound(ctx, high)
			})

		It("is completed for a profile that is deleted", func(ctx context.Context) {
			Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
			ExpectEvent(ctx, high, "FailedScheduling", ContainSubstring("is gone"))
			letGo()
			ExpectGone(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: high.Namespace, Name: "victim"}})
			ExpectPending(ctx, high)
			CreateProfile(ctx, "mine", observed)
			ExpectBound(ctx, high)
		})

		It("holds the preemptor back under a profile of another name that takes over its pods",
			func(ctx context.Context) {
				Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
				Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
				Create(ctx, Profile("renamed", "{schedulerName: mine, "+observed+"}"))
				ExpectCondition(ctx, "renamed", v1alpha1.ConditionProgrammed, metav1.ConditionTrue,
					v1alpha1.ReasonProgrammed)
				expectAttempts(high, 1)
				letGo()
				ExpectBound(ctx, high)
			})
	})

	It("ends with the process", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"))
		reached, _ := f.Hold(func(r *http.Request) bool { return DeletesPod(r, "victim") })
		CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		Eventually(reached).Should(BeClosed())
		Expect(run.Stop(StopsWithin)).To(Succeed())
		ExpectStays(ctx, victim)
	})
})

var _ = Describe("The victim of a preemption", func() {
	var s *Script
	const both = "plugins: {multiPoint: {enabled: [{name: Alpha}]}, bind: {enabled: [{name: Alpha}, {name: " +
		"DefaultBinder}], disabled: [{name: \"*\"}]}}"

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		Start(s.Register)
		Create(ctx, QuickRetries())
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateProfile(ctx, "mine", both)
	})

	It("is put back in the queue instead of deleted while it waits on Permit under any profile, and the preemptor is "+
		"bound", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "other", both)
		s.Perform(WaitsOnPermit(10 * time.Minute))
		for _, schedulerName := range []string{"mine", "other"} {
			low := CreatePod(ctx, schedulerName, "low-"+schedulerName, CPU("3"), Labelled("wait", "yes"))
			s.ExpectWaiting(ctx, low)
			high := CreatePod(ctx, "mine", "high-"+schedulerName, CPU("3"), Prioritized("important"))
			ExpectBound(ctx, high)
			ExpectStays(ctx, low)
			Eventually(s.At).WithArguments(low, "Unreserve").Should(Equal([]string{Alpha}))
			ExpectUnscheduled(ctx, low, corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			preempted := ExpectEvent(ctx, low, "Preempted",
				Equal("Preempted by pod "+string(high.UID)+" on node n1 (in kube-scheduler memory)."))
			Expect(preempted.Related.UID).To(Equal(high.UID))
			Expect(K8s.Delete(ctx, low)).To(Succeed())
			Expect(K8s.Delete(ctx, high)).To(Succeed())
			ExpectGone(ctx, high)
		}
	})

	It("is put back in the queue while it is in PreBind, which is canceled", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		preparing := make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(ctx context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name != "low" {
					return nil
				}
				close(preparing)
				<-ctx.Done()
				return fwk.AsStatus(context.Cause(ctx))
			}
		})
		low := CreatePod(ctx, "mine", "low", CPU("3"))
		Eventually(preparing).Should(BeClosed())
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectBound(ctx, high)
		ExpectStays(ctx, low)
		ExpectPending(ctx, low)
	})

	It("keeps its room while its PreBind does not end, and no other pod is preempted for it",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			preparing, end := make(chan struct{}), make(chan struct{})
			letGo := sync.OnceFunc(func() { close(end) })
			DeferCleanup(letGo)
			s.Perform(func(a *Acts) {
				a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
					if pod.Name == "low" {
						close(preparing)
						<-end
					}
					return nil
				}
			})
			costly := []*corev1.Pod{
				CreatePod(ctx, "somebody-else", "costly-1", CPU("2"), OnNode("n2")),
				CreatePod(ctx, "somebody-else", "costly-2", CPU("2"), OnNode("n2")),
			}
			low := CreatePod(ctx, "mine", "low", CPU("3"))
			Eventually(preparing).Should(BeClosed())
			high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
			ExpectEvent(ctx, low, "Preempted", HaveSuffix("(in kube-scheduler memory)."))
			before := s.Attempts(high)
			small := CreatePod(ctx, "somebody-else", "small", OnNode("n1"), CPU("1m"))
			Expect(K8s.Delete(ctx, small)).To(Succeed())
			Eventually(s.Attempts).WithArguments(high).Should(BeNumerically(">", before))
			ExpectPending(ctx, high)
			ExpectStays(ctx, costly...)
			ExpectStays(ctx, low)
			letGo()
			Expect(ExpectBound(ctx, high)).To(Equal("n1"))
			ExpectStays(ctx, costly...)
		})

	It("is deleted if it is about to be bound, and its room is freed immediately", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		binding, end := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(end) })
		DeferCleanup(letGo)
		s.Perform(func(a *Acts) {
			a.Bind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "low" {
					close(binding)
					<-end
				}
				return fwk.NewStatus(fwk.Skip)
			}
		})
		low := CreatePod(ctx, "mine", "low", CPU("3"))
		Eventually(binding).Should(BeClosed())
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectBound(ctx, high)
		ExpectGone(ctx, low)
		letGo()
		Eventually(s.At).WithArguments(low, "Unreserve").Should(Equal([]string{Alpha}))
	})

	It("may belong to any profile or scheduler", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "other", "")
		theirs := CreatePod(ctx, "other", "theirs", CPU("2"))
		ExpectBound(ctx, theirs)
		foreign := CreatePod(ctx, "somebody-else", "foreign", CPU("2"), OnNode("n1"))
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		ExpectBound(ctx, high)
		ExpectGone(ctx, theirs)
		ExpectGone(ctx, foreign)
		for _, pod := range []*corev1.Pod{theirs, foreign} {
			Expect(ExpectEvent(ctx, pod, "Preempted", Not(BeEmpty())).ReportingController).To(Equal("mine"))
		}
	})

	It("is on a node that the PreFilter plugins leave and that no Filter plugin rejects as unresolvable",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2", "n3")
			pods := map[string]*corev1.Pod{}
			for _, node := range []string{"n1", "n2", "n3"} {
				pods[node] = CreatePod(ctx, "somebody-else", node, CPU("3"), OnNode(node))
			}
			s.Perform(func(a *Acts) {
				a.PreFilter = func(*Actor, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
					return &fwk.PreFilterResult{NodeNames: sets.New("n2", "n3")}, nil
				}
				a.Filter = func(_ context.Context, _ *Actor, _ *corev1.Pod, node string) *fwk.Status {
					if node == "n2" {
						return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no")
					}
					return nil
				}
			})
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important")))).To(Equal("n3"))
			ExpectGone(ctx, pods["n3"])
			ExpectStays(ctx, pods["n1"], pods["n2"])
		})

	It("does not exist if preemption is disabled", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "peaceful", "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}")
		low := CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n1"))
		high := CreatePod(ctx, "peaceful", "high", CPU("3"), Prioritized("important"))
		ExpectUnscheduled(ctx, high, corev1.PodReasonUnschedulable,
			And(HavePrefix("0/1 nodes are available: 1 Insufficient cpu."), Not(ContainSubstring("preemption:"))))
		Expect(high.Status.NominatedNodeName).To(BeEmpty())
		ExpectStays(ctx, low)
	})
})
