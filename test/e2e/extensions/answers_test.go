// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// Nudge requeues a pod that plugins rejected.
func Nudge(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Update(ctx, pod, Labelled("try", "again"))
}

// Reserved are the points from Reserve on: if one of them fails, the reservations must be undone.
var Reserved = []string{"Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind"}

var _ = Describe("The status of a plugin", Ordered, ContinueOnFailure, func() {
	const both = `
plugins:
  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}
  bind: {enabled: [{name: Alpha}, {name: Beta}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`
	s := PluginStage(map[string]string{"mine": both, "other": ""})

	refuses := func(code fwk.Code) func() *fwk.Status {
		return func() *fwk.Status { return fwk.NewStatus(code, "no") }
	}
	fails := func() *fwk.Status { return fwk.AsStatus(errors.New("broken")) }
	panics := func() *fwk.Status { panic("out of luck") }

	// expectUndone makes sure that the reservations of a pod which failed at a point were undone in
	// reverse order.
	expectUndone := func(pod *corev1.Pod, at string) {
		GinkgoHelper()
		if !slices.Contains(Reserved, at) {
			Expect(s.At(pod, "Reserve")).To(BeEmpty())
			Expect(s.At(pod, "Unreserve")).To(BeEmpty())
			return
		}
		// A pod that met an error is retried without an event: that attempt's reservations may be
		// being undone.
		Eventually(func() int { return len(s.At(pod, "Unreserve")) % 2 }).Should(BeZero())
		Expect(s.At(pod, "Unreserve")[:2]).To(Equal([]string{Beta, Alpha}))
	}

	DescribeTable("that rejects the pod makes it unschedulable:", func(ctx context.Context, at string, code fwk.Code,
		message string) {
		s.Only(Alpha, at, "refused", refuses(code))
		pod := CreatePod(ctx, "mine", "refused")
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix(message))
		ExpectEvent(ctx, pod, "FailedScheduling", HavePrefix(message))
		expectUndone(pod, at)
		s.Content()
		Nudge(ctx, pod)
		ExpectBound(ctx, pod)
	},
		Entry("in PreFilter", "PreFilter", fwk.Unschedulable, "0/2 nodes are available: no. "),
		Entry("in PreFilter, unresolvable", "PreFilter", fwk.UnschedulableAndUnresolvable,
			"0/2 nodes are available: no. "),
		Entry("in Filter", "Filter", fwk.Unschedulable, "0/2 nodes are available: 2 no. "),
		Entry("in Filter, unresolvable", "Filter", fwk.UnschedulableAndUnresolvable, "0/2 nodes are available: 2 no. "),
		Entry("in Reserve", "Reserve", fwk.Unschedulable, "0/1 nodes are available: 1 no."),
		Entry("in Reserve, unresolvable", "Reserve", fwk.UnschedulableAndUnresolvable,
			"0/1 nodes are available: 1 no."),
		Entry("in Permit", "Permit", fwk.Unschedulable, "0/1 nodes are available: 1 no."),
		Entry("in Permit, unresolvable", "Permit", fwk.UnschedulableAndUnresolvable, "0/1 nodes are available: 1 no."),
		Entry("in PreBind, where the pod is retried without an event", "PreBind", fwk.Unschedulable, "no"),
		Entry("in Bind, where the pod is retried without an event", "Bind", fwk.Unschedulable, "no"),
	)

	DescribeTable("that is an error is reported on the pod:", func(ctx context.Context, at string,
		do func() *fwk.Status, message string) {
		s.Only(Alpha, at, "failed", do)
		pod := CreatePod(ctx, "mine", "failed")
		ExpectUnscheduled(ctx, pod, corev1.PodReasonSchedulerError, Equal(message))
		event := ExpectEvent(ctx, pod, "FailedScheduling", Equal(message))
		Expect(event.ReportingController).To(Equal("mine"))
		Expect(event.Type).To(Equal(corev1.EventTypeWarning))
		expectUndone(pod, at)
		By("continuing to schedule, immediately with other plugins, and with this one once it works again")
		ExpectBound(ctx, CreatePod(ctx, "other", "other"))
		s.Content()
		s.Wake(pod)
		ExpectBound(ctx, pod)
	},
		Entry("in PreFilter", "PreFilter", fails, `running PreFilter plugin "Alpha": broken`),
		Entry("in Filter", "Filter", fails, `running "Alpha" filter plugin: broken`),
		Entry("in PreScore", "PreScore", fails, `running PreScore plugin "Alpha": broken`),
		Entry("in Score", "Score", fails, `running Score plugins: plugin "Alpha" failed with: broken`),
		Entry("in NormalizeScore", "NormalizeScore", fails,
			`running Normalize on Score plugins: plugin "Alpha" failed with: broken`),
		Entry("in Reserve", "Reserve", fails, `running Reserve plugin "Alpha": broken`),
		Entry("in Permit", "Permit", fails, `running Permit plugin "Alpha": broken`),
		Entry("in PreBindPreFlight", "PreBindPreFlight", fails, `running PreBindPreFlight "Alpha": broken`),
		Entry("in PreBind", "PreBind", fails, `running PreBind plugin "Alpha": broken`),
		Entry("in Bind", "Bind", fails, `running Bind plugin "Alpha": broken`),

		Entry("by a panic in PreFilter", "PreFilter", panics, `plugin "Alpha" panicked at PreFilter: out of luck`),
		Entry("by a panic in Filter", "Filter", panics, `plugin "Alpha" panicked at Filter: out of luck`),
		Entry("by a panic in PreScore", "PreScore", panics, `plugin "Alpha" panicked at PreScore: out of luck`),
		Entry("by a panic in Score", "Score", panics, `plugin "Alpha" panicked at Score: out of luck`),
		Entry("by a panic in NormalizeScore", "NormalizeScore", panics,
			`plugin "Alpha" panicked at ScoreExtensionNormalize: out of luck`),
		Entry("by a panic in Reserve", "Reserve", panics, `plugin "Alpha" panicked at Reserve: out of luck`),
		Entry("by a panic in Permit", "Permit", panics, `plugin "Alpha" panicked at Permit: out of luck`),
		Entry("by a panic in PreBindPreFlight", "PreBindPreFlight", panics,
			`plugin "Alpha" panicked at PreBindPreFlight: out of luck`),
		Entry("by a panic in PreBind", "PreBind", panics, `plugin "Alpha" panicked at PreBind: out of luck`),
		Entry("by a panic in Bind", "Bind", panics, `plugin "Alpha" panicked at Bind: out of luck`),

		Entry("with a code that has no meaning in PreFilter", "PreFilter", refuses(fwk.Wait),
			`running PreFilter plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("with a code that has no meaning in Filter", "Filter", refuses(fwk.Skip),
			`running "Alpha" filter plugin: it returned the status Skip, which has no meaning there`),
		Entry("with a rejection in PreScore", "PreScore", refuses(fwk.Unschedulable),
			`running PreScore plugin "Alpha": no`),
		Entry("with a rejection in Score", "Score", refuses(fwk.Unschedulable),
			`running Score plugins: plugin "Alpha" failed with: no`),
		Entry("with a rejection in NormalizeScore", "NormalizeScore", refuses(fwk.Unschedulable),
			`running Normalize on Score plugins: plugin "Alpha" failed with: no`),
		Entry("with a code that has no meaning in Reserve", "Reserve", refuses(fwk.Wait),
			`running Reserve plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("with a code that has no meaning in Permit", "Permit", refuses(fwk.Skip),
			`running Permit plugin "Alpha": it returned the status Skip, which has no meaning there`),
		Entry("with a rejection in PreBindPreFlight", "PreBindPreFlight", refuses(fwk.Unschedulable),
			`running PreBindPreFlight plugin "Alpha": it returned the status Unschedulable, it may return Success, `+
				`Skip or Error`),
		Entry("with a code that has no meaning in PreBind", "PreBind", refuses(fwk.Wait),
			`running PreBind plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("with a code that has no meaning in Bind", "Bind", refuses(fwk.Wait),
			`running Bind plugin "Alpha": it returned the status Wait, which has no meaning there`),
	)

	DescribeTable("that is Skip omits the next extension point of the plugin:", func(ctx context.Context,
		at, leftOut string) {
		s.Only(Alpha, at, "skipped", refuses(fwk.Skip))
		pod := CreatePod(ctx, "mine", "skipped")
		ExpectBound(ctx, pod)
		Expect(s.At(pod, at)).To(ContainElement(Beta))
		Expect(s.At(pod, leftOut)).To(And(ContainElement(Beta), Not(ContainElement(Alpha))))
		Expect(s.At(pod, "PostBind")).NotTo(ContainElement(BeEmpty()))
	},
		Entry("in PreFilter: Filter", "PreFilter", "Filter"),
		Entry("in PreScore: Score", "PreScore", "Score"),
		Entry("in PreScore: NormalizeScore", "PreScore", "NormalizeScore"),
		Entry("in PreBindPreFlight: PreBind", "PreBindPreFlight", "PreBind"),
	)

	It("that rejects the pod in PreFilter takes effect after the other plugins have run, unless it is unresolvable",
		func(ctx context.Context) {
			s.Only(Alpha, "PreFilter", "refused", refuses(fwk.Unschedulable))
			pod := CreatePod(ctx, "mine", "refused")
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: no. "))
			Expect(s.At(pod, "PreFilter")).To(Equal([]string{Alpha, Beta}))
			Expect(s.At(pod, "Filter")).To(BeEmpty())

			s.Only(Alpha, "PreFilter", "refused-for-good", refuses(fwk.UnschedulableAndUnresolvable))
			pod = CreatePod(ctx, "mine", "refused-for-good")
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: no. "))
			Expect(s.At(pod, "PreFilter")).To(Equal([]string{Alpha}))
		})

	It("that is Skip in Bind passes the pod to the next plugin, and one that is Success ends the binding",
		func(ctx context.Context) {
			s.Only(Beta, "Bind", "bound", func() *fwk.Status {
				BindByHand(context.Background(), "bound", "n2")
				return fwk.NewStatus(fwk.Success)
			})
			pod := CreatePod(ctx, "mine", "bound", Selecting(corev1.LabelHostname, "n2"))
			Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
			Expect(s.At(pod, "Bind")).To(Equal([]string{Alpha, Beta}), "and not the default one, which would fail")
			ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/bound to n2"))
			Eventually(s.At).WithArguments(pod, "PostBind").Should(Equal([]string{Alpha, Beta}))
			Expect(s.At(pod, "Unreserve")).To(BeEmpty())
		})

	It("of a panic in PreEnqueue keeps only that pod out of the queue, until the plugin works again",
		func(ctx context.Context) {
			s.Only(Alpha, "PreEnqueue", "kept-out", panics)
			pod := CreatePod(ctx, "mine", "kept-out")
			ExpectBound(ctx, CreatePod(ctx, "mine", "let-in"))
			ExpectPending(ctx, pod)
			Expect(s.At(pod, "PreFilter")).To(BeEmpty())
			s.Content()
			ExpectBound(ctx, pod)
		})

	It("of a panic in a queueing hint counts as Queue", func(ctx context.Context) {
		s.Perform(func(a *Acts) {
			a.Any = func(point string, a *Actor, pod *corev1.Pod) *fwk.Status {
				switch {
				case pod.Name != "hopeful" || a.Name() != Alpha:
				case point == Hint:
					panic("out of luck")
				case point == "Filter" && pod.Labels["try"] == "":
					return fwk.NewStatus(fwk.Unschedulable, "no")
				}
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "hopeful")
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 no. "))
		Nudge(ctx, pod)
		ExpectBound(ctx, pod)
	})

	DescribeTable("of a panic in a point without a status does not keep the other plugins from running:",
		func(ctx context.Context, at string, others []string) {
			s.Perform(func(a *Acts) {
				a.Any = func(point string, a *Actor, pod *corev1.Pod) *fwk.Status {
					switch {
					case pod.Name != "late":
					case point == at && a.Name() != others[0]:
						panic("out of luck")
					case point == "Permit" && at == "Unreserve":
						return fwk.NewStatus(fwk.Unschedulable, "no")
					}
					return nil
				}
			})
			pod := CreatePod(ctx, "mine", "late")
			if at == "Unreserve" {
				ExpectUnschedulable(ctx, pod, "0/1 nodes are available: 1 no.")
			} else {
				ExpectBound(ctx, pod)
				ExpectEvent(ctx, pod, "Scheduled", HavePrefix("Successfully assigned default/late to "))
				Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
			}
			Eventually(s.At).WithArguments(pod, at).Should(ContainElements(others))
		},
		Entry("in Unreserve", "Unreserve", []string{Alpha, Beta}),
		Entry("in PostBind", "PostBind", []string{Beta, Alpha}),
	)

	It("that is an error in PostFilter is reported next to the reason why no node fits", func(ctx context.Context) {
		for name, do := range map[string]func() *fwk.Status{"broken": fails, "out of luck": panics} {
			pod := "pf-" + name[:3]
			s.Only(Alpha, "PostFilter", pod, do)
			created := CreatePod(ctx, "mine", pod, Selecting("no-node", "has-this"))
			ExpectUnscheduled(ctx, created, corev1.PodReasonUnschedulable, And(
				HavePrefix("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "),
				HaveSuffix(name)))
		}
	})

	DescribeTable("of a panic during the dry run of preemption is an error of preemption:", func(ctx context.Context,
		at string) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		for _, node := range []string{"n1", "n2"} {
			Create(ctx, PodOf("somebody-else", "low-"+node, CPU("3500m"), OnNode(node)))
		}
		s.Only(Alpha, at, "high", panics)
		pod := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, And(
			HavePrefix("0/2 nodes are available: 2 Insufficient cpu. "), ContainSubstring(at)))
		for _, node := range []string{"n1", "n2"} {
			low := PodOf("somebody-else", "low-"+node)
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(low), low)).To(Succeed())
			Expect(low.DeletionTimestamp).To(BeNil())
		}
	},
		Entry("in RemovePod", "RemovePod"),
		Entry("in AddPod", "AddPod"),
	)

	It("of a panic in EventsToRegister fails the build of its profile, and a panic in Close has no effect",
		func(ctx context.Context) {
			CreateProfile(ctx, "extra", both)
			s.Perform(func(a *Acts) {
				a.Close = func(*Actor) error { panic("out of luck") }
			})
			Respec(ctx, "extra", "plugins: {multiPoint: {enabled: [{name: Beta}]}}")
			ExpectBound(ctx, CreatePod(ctx, "extra", "extra-pod"))

			events := s.Now().Events
			s.Perform(func(a *Acts) {
				a.Events = func(*Actor) ([]fwk.ClusterEventWithHint, error) { panic("out of luck") }
			})
			DeferCleanup(func() { s.Perform(func(a *Acts) { a.Events = events }) })
			Update(ctx, Profile("extra", ""),
				func(p *v1alpha1.SchedulerProfile) { p.Spec = Profile("extra", both).Spec })
			p := ExpectCondition(ctx, "extra", v1alpha1.ConditionProgrammed, metav1.ConditionFalse,
				v1alpha1.ReasonBuildFailed)
			Expect(p.Status.Conditions).
				To(ContainElement(HaveField("Message",
					ContainSubstring(`plugin "Alpha": events to register: panic: out of luck`))))
			ExpectBound(ctx, CreatePod(ctx, "extra", "extra-pod-2"))
			Expect(K8s.Delete(ctx, p)).To(Succeed())
		})
})
