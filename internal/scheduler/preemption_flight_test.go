// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

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
	"github.com/livesched/livesched/test/testcluster"
)

// deletesPod says whether a request deletes a pod.
func deletesPod(r *http.Request, name string) bool {
	return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+name)
}

// hold stops calls that match, until letGo is called. reached is closed when the first has come.
func (f *faults) hold(which func(*http.Request) bool) (reached <-chan struct{}, letGo func()) {
	at, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if which(r) {
			once.Do(func() { close(at) })
			select {
			case <-open:
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}
		return send()
	})
	letGo = sync.OnceFunc(func() { close(open) })
	DeferCleanup(letGo)
	return at, letGo
}

// attempts counts the scheduling cycles of a pod, in which the plugin Alpha is called once each.
func (s *script) attempts(pod *corev1.Pod) int { return len(s.at(pod, "PreFilter")) }

var _ = Describe("A preemption under way", func() {
	var (
		s   *script
		f   *faults
		run *testcluster.Running
	)
	const observed = "plugins: {preFilter: {enabled: [{name: Alpha}]}}"

	BeforeEach(func(ctx context.Context) {
		s, f = &script{}, &faults{}
		run = startFor(f.config(), s.register)
		create(ctx, quickRetries())
		createProfile(ctx, "mine", observed)
		createClasses(ctx, priorityClass("middle", 100), priorityClass("important", 1000), priorityClass("top", 2000))
	})

	// expectAttempts makes sure that a pod has been tried so often, and is not tried again.
	expectAttempts := func(pod *corev1.Pod, count int) {
		GinkgoHelper()
		Eventually(s.attempts).WithArguments(pod).Should(Equal(count))
		Consistently(s.attempts).WithArguments(pod).Should(Equal(count))
	}

	It("holds the preemptor back, whatever happens, and lets it in when it ends", func(ctx context.Context) {
		nodes(ctx, "n1")
		early := createPod(ctx, "somebody-else", "early", cpu("2"), on("n1"))
		createPod(ctx, "somebody-else", "late", cpu("2"), on("n1"))
		reached, letGo := f.hold(func(r *http.Request) bool { return deletesPod(r, "late") })
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		Eventually(reached).Should(BeClosed())
		expectGone(ctx, early)
		expectNominated(ctx, high, "n1")
		nodes(ctx, "n2")
		expectAttempts(high, 1)
		letGo()
		expectBound(ctx, high)
	})

	It("lets a preemptor in as soon as its victims are gone, if somebody else deleted them", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"))
		reached, _ := f.hold(func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/victim/status") || deletesPod(r, "victim")
		})
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		Eventually(reached).Should(BeClosed())
		Expect(k8s.Delete(ctx, victim)).To(Succeed())
		expectGone(ctx, victim)
		Expect(expectBound(ctx, high)).To(Equal("n1"))
		Expect(eventsOf(ctx, victim, "Preempted")).To(BeEmpty())
	})

	It("does not let a preemptor in for nothing", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), terminatesSlowly)
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectTerminating(ctx, victim)
		expectEvent(ctx, victim, "Preempted", Not(BeEmpty()))
		expectAttempts(high, 1)
		terminate(ctx, victim)
		expectBound(ctx, high)
		Expect(s.attempts(high)).To(Equal(2))
	})

	It("is tried again when the API server refuses, and not without end", func(ctx context.Context) {
		nodes(ctx, "n1")
		createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"))
		var refused atomic.Int32
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if deletesPod(r, "victim") && refused.Add(1) <= 2 {
				return nil, errNoRoute
			}
			return send()
		})
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectBound(ctx, high)
		Expect(refused.Load()).To(Equal(int32(3)))
		Expect(s.attempts(high)).To(BeNumerically("<=", 4))
	})

	It("keeps the room from less important pods, and not from more important ones", func(ctx context.Context) {
		nodes(ctx, "n1")
		createPod(ctx, "somebody-else", "victim", cpu("4"), on("n1"))
		reached, letGo := f.hold(func(r *http.Request) bool { return deletesPod(r, "victim") })
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		Eventually(reached).Should(BeClosed())
		middle := createPod(ctx, "mine", "middle", cpu("4"), prioritized("middle"))
		expectUnscheduled(ctx, middle, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		top := createPod(ctx, "mine", "top", cpu("4"), prioritized("top"))
		expectNominated(ctx, top, "n1")
		expectNominated(ctx, high, "")
		letGo()
		expectBound(ctx, top)
		expectPending(ctx, high)
		expectPending(ctx, middle)
	})

	It("shares a big node with that of a less important pod", func(ctx context.Context) {
		nodes(ctx, "n1")
		for _, name := range names("victim", 2) {
			createPod(ctx, "somebody-else", name, cpu("2"), on("n1"))
		}
		reached, letGo := f.hold(func(r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/victim-")
		})
		high := createPod(ctx, "mine", "high", cpu("2"), prioritized("important"))
		Eventually(reached).Should(BeClosed())
		middle := createPod(ctx, "mine", "middle", cpu("2"), prioritized("middle"))
		expectNominated(ctx, middle, "n1")
		expectAttempts(middle, 1)
		letGo()
		expectBound(ctx, high)
		expectBound(ctx, middle)
	})

	Describe("whose profile is reloaded", func() {
		var (
			high  *corev1.Pod
			letGo func()
		)
		BeforeEach(func(ctx context.Context) {
			nodes(ctx, "n1")
			createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"))
			var reached <-chan struct{}
			reached, letGo = f.hold(func(r *http.Request) bool { return deletesPod(r, "victim") })
			high = createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
			Eventually(reached).Should(BeClosed())
		})

		It("holds the preemptor back under the new generation as well, and outlives the old one", func(ctx context.Context) {
			respec(ctx, "mine", "{plugins: {preFilter: {enabled: [{name: Alpha}]}}, pluginConfig: [{name: Alpha, args: {as: new}}]}")
			Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
			expectAttempts(high, 1)
			letGo()
			expectBound(ctx, high)
			// It may be let in before the victim's deletion has reached the cache, in which case it
			// waits for that.
			Expect(slices.Compact(s.at(high, "PreFilter"))).To(Equal([]string{"Alpha", "Alpha new"}))
		})

		It("holds nobody back if the new generation does not preempt", func(ctx context.Context) {
			respec(ctx, "mine", `{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}, preFilter: {enabled: [{name: Alpha}]}}}`)
			expectAttempts(high, 2)
			letGo()
			expectBound(ctx, high)
		})

		It("ends without its profile, and the preemptor comes back when the profile does", func(ctx context.Context) {
			Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
			expectEvent(ctx, high, "FailedScheduling", ContainSubstring("is gone"))
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
			createProfile(ctx, "mine", observed)
			expectAttempts(high, 1)
			letGo()
			expectBound(ctx, high)
		})

		It("is finished for a profile that is deleted", func(ctx context.Context) {
			Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
			expectEvent(ctx, high, "FailedScheduling", ContainSubstring("is gone"))
			letGo()
			expectGone(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: high.Namespace, Name: "victim"}})
			expectPending(ctx, high)
			createProfile(ctx, "mine", observed)
			expectBound(ctx, high)
		})

		It("holds the preemptor back under a profile of another name that takes its pods over", func(ctx context.Context) {
			Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
			create(ctx, profile("renamed", "{schedulerName: mine, "+observed+"}"))
			expectCondition(ctx, "renamed", v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
			expectAttempts(high, 1)
			letGo()
			expectBound(ctx, high)
		})
	})

	It("ends with the process", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"))
		reached, _ := f.hold(func(r *http.Request) bool { return deletesPod(r, "victim") })
		createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		Eventually(reached).Should(BeClosed())
		Expect(run.Stop(stopsWithin)).To(Succeed())
		expectStays(ctx, victim)
	})
})

var _ = Describe("The victim of a preemption", func() {
	var s *script
	const both = "plugins: {multiPoint: {enabled: [{name: Alpha}]}, bind: {enabled: [{name: Alpha}, {name: DefaultBinder}], disabled: [{name: \"*\"}]}}"

	BeforeEach(func(ctx context.Context) {
		s = &script{}
		start(s.register)
		create(ctx, quickRetries())
		createClasses(ctx, priorityClass("important", 1000))
		createProfile(ctx, "mine", both)
	})

	It("is put back and not deleted while it waits on Permit, under whatever profile, and the preemptor is bound", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "other", both)
		s.perform(waits(10 * time.Minute))
		for _, schedulerName := range []string{"mine", "other"} {
			low := createPod(ctx, schedulerName, "low-"+schedulerName, cpu("3"), labelled("wait", "yes"))
			s.expectWaiting(ctx, low)
			high := createPod(ctx, "mine", "high-"+schedulerName, cpu("3"), prioritized("important"))
			expectBound(ctx, high)
			expectStays(ctx, low)
			Eventually(s.at).WithArguments(low, "Unreserve").Should(Equal([]string{alpha}))
			expectUnscheduled(ctx, low, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			preempted := expectEvent(ctx, low, "Preempted", Equal("Preempted by pod "+string(high.UID)+" on node n1 (in kube-scheduler memory)."))
			Expect(preempted.Related.UID).To(Equal(high.UID))
			Expect(k8s.Delete(ctx, low)).To(Succeed())
			Expect(k8s.Delete(ctx, high)).To(Succeed())
			expectGone(ctx, high)
		}
	})

	It("is put back while it is in PreBind, which is told to end", func(ctx context.Context) {
		nodes(ctx, "n1")
		preparing := make(chan struct{})
		s.perform(func(a *acts) {
			a.preBind = func(ctx context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name != "low" {
					return nil
				}
				close(preparing)
				<-ctx.Done()
				return fwk.AsStatus(context.Cause(ctx))
			}
		})
		low := createPod(ctx, "mine", "low", cpu("3"))
		Eventually(preparing).Should(BeClosed())
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectBound(ctx, high)
		expectStays(ctx, low)
		expectPending(ctx, low)
	})

	It("keeps its room while it is in a PreBind that does not end, and nobody else is preempted for it", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		preparing, end := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(end) })
		DeferCleanup(letGo)
		s.perform(func(a *acts) {
			a.preBind = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "low" {
					close(preparing)
					<-end
				}
				return nil
			}
		})
		costly := []*corev1.Pod{
			createPod(ctx, "somebody-else", "costly-1", cpu("2"), on("n2")), createPod(ctx, "somebody-else", "costly-2", cpu("2"), on("n2")),
		}
		low := createPod(ctx, "mine", "low", cpu("3"))
		Eventually(preparing).Should(BeClosed())
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectEvent(ctx, low, "Preempted", HaveSuffix("(in kube-scheduler memory)."))
		before := s.attempts(high)
		small := createPod(ctx, "somebody-else", "small", on("n1"), cpu("1m"))
		Expect(k8s.Delete(ctx, small)).To(Succeed())
		Eventually(s.attempts).WithArguments(high).Should(BeNumerically(">", before))
		expectPending(ctx, high)
		expectStays(ctx, costly...)
		expectStays(ctx, low)
		letGo()
		Expect(expectBound(ctx, high)).To(Equal("n1"))
		expectStays(ctx, costly...)
	})

	It("is deleted if it is about to be bound, and its room is free at once", func(ctx context.Context) {
		nodes(ctx, "n1")
		binding, end := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(end) })
		DeferCleanup(letGo)
		s.perform(func(a *acts) {
			a.bind = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "low" {
					close(binding)
					<-end
				}
				return fwk.NewStatus(fwk.Skip)
			}
		})
		low := createPod(ctx, "mine", "low", cpu("3"))
		Eventually(binding).Should(BeClosed())
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectBound(ctx, high)
		expectGone(ctx, low)
		letGo()
		Eventually(s.at).WithArguments(low, "Unreserve").Should(Equal([]string{alpha}))
	})

	It("may belong to any profile or scheduler", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "other", "")
		theirs := createPod(ctx, "other", "theirs", cpu("2"))
		expectBound(ctx, theirs)
		foreign := createPod(ctx, "somebody-else", "foreign", cpu("2"), on("n1"))
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectBound(ctx, high)
		expectGone(ctx, theirs)
		expectGone(ctx, foreign)
		for _, pod := range []*corev1.Pod{theirs, foreign} {
			Expect(expectEvent(ctx, pod, "Preempted", Not(BeEmpty())).ReportingController).To(Equal("mine"))
		}
	})

	It("is on a node that the PreFilter plugins leave, and that no Filter plugin rules out", func(ctx context.Context) {
		nodes(ctx, "n1", "n2", "n3")
		pods := map[string]*corev1.Pod{}
		for _, node := range []string{"n1", "n2", "n3"} {
			pods[node] = createPod(ctx, "somebody-else", node, cpu("3"), on(node))
		}
		s.perform(func(a *acts) {
			a.preFilter = func(*actor, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: sets.New("n2", "n3")}, nil
			}
			a.filter = func(_ context.Context, _ *actor, _ *corev1.Pod, node string) *fwk.Status {
				if node == "n2" {
					return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no")
				}
				return nil
			}
		})
		Expect(expectBound(ctx, createPod(ctx, "mine", "high", cpu("3"), prioritized("important")))).To(Equal("n3"))
		expectGone(ctx, pods["n3"])
		expectStays(ctx, pods["n1"], pods["n2"])
	})

	It("is nobody where preemption is switched off", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "peaceful", "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}")
		low := createPod(ctx, "somebody-else", "low", cpu("3"), on("n1"))
		high := createPod(ctx, "peaceful", "high", cpu("3"), prioritized("important"))
		expectUnscheduled(ctx, high, corev1.PodReasonUnschedulable, And(HavePrefix("0/1 nodes are available: 1 Insufficient cpu."), Not(ContainSubstring("preemption:"))))
		Expect(high.Status.NominatedNodeName).To(BeEmpty())
		expectStays(ctx, low)
	})
})
