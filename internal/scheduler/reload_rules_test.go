// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// as is a profile with the plugin Alpha everywhere, which says of itself which generation it is.
func as(generation string) string {
	return fmt.Sprintf("{plugins: {multiPoint: {enabled: [{name: Alpha}]}}, pluginConfig: [{name: Alpha, args: {as: %s}}]}", generation)
}

// generations lists the generations of Alpha that were asked about a pod at the given extension
// points, in order and without repetition.
func (s *script) generations(pod *corev1.Pod, points ...string) []string {
	var all []string
	for _, c := range s.about(pod) {
		if slices.Contains(points, c.point) {
			all = append(all, c.as)
		}
	}
	return slices.Compact(all)
}

// inCycle are the extension points from Pop to the end of the binding.
var inCycle = []string{"PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "PostBind"}

// The rules are those of the design's section "What a reload must keep true"; docs/concepts.md has
// them for users.
var _ = Describe("A reload", func() {
	var (
		s   *script
		run *testcluster.Running
	)

	BeforeEach(func(ctx context.Context) {
		s = &script{}
		run = start(s.register, func(o *app.Options) { o.ProfileBuildTimeout = 2 * time.Second })
		create(ctx, quickRetries())
	})

	It("rule 1: a pod's cycle and its binding see exactly one generation of its profile, from pop to bind", func(ctx context.Context) {
		nodes(ctx, "n1")
		s.perform(waits(10 * time.Minute))
		createProfile(ctx, "mine", as("old"))
		held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
		waiting := s.expectWaiting(ctx, held)

		respec(ctx, "mine", as("new"))
		next := createPod(ctx, "mine", "next")
		expectBound(ctx, next)
		Expect(s.generations(next, inCycle...)).To(Equal([]string{"new"}))

		expectPending(ctx, held)
		waiting.Allow(alpha)
		expectBound(ctx, held)
		Eventually(func() []string { return s.at(held, "PostBind") }).Should(Equal([]string{"Alpha old"}))
		Expect(s.generations(held, inCycle...)).To(Equal([]string{"old"}))
	})

	It("rule 2: profiles, queue sort, PreEnqueue plugins and queueing hints change together, as one generation", func(ctx context.Context) {
		nodes(ctx, "n1")
		generation := func(i int) string {
			return fmt.Sprintf(`{plugins: {multiPoint: {enabled: [{name: Alpha}]}, queueSort: {enabled: [{name: Sorter}], disabled: [{name: "*"}]}},
				pluginConfig: [{name: Alpha, args: {as: g%d}}, {name: Sorter, args: {as: g%d}}]}`, i, i)
		}
		createProfile(ctx, "mine", generation(0))
		var pods []*corev1.Pod
		for i := range 10 {
			for _, name := range names(fmt.Sprintf("pod-%d", i), 6) {
				pods = append(pods, createPod(ctx, "mine", name, cpu("1m")))
			}
			respec(ctx, "mine", generation(i+1))
		}
		for _, pod := range pods {
			expectBound(ctx, pod)
			// Whoever let the pod into the queue last decides about it.
			calls := s.about(pod)
			popped := slices.IndexFunc(calls, func(c call) bool { return c.point == "PreFilter" })
			asked := slices.IndexFunc(calls, func(c call) bool { return c.point == "PreEnqueue" })
			Expect(asked).To(BeNumerically("<", popped))
			last := ""
			for _, c := range calls[:popped] {
				if c.point == "PreEnqueue" {
					last = c.as
				}
			}
			Expect(s.generations(pod, inCycle...)).To(Equal([]string{last}), "pod %s", pod.Name)
		}
	})

	Describe("rule 3: a build that fails, panics, or takes too long changes nothing and leaves nothing behind", func() {
		hang := make(chan struct{})
		DescribeTable("so that the profile that runs goes on", func(ctx context.Context, build func(*actor) error, message string) {
			nodes(ctx, "n1")
			createProfile(ctx, "mine", as("good"))
			handlers := run.Informers.Handlers()
			running := run.Scheduler.Store().Current().Get("mine")

			s.perform(func(a *acts) {
				a.build = func(a *actor) error {
					if a.args.As == "bad" {
						return build(a)
					}
					return nil
				}
			})
			update(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, func(p *v1alpha1.SchedulerProfile) { p.Spec = profile("mine", as("bad")).Spec })
			refused := expectCondition(ctx, "mine", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonBuildFailed)
			Expect(refused.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(message))))
			Expect(refused.Status.Active.Generation).To(Equal(int64(1)))

			Expect(run.Scheduler.Store().Current().Get("mine")).To(BeIdenticalTo(running))
			pod := createPod(ctx, "mine", "pod")
			expectBound(ctx, pod)
			Expect(s.generations(pod, inCycle...)).To(Equal([]string{"good"}))
			Eventually(run.Informers.Handlers).Should(Equal(handlers))
			Expect(run.Scheduler.Store().Alive()).To(Equal(1))
		},
			Entry("when it fails", func(*actor) error { return errors.New("no licence") }, `initializing plugin "Alpha": no licence`),
			Entry("when it panics", func(*actor) error { panic("at the disco") }, `plugin "Alpha": panic: at the disco`),
			Entry("when it hangs", func(a *actor) error {
				select {
				case <-hang: // never
				case <-a.ctx.Done():
				}
				return a.ctx.Err()
			}, `building plugin "Alpha"`),
		)

		It("and a new plugin's informers are synced before the swap", func(ctx context.Context) {
			nodes(ctx, "n1")
			synced := make(chan bool, 1)
			s.perform(func(a *acts) {
				a.build = func(a *actor) error {
					a.handle.SharedInformerFactory().Batch().V1().Jobs().Informer()
					return nil
				}
				a.preFilter = func(a *actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
					select {
					case synced <- a.handle.SharedInformerFactory().Batch().V1().Jobs().Informer().HasSynced():
					default:
					}
					return nil, nil
				}
			})
			pod := createPod(ctx, "mine", "pod")
			createProfile(ctx, "mine", as("one"))
			expectBound(ctx, pod)
			Expect(synced).To(Receive(BeTrue()))
		})
	})

	It("rule 4: unchanged profiles are carried over, the same instances", func(ctx context.Context) {
		createProfile(ctx, "kept", as("kept"))
		createProfile(ctx, "changed", as("one"))
		kept, changed := run.Scheduler.Store().Current().Get("kept"), run.Scheduler.Store().Current().Get("changed")
		respec(ctx, "changed", as("two"))
		Expect(run.Scheduler.Store().Current().Get("kept")).To(BeIdenticalTo(kept))
		Expect(run.Scheduler.Store().Current().Get("changed")).NotTo(BeIdenticalTo(changed))
		for _, a := range s.actors() {
			if a.args.As == "kept" {
				Expect(a.closes.Load()).To(BeZero())
			}
		}
	})

	Describe("rule 5: no pod is lost, stuck or bound twice:", func() {
		BeforeEach(func(ctx context.Context) { nodes(ctx, "n1") })

		It("a new profile takes up the pods that already wait for its name", func(ctx context.Context) {
			early := createPod(ctx, "mine", "early")
			expectPending(ctx, early)
			createProfile(ctx, "mine", as("one"))
			expectBound(ctx, early)
		})

		It("a deleted profile's pods leave the queue, are told why in an Event, and come back when the profile does", func(ctx context.Context) {
			createProfile(ctx, "mine", as("one"))
			behind := createPod(ctx, "mine", "behind-a-gate", gated)
			big := createPod(ctx, "mine", "big", cpu("100")) // livesched sees it after the other one
			expectUnscheduled(ctx, big, corev1.PodReasonUnschedulable, ContainSubstring("Insufficient cpu"))

			Expect(k8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).To(Succeed())
			for _, pod := range []*corev1.Pod{big, behind} {
				expectEvent(ctx, pod, "FailedScheduling", ContainSubstring(`scheduler name "mine" is gone`))
			}
			update(ctx, behind, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
			create(ctx, objects.Node("n2", "200", "8Gi", nil))
			expectPending(ctx, behind)
			expectPending(ctx, big)

			createProfile(ctx, "mine", as("two"))
			expectBound(ctx, big)
			expectBound(ctx, behind)
		})

		It("a changed profile's pending pods are looked at again at once, gated ones too", func(ctx context.Context) {
			s.perform(func(a *acts) {
				a.preEnqueue = func(a *actor, pod *corev1.Pod) *fwk.Status {
					if a.args.As == "closed" && pod.Labels["for"] == "gate" {
						return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed")
					}
					return nil
				}
				a.filter = func(_ context.Context, a *actor, _ *corev1.Pod, _ string) *fwk.Status {
					if a.args.As == "closed" {
						return fwk.NewStatus(fwk.Unschedulable, "closed")
					}
					return nil
				}
			})
			createProfile(ctx, "mine", as("closed"))
			filtered := createPod(ctx, "mine", "filtered")
			expectUnscheduled(ctx, filtered, corev1.PodReasonUnschedulable, ContainSubstring("closed"))
			stopped := createPod(ctx, "mine", "gated", labelled("for", "gate"))
			Eventually(func() []string { return s.points(stopped) }).Should(ContainElement("PreEnqueue"))
			expectPending(ctx, stopped)

			respec(ctx, "mine", as("open"))
			expectBound(ctx, filtered)
			expectBound(ctx, stopped)
		})

		It("a pod that is in its cycle while its profile is deleted is bound by the generation that it began with", func(ctx context.Context) {
			s.perform(waits(10 * time.Minute))
			createProfile(ctx, "mine", as("one"))
			held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
			waiting := s.expectWaiting(ctx, held)
			Expect(k8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
			Expect(run.Scheduler.Store().Alive()).To(Equal(1))
			waiting.Allow(alpha)
			expectBound(ctx, held)
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		})

		It("a pod that is refused by a generation that has been replaced is tried by the next one", func(ctx context.Context) {
			s.perform(waits(10 * time.Minute))
			createProfile(ctx, "mine", as("one"))
			held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
			waiting := s.expectWaiting(ctx, held)
			s.perform(func(a *acts) { a.permit = nil })
			respec(ctx, "mine", as("two"))
			// No event will help the pod: what refuses it has gone.
			waiting.Reject(alpha, "not today")
			expectBound(ctx, held)
		})

		It("a pod that is refused while its profile is deleted is told so, and comes back when the profile does", func(ctx context.Context) {
			s.perform(waits(10 * time.Minute))
			createProfile(ctx, "mine", as("one"))
			held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
			waiting := s.expectWaiting(ctx, held)
			Expect(k8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
			waiting.Reject(alpha, "not today")
			expectEvent(ctx, held, "FailedScheduling", ContainSubstring("is gone"))
			s.perform(func(a *acts) { a.permit = nil })
			createProfile(ctx, "mine", as("two"))
			expectBound(ctx, held)
		})
	})

	It("rule 6: a pod that waits on Permit under the old generation can be rejected by the new one", func(ctx context.Context) {
		nodes(ctx, "n1")
		s.perform(waits(10 * time.Minute))
		createProfile(ctx, "mine", as("old"))
		held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
		s.expectWaiting(ctx, held)
		respec(ctx, "mine", as("new"))
		s.perform(func(a *acts) { a.permit = nil })
		actors := s.actors()
		newest := actors[len(actors)-1]
		Expect(newest.args.As).To(Equal("new"))
		Expect(newest.handle.RejectWaitingPod(held.UID)).To(BeTrue())
		expectBound(ctx, held)
		Eventually(func() []string { return s.at(held, "PostBind") }).Should(Equal([]string{"Alpha new"}))
		Expect(s.at(held, "Unreserve")).To(Equal([]string{"Alpha old"}))
	})

	It("rule 7: a retired profile is closed exactly once, when its last pod has left", func(ctx context.Context) {
		nodes(ctx, "n1")
		s.perform(func(a *acts) {
			waits(10 * time.Minute)(a)
			a.build = func(a *actor) error {
				_, err := a.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				return err
			}
		})
		createProfile(ctx, "mine", as("old"))
		handlers := run.Informers.Handlers()
		old := s.actors()[0]
		held := createPod(ctx, "mine", "held", labelled("wait", "yes"))
		waiting := s.expectWaiting(ctx, held)

		respec(ctx, "mine", as("new"))
		Consistently(old.closes.Load).Should(BeZero())
		Expect(old.ctx.Err()).NotTo(HaveOccurred())
		Expect(run.Informers.Handlers()).To(BeNumerically(">", handlers))

		waiting.Allow(alpha)
		expectBound(ctx, held)
		Eventually(old.closes.Load).Should(Equal(int32(1)))
		Expect(old.ctx.Err()).To(MatchError(context.Canceled))
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		respec(ctx, "mine", as("newer"))
		Consistently(old.closes.Load).Should(Equal(int32(1)))
	})

	It("rule 8: a new queue sort re-orders the pods already queued", func(ctx context.Context) {
		by := func(generation string) string {
			return fmt.Sprintf(`{plugins: {multiPoint: {enabled: [{name: Alpha}]}, queueSort: {enabled: [{name: Sorter}], disabled: [{name: "*"}]}},
				pluginConfig: [{name: Sorter, args: {as: %s}}]}`, generation)
		}
		s.expectReordered(ctx,
			func() { createProfile(ctx, "mine", by("ascending")) },
			func() { respec(ctx, "mine", by("descending")) })
	})

	It("rule 9: status is written after the swap and names the generation that was swapped in", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "mine", as("g0"))
		for i := 1; i <= 15; i++ {
			generation := fmt.Sprintf("g%d", i)
			p := respec(ctx, "mine", as(generation))
			Expect(p.Status.Active.Generation).To(Equal(p.Generation))
			Expect(run.Scheduler.Store().Current().Get("mine").Config.Revision).To(Equal(p.Status.Active.Revision))
			pod := createPod(ctx, "mine", "after-"+generation, cpu("1m"))
			expectBound(ctx, pod)
			Expect(s.generations(pod, inCycle...)).To(Equal([]string{generation}))
			Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
	})
})

// order lists the pods in the order in which they came to an extension point.
func (s *script) order(point string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []string
	for _, c := range s.calls {
		if c.point == point {
			pods = append(pods, c.pod)
		}
	}
	return pods
}
