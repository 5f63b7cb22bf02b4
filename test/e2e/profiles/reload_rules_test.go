// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

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
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// as returns a profile with the plugin Alpha everywhere, which identifies its instance by the
// argument.
func as(generation string) string {
	return fmt.Sprintf(
		"{plugins: {multiPoint: {enabled: [{name: Alpha}]}}, pluginConfig: [{name: Alpha, args: {as: %s}}]}",
		generation)
}

// inCycle are the extension points from Pop to the end of the binding.
var inCycle = []string{"PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "PostBind"}

// The rules are those of the design's section "What a reload must keep true"; docs/concepts.md has
// them for users.
var _ = Describe("A reload", func() {
	var (
		s   *Script
		run *testcluster.Running
	)

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		run = Start(s.Register, func(o *app.Options) { o.ProfileBuildTimeout = 2 * time.Second })
		Create(ctx, QuickRetries())
	})

	It("rule 1: a pod's cycle and its binding see exactly one generation of its profile, from pop to bind",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			s.Perform(WaitsOnPermit(10 * time.Minute))
			CreateProfile(ctx, "mine", as("old"))
			held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
			waiting := s.ExpectWaiting(ctx, held)

			Respec(ctx, "mine", as("new"))
			next := CreatePod(ctx, "mine", "next")
			ExpectBound(ctx, next)
			Expect(s.Generations(next, inCycle...)).To(Equal([]string{"new"}))

			ExpectPending(ctx, held)
			waiting.Allow(Alpha)
			ExpectBound(ctx, held)
			Eventually(func() []string { return s.At(held, "PostBind") }).Should(Equal([]string{"Alpha old"}))
			Expect(s.Generations(held, inCycle...)).To(Equal([]string{"old"}))
		})

	It("rule 2: profiles, queue sort, PreEnqueue plugins and queueing hints change together, as one generation",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			generation := func(i int) string {
				return fmt.Sprintf(
					`{plugins: {multiPoint: {enabled: [{name: Alpha}]}, queueSort: {enabled: [{name: Sorter}], disabled: [{name: "*"}]}},
				pluginConfig: [{name: Alpha, args: {as: g%d}}, {name: Sorter, args: {as: g%d}}]}`, i, i)
			}
			CreateProfile(ctx, "mine", generation(0))
			var pods []*corev1.Pod
			for i := range 10 {
				for _, name := range Names(fmt.Sprintf("pod-%d", i), 6) {
					pods = append(pods, CreatePod(ctx, "mine", name, CPU("1m")))
				}
				Respec(ctx, "mine", generation(i+1))
			}
			for _, pod := range pods {
				ExpectBound(ctx, pod)
				// The instance that last admitted the pod to the queue decides about it.
				calls := s.About(pod)
				popped := slices.IndexFunc(calls, func(c Call) bool { return c.Point == "PreFilter" })
				asked := slices.IndexFunc(calls, func(c Call) bool { return c.Point == "PreEnqueue" })
				Expect(asked).To(BeNumerically("<", popped))
				last := ""
				for _, c := range calls[:popped] {
					if c.Point == "PreEnqueue" {
						last = c.As
					}
				}
				Expect(s.Generations(pod, inCycle...)).To(Equal([]string{last}), "pod %s", pod.Name)
			}
		})

	Describe("rule 3: a build that fails, panics, or takes too long changes nothing and leaves nothing behind", func() {
		hang := make(chan struct{})
		DescribeTable("and the running profile continues", func(ctx context.Context, build func(*Actor) error,
			message string) {
			CreateNodes(ctx, "n1")
			CreateProfile(ctx, "mine", as("good"))
			handlers := run.Informers.Handlers()
			running := run.Scheduler.Store().Current().Get("mine")

			s.Perform(func(a *Acts) {
				a.Build = func(a *Actor) error {
					if a.Args.As == "bad" {
						return build(a)
					}
					return nil
				}
			})
			Update(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
				func(p *v1alpha1.SchedulerProfile) { p.Spec = Profile("mine", as("bad")).Spec })
			refused := ExpectCondition(ctx, "mine", v1alpha1.ConditionProgrammed, metav1.ConditionFalse,
				v1alpha1.ReasonBuildFailed)
			Expect(refused.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(message))))
			Expect(refused.Status.Active.Generation).To(Equal(int64(1)))

			Expect(run.Scheduler.Store().Current().Get("mine")).To(BeIdenticalTo(running))
			pod := CreatePod(ctx, "mine", "pod")
			ExpectBound(ctx, pod)
			Expect(s.Generations(pod, inCycle...)).To(Equal([]string{"good"}))
			Eventually(run.Informers.Handlers).Should(Equal(handlers))
			Expect(run.Scheduler.Store().Alive()).To(Equal(1))
		},
			Entry("when it fails", func(*Actor) error { return errors.New("no licence") },
				`initializing plugin "Alpha": no licence`),
			Entry("when it panics", func(*Actor) error { panic("at the disco") },
				`plugin "Alpha": panic: at the disco`),
			Entry("when it hangs", func(a *Actor) error {
				select {
				case <-hang: // never
				case <-a.Ctx.Done():
				}
				return a.Ctx.Err()
			}, `building plugin "Alpha"`),
		)

		It("and a new plugin's informers are synced before the swap", func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			synced := make(chan bool, 1)
			s.Perform(func(a *Acts) {
				a.Build = func(a *Actor) error {
					a.Handle.SharedInformerFactory().Batch().V1().Jobs().Informer()
					return nil
				}
				a.PreFilter = func(a *Actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
					select {
					case synced <- a.Handle.SharedInformerFactory().Batch().V1().Jobs().Informer().HasSynced():
					default:
					}
					return nil, nil
				}
			})
			pod := CreatePod(ctx, "mine", "pod")
			CreateProfile(ctx, "mine", as("one"))
			ExpectBound(ctx, pod)
			Expect(synced).To(Receive(BeTrue()))
		})
	})

	It("rule 4: unchanged profiles keep the same instances", func(ctx context.Context) {
		CreateProfile(ctx, "kept", as("kept"))
		CreateProfile(ctx, "changed", as("one"))
		kept, changed := run.Scheduler.Store().Current().Get("kept"), run.Scheduler.Store().Current().Get("changed")
		Respec(ctx, "changed", as("two"))
		Expect(run.Scheduler.Store().Current().Get("kept")).To(BeIdenticalTo(kept))
		Expect(run.Scheduler.Store().Current().Get("changed")).NotTo(BeIdenticalTo(changed))
		for _, a := range s.Actors() {
			if a.Args.As == "kept" {
				Expect(a.Closes.Load()).To(BeZero())
			}
		}
	})

	Describe("rule 5: no pod is lost, stuck or bound twice:", func() {
		BeforeEach(func(ctx context.Context) { CreateNodes(ctx, "n1") })

		It("a new profile schedules the pods that already wait for its name", func(ctx context.Context) {
			early := CreatePod(ctx, "mine", "early")
			ExpectPending(ctx, early)
			CreateProfile(ctx, "mine", as("one"))
			ExpectBound(ctx, early)
		})

		It("a deleted profile's pods leave the queue, get an Event with the reason, and come back when the profile "+
			"does", func(ctx context.Context) {
			CreateProfile(ctx, "mine", as("one"))
			behind := CreatePod(ctx, "mine", "behind-a-gate", Gated)
			big := CreatePod(ctx, "mine", "big", CPU("100")) // livesched sees it after the other one
			ExpectUnscheduled(ctx, big, corev1.PodReasonUnschedulable, ContainSubstring("Insufficient cpu"))

			Expect(K8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).
				To(Succeed())
			for _, pod := range []*corev1.Pod{big, behind} {
				ExpectEvent(ctx, pod, "FailedScheduling", ContainSubstring(`scheduler name "mine" is gone`))
			}
			Update(ctx, behind, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
			Create(ctx, Node("n2", "200", "8Gi", nil))
			ExpectPending(ctx, behind)
			ExpectPending(ctx, big)

			CreateProfile(ctx, "mine", as("two"))
			ExpectBound(ctx, big)
			ExpectBound(ctx, behind)
		})

		It("a changed profile's pending pods are tried again immediately, including gated ones",
			func(ctx context.Context) {
				s.Perform(func(a *Acts) {
					a.PreEnqueue = func(a *Actor, pod *corev1.Pod) *fwk.Status {
						if a.Args.As == "closed" && pod.Labels["for"] == "gate" {
							return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed")
						}
						return nil
					}
					a.Filter = func(_ context.Context, a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
						if a.Args.As == "closed" {
							return fwk.NewStatus(fwk.Unschedulable, "closed")
						}
						return nil
					}
				})
				CreateProfile(ctx, "mine", as("closed"))
				filtered := CreatePod(ctx, "mine", "filtered")
				ExpectUnscheduled(ctx, filtered, corev1.PodReasonUnschedulable, ContainSubstring("closed"))
				stopped := CreatePod(ctx, "mine", "gated", Labelled("for", "gate"))
				Eventually(func() []string { return s.Points(stopped) }).Should(ContainElement("PreEnqueue"))
				ExpectPending(ctx, stopped)

				Respec(ctx, "mine", as("open"))
				ExpectBound(ctx, filtered)
				ExpectBound(ctx, stopped)
			})

		It("a pod whose profile is deleted during its cycle is bound by the generation that it started with",
			func(ctx context.Context) {
				s.Perform(WaitsOnPermit(10 * time.Minute))
				CreateProfile(ctx, "mine", as("one"))
				held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
				waiting := s.ExpectWaiting(ctx, held)
				Expect(K8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).
					To(Succeed())
				Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
				Expect(run.Scheduler.Store().Alive()).To(Equal(1))
				waiting.Allow(Alpha)
				ExpectBound(ctx, held)
				Eventually(run.Scheduler.Store().Alive).Should(BeZero())
			})

		It("a pod that a replaced generation rejects is retried by the next one", func(ctx context.Context) {
			s.Perform(WaitsOnPermit(10 * time.Minute))
			CreateProfile(ctx, "mine", as("one"))
			held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
			waiting := s.ExpectWaiting(ctx, held)
			s.Perform(func(a *Acts) { a.Permit = nil })
			Respec(ctx, "mine", as("two"))
			// No event will help the pod: the plugin that rejected it is gone.
			waiting.Reject(Alpha, "not today")
			ExpectBound(ctx, held)
		})

		It("a pod that is rejected while its profile is deleted gets the reason, and comes back when the profile does",
			func(ctx context.Context) {
				s.Perform(WaitsOnPermit(10 * time.Minute))
				CreateProfile(ctx, "mine", as("one"))
				held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
				waiting := s.ExpectWaiting(ctx, held)
				Expect(K8s.Delete(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).
					To(Succeed())
				Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
				waiting.Reject(Alpha, "not today")
				ExpectEvent(ctx, held, "FailedScheduling", ContainSubstring("is gone"))
				s.Perform(func(a *Acts) { a.Permit = nil })
				CreateProfile(ctx, "mine", as("two"))
				ExpectBound(ctx, held)
			})
	})

	It("rule 6: a pod that waits on Permit under the old generation can be rejected by the new one",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			s.Perform(WaitsOnPermit(10 * time.Minute))
			CreateProfile(ctx, "mine", as("old"))
			held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
			s.ExpectWaiting(ctx, held)
			Respec(ctx, "mine", as("new"))
			s.Perform(func(a *Acts) { a.Permit = nil })
			actors := s.Actors()
			newest := actors[len(actors)-1]
			Expect(newest.Args.As).To(Equal("new"))
			Expect(newest.Handle.RejectWaitingPod(held.UID)).To(BeTrue())
			ExpectBound(ctx, held)
			Eventually(func() []string { return s.At(held, "PostBind") }).Should(Equal([]string{"Alpha new"}))
			Expect(s.At(held, "Unreserve")).To(Equal([]string{"Alpha old"}))
		})

	It("rule 7: a retired profile is closed exactly once, when its last pod has left", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		s.Perform(func(a *Acts) {
			WaitsOnPermit(10 * time.Minute)(a)
			a.Build = func(a *Actor) error {
				_, err := a.Handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				return err
			}
		})
		CreateProfile(ctx, "mine", as("old"))
		handlers := run.Informers.Handlers()
		old := s.Actors()[0]
		held := CreatePod(ctx, "mine", "held", Labelled("wait", "yes"))
		waiting := s.ExpectWaiting(ctx, held)

		Respec(ctx, "mine", as("new"))
		Consistently(old.Closes.Load).Should(BeZero())
		Expect(old.Ctx.Err()).NotTo(HaveOccurred())
		Expect(run.Informers.Handlers()).To(BeNumerically(">", handlers))

		waiting.Allow(Alpha)
		ExpectBound(ctx, held)
		Eventually(old.Closes.Load).Should(Equal(int32(1)))
		Expect(old.Ctx.Err()).To(MatchError(context.Canceled))
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		Respec(ctx, "mine", as("newer"))
		Consistently(old.Closes.Load).Should(Equal(int32(1)))
	})

	It("rule 8: a new queue sort reorders the pods already queued", func(ctx context.Context) {
		by := func(generation string) string {
			return fmt.Sprintf(
				`{plugins: {multiPoint: {enabled: [{name: Alpha}]}, queueSort: {enabled: [{name: Sorter}], disabled: [{name: "*"}]}},
				pluginConfig: [{name: Sorter, args: {as: %s}}]}`, generation)
		}
		expectReordered(ctx, s,
			func() { CreateProfile(ctx, "mine", by("ascending")) },
			func() { Respec(ctx, "mine", by("descending")) })
	})

	It("rule 9: status is written after the swap and names the generation that was swapped in",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			CreateProfile(ctx, "mine", as("g0"))
			for i := 1; i <= 15; i++ {
				generation := fmt.Sprintf("g%d", i)
				p := Respec(ctx, "mine", as(generation))
				Expect(p.Status.Active.Generation).To(Equal(p.Generation))
				Expect(run.Scheduler.Store().Current().Get("mine").Config.Revision).To(Equal(p.Status.Active.Revision))
				pod := CreatePod(ctx, "mine", "after-"+generation, CPU("1m"))
				ExpectBound(ctx, pod)
				Expect(s.Generations(pod, inCycle...)).To(Equal([]string{generation}))
				Expect(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
			}
		})
})

// expectReordered queues pods of the profile "mine" behind one that blocks the loop in Filter. What
// create makes orders them by ascending names, and change makes that descending, which must be the
// order in which they are popped.
func expectReordered(ctx context.Context, s *Script, create, change func()) {
	GinkgoHelper()
	hold, entered := make(chan struct{}), make(chan struct{})
	s.Perform(func(a *Acts) {
		a.Less = func(x, y *corev1.Pod) bool { return x.Name < y.Name }
		a.Filter = func(ctx context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
			if pod.Name == "first" {
				close(entered)
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	CreateNodes(ctx, "n1")
	create()
	first := CreatePod(ctx, "mine", "first")
	Eventually(entered).Should(BeClosed())
	var pods []*corev1.Pod
	for _, name := range []string{"b", "c", "a"} {
		pods = append(pods, CreatePod(ctx, "mine", name))
	}
	Eventually(func() []string { return s.Points(pods[2]) }).Should(ContainElement("PreEnqueue"))

	s.Perform(func(a *Acts) { a.Less = func(x, y *corev1.Pod) bool { return x.Name > y.Name } })
	change()
	close(hold)
	ExpectBound(ctx, first)
	for _, pod := range pods {
		ExpectBound(ctx, pod)
	}
	Expect(s.Order("PreFilter")).To(Equal([]string{"first", "c", "b", "a"}))
}
