// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// hint is the point that acts.any is asked at for a queueing hint.
const hint = "QueueingHint"

// pluginStage is a stage with the plugins of a script, two nodes, and retries without much of a
// back-off. Plugins that refuse a pod have it tried again when its labels change.
func pluginStage(profiles map[string]string) *script {
	s := &script{}
	content := func(a *acts) {
		*a = acts{events: func(a *actor) ([]fwk.ClusterEventWithHint, error) {
			return []fwk.ClusterEventWithHint{{
				Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
				QueueingHintFn: func(_ logr.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
					a.struck(hint, pod)
					return fwk.Queue, nil
				},
			}}, nil
		}}
	}
	BeforeAll(func(ctx context.Context) {
		s.perform(content)
		DeferCleanup(func(ctx context.Context) {
			shared = false
			Expect(cluster.Clear(ctx)).To(Succeed())
		})
		shared = true
		start(s.register)
		create(ctx, quickRetries())
		for name, spec := range profiles {
			createProfile(ctx, name, spec)
		}
	})
	BeforeEach(func(ctx context.Context) {
		expectSeen(ctx, 0)
		s.perform(content)
		s.forget()
		nodes(ctx, "n1", "n2") // two, or nobody would be asked to score
		expectSeen(ctx, 2)
	})
	return s
}

// only has a plugin do something at one point for one pod, and nothing else but succeed.
func (s *script) only(plugin, at, pod string, do func() *fwk.Status) {
	s.perform(func(a *acts) {
		a.any = func(point string, a *actor, p *corev1.Pod) *fwk.Status {
			if a.name != plugin || point != at || p.Name != pod {
				return nil
			}
			return do()
		}
	})
}

// forget has the script begin without calls.
func (s *script) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// content has all plugins do nothing but succeed.
func (s *script) content() { s.perform(func(a *acts) { a.any = nil }) }

// wake spares a pod the rest of its back-off, which ends by itself, too, but no sooner than a
// second goes by.
func (s *script) wake(pod *corev1.Pod) {
	s.actors()[0].handle.Activate(klog.Background(), map[string]*corev1.Pod{client.ObjectKeyFromObject(pod).String(): pod})
}

// nudge has a pod that plugins refused tried again.
func nudge(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	update(ctx, pod, labelled("try", "again"))
}

// reserved are the points that come after Reserve: what was reserved has to be given back when one
// of them fails.
var reserved = []string{"Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind"}

var _ = Describe("What a plugin answers", Ordered, ContinueOnFailure, func() {
	const both = `
plugins:
  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}
  bind: {enabled: [{name: Alpha}, {name: Beta}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`
	s := pluginStage(map[string]string{"mine": both, "other": ""})

	refuses := func(code fwk.Code) func() *fwk.Status {
		return func() *fwk.Status { return fwk.NewStatus(code, "no") }
	}
	fails := func() *fwk.Status { return fwk.AsStatus(errors.New("broken")) }
	panics := func() *fwk.Status { panic("out of luck") }

	// expectUndone makes sure that a pod which failed at a point gave back what it had reserved, in
	// reverse order.
	expectUndone := func(pod *corev1.Pod, at string) {
		GinkgoHelper()
		if !slices.Contains(reserved, at) {
			Expect(s.at(pod, "Reserve")).To(BeEmpty())
			Expect(s.at(pod, "Unreserve")).To(BeEmpty())
			return
		}
		// A pod that met an error is tried again by itself: that attempt may be being undone.
		Eventually(func() int { return len(s.at(pod, "Unreserve")) % 2 }).Should(BeZero())
		Expect(s.at(pod, "Unreserve")[:2]).To(Equal([]string{beta, alpha}))
	}

	DescribeTable("refusing the pod, makes it unschedulable", func(ctx context.Context, at string, code fwk.Code, message string) {
		s.only(alpha, at, "refused", refuses(code))
		pod := createPod(ctx, "mine", "refused")
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix(message))
		expectEvent(ctx, pod, "FailedScheduling", HavePrefix(message))
		expectUndone(pod, at)
		s.content()
		nudge(ctx, pod)
		expectBound(ctx, pod)
	},
		Entry("in PreFilter", "PreFilter", fwk.Unschedulable, "0/2 nodes are available: no. "),
		Entry("in PreFilter, for good", "PreFilter", fwk.UnschedulableAndUnresolvable, "0/2 nodes are available: no. "),
		Entry("in Filter", "Filter", fwk.Unschedulable, "0/2 nodes are available: 2 no. "),
		Entry("in Filter, for good", "Filter", fwk.UnschedulableAndUnresolvable, "0/2 nodes are available: 2 no. "),
		Entry("in Reserve", "Reserve", fwk.Unschedulable, "0/1 nodes are available: 1 no."),
		Entry("in Reserve, for good", "Reserve", fwk.UnschedulableAndUnresolvable, "0/1 nodes are available: 1 no."),
		Entry("in Permit", "Permit", fwk.Unschedulable, "0/1 nodes are available: 1 no."),
		Entry("in Permit, for good", "Permit", fwk.UnschedulableAndUnresolvable, "0/1 nodes are available: 1 no."),
		Entry("in PreBind, which is tried again by itself", "PreBind", fwk.Unschedulable, "no"),
		Entry("in Bind, which is tried again by itself", "Bind", fwk.Unschedulable, "no"),
	)

	DescribeTable("failing, is an error that the pod is told", func(ctx context.Context, at string, do func() *fwk.Status, message string) {
		s.only(alpha, at, "failed", do)
		pod := createPod(ctx, "mine", "failed")
		expectUnscheduled(ctx, pod, corev1.PodReasonSchedulerError, Equal(message))
		event := expectEvent(ctx, pod, "FailedScheduling", Equal(message))
		Expect(event.ReportingController).To(Equal("mine"))
		Expect(event.Type).To(Equal(corev1.EventTypeWarning))
		expectUndone(pod, at)
		By("scheduling on, with other plugins at once, and with this one when it has come to its senses")
		expectBound(ctx, createPod(ctx, "other", "other"))
		s.content()
		s.wake(pod)
		expectBound(ctx, pod)
	},
		Entry("in PreFilter", "PreFilter", fails, `running PreFilter plugin "Alpha": broken`),
		Entry("in Filter", "Filter", fails, `running "Alpha" filter plugin: broken`),
		Entry("in PreScore", "PreScore", fails, `running PreScore plugin "Alpha": broken`),
		Entry("in Score", "Score", fails, `running Score plugins: plugin "Alpha" failed with: broken`),
		Entry("in NormalizeScore", "NormalizeScore", fails, `running Normalize on Score plugins: plugin "Alpha" failed with: broken`),
		Entry("in Reserve", "Reserve", fails, `running Reserve plugin "Alpha": broken`),
		Entry("in Permit", "Permit", fails, `running Permit plugin "Alpha": broken`),
		Entry("in PreBindPreFlight", "PreBindPreFlight", fails, `running PreBindPreFlight "Alpha": broken`),
		Entry("in PreBind", "PreBind", fails, `running PreBind plugin "Alpha": broken`),
		Entry("in Bind", "Bind", fails, `running Bind plugin "Alpha": broken`),

		Entry("by a panic in PreFilter", "PreFilter", panics, `plugin "Alpha" panicked at PreFilter: out of luck`),
		Entry("by a panic in Filter", "Filter", panics, `plugin "Alpha" panicked at Filter: out of luck`),
		Entry("by a panic in PreScore", "PreScore", panics, `plugin "Alpha" panicked at PreScore: out of luck`),
		Entry("by a panic in Score", "Score", panics, `plugin "Alpha" panicked at Score: out of luck`),
		Entry("by a panic in NormalizeScore", "NormalizeScore", panics, `plugin "Alpha" panicked at ScoreExtensionNormalize: out of luck`),
		Entry("by a panic in Reserve", "Reserve", panics, `plugin "Alpha" panicked at Reserve: out of luck`),
		Entry("by a panic in Permit", "Permit", panics, `plugin "Alpha" panicked at Permit: out of luck`),
		Entry("by a panic in PreBindPreFlight", "PreBindPreFlight", panics, `plugin "Alpha" panicked at PreBindPreFlight: out of luck`),
		Entry("by a panic in PreBind", "PreBind", panics, `plugin "Alpha" panicked at PreBind: out of luck`),
		Entry("by a panic in Bind", "Bind", panics, `plugin "Alpha" panicked at Bind: out of luck`),

		Entry("by an answer that has no meaning in PreFilter", "PreFilter", refuses(fwk.Wait),
			`running PreFilter plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("by an answer that has no meaning in Filter", "Filter", refuses(fwk.Skip),
			`running "Alpha" filter plugin: it returned the status Skip, which has no meaning there`),
		Entry("by a refusal in PreScore", "PreScore", refuses(fwk.Unschedulable), `running PreScore plugin "Alpha": no`),
		Entry("by a refusal in Score", "Score", refuses(fwk.Unschedulable), `running Score plugins: plugin "Alpha" failed with: no`),
		Entry("by a refusal in NormalizeScore", "NormalizeScore", refuses(fwk.Unschedulable), `running Normalize on Score plugins: plugin "Alpha" failed with: no`),
		Entry("by an answer that has no meaning in Reserve", "Reserve", refuses(fwk.Wait), `running Reserve plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("by an answer that has no meaning in Permit", "Permit", refuses(fwk.Skip), `running Permit plugin "Alpha": it returned the status Skip, which has no meaning there`),
		Entry("by a refusal in PreBindPreFlight", "PreBindPreFlight", refuses(fwk.Unschedulable),
			`running PreBindPreFlight plugin "Alpha": it returned the status Unschedulable, it may return Success, Skip or Error`),
		Entry("by an answer that has no meaning in PreBind", "PreBind", refuses(fwk.Wait), `running PreBind plugin "Alpha": it returned the status Wait, which has no meaning there`),
		Entry("by an answer that has no meaning in Bind", "Bind", refuses(fwk.Wait), `running Bind plugin "Alpha": it returned the status Wait, which has no meaning there`),
	)

	DescribeTable("skipping, leaves out what it would do next", func(ctx context.Context, at, leftOut string) {
		s.only(alpha, at, "skipped", refuses(fwk.Skip))
		pod := createPod(ctx, "mine", "skipped")
		expectBound(ctx, pod)
		Expect(s.at(pod, at)).To(ContainElement(beta))
		Expect(s.at(pod, leftOut)).To(And(ContainElement(beta), Not(ContainElement(alpha))))
		Expect(s.at(pod, "PostBind")).NotTo(ContainElement(BeEmpty()))
	},
		Entry("in PreFilter: Filter", "PreFilter", "Filter"),
		Entry("in PreScore: Score", "PreScore", "Score"),
		Entry("in PreScore: NormalizeScore", "PreScore", "NormalizeScore"),
		Entry("in PreBindPreFlight: PreBind", "PreBindPreFlight", "PreBind"),
	)

	It("in PreFilter, refusing the pod, is heard after the others have been asked, unless it refuses for good", func(ctx context.Context) {
		s.only(alpha, "PreFilter", "refused", refuses(fwk.Unschedulable))
		pod := createPod(ctx, "mine", "refused")
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: no. "))
		Expect(s.at(pod, "PreFilter")).To(Equal([]string{alpha, beta}))
		Expect(s.at(pod, "Filter")).To(BeEmpty())

		s.only(alpha, "PreFilter", "refused-for-good", refuses(fwk.UnschedulableAndUnresolvable))
		pod = createPod(ctx, "mine", "refused-for-good")
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: no. "))
		Expect(s.at(pod, "PreFilter")).To(Equal([]string{alpha}))
	})

	It("in Bind, skipping the pod, leaves it to the next, and binding it, ends it", func(ctx context.Context) {
		s.only(beta, "Bind", "bound", func() *fwk.Status {
			bindByHand(context.Background(), "bound", "n2")
			return fwk.NewStatus(fwk.Success)
		})
		pod := createPod(ctx, "mine", "bound", selecting(corev1.LabelHostname, "n2"))
		Expect(expectBound(ctx, pod)).To(Equal("n2"))
		Expect(s.at(pod, "Bind")).To(Equal([]string{alpha, beta}), "and not the default one, which would fail")
		expectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/bound to n2"))
		Eventually(s.at).WithArguments(pod, "PostBind").Should(Equal([]string{alpha, beta}))
		Expect(s.at(pod, "Unreserve")).To(BeEmpty())
	})

	It("in PreEnqueue, failing by a panic, keeps that pod out of the queue until it does so no more, and no other pod", func(ctx context.Context) {
		s.only(alpha, "PreEnqueue", "kept-out", panics)
		pod := createPod(ctx, "mine", "kept-out")
		expectBound(ctx, createPod(ctx, "mine", "let-in"))
		expectPending(ctx, pod)
		Expect(s.at(pod, "PreFilter")).To(BeEmpty())
		s.content()
		expectBound(ctx, pod)
	})

	It("as a hint, failing by a panic, counts as hope", func(ctx context.Context) {
		s.perform(func(a *acts) {
			a.any = func(point string, a *actor, pod *corev1.Pod) *fwk.Status {
				switch {
				case pod.Name != "hopeful" || a.name != alpha:
				case point == hint:
					panic("out of luck")
				case point == "Filter" && pod.Labels["try"] == "":
					return fwk.NewStatus(fwk.Unschedulable, "no")
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "hopeful")
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 no. "))
		nudge(ctx, pod)
		expectBound(ctx, pod)
	})

	DescribeTable("after the fact, failing by a panic, does not keep the others from hearing it", func(ctx context.Context, at string, others []string) {
		s.perform(func(a *acts) {
			a.any = func(point string, a *actor, pod *corev1.Pod) *fwk.Status {
				switch {
				case pod.Name != "late":
				case point == at && a.name != others[0]:
					panic("out of luck")
				case point == "Permit" && at == "Unreserve":
					return fwk.NewStatus(fwk.Unschedulable, "no")
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "late")
		if at == "Unreserve" {
			expectUnschedulable(ctx, pod, "0/1 nodes are available: 1 no.")
		} else {
			expectBound(ctx, pod)
			expectEvent(ctx, pod, "Scheduled", HavePrefix("Successfully assigned default/late to "))
			Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		}
		Eventually(s.at).WithArguments(pod, at).Should(ContainElements(others))
	},
		Entry("in Unreserve", "Unreserve", []string{alpha, beta}),
		Entry("in PostBind", "PostBind", []string{beta, alpha}),
	)

	It("in PostFilter, failing, is told beside the reason why no node fits", func(ctx context.Context) {
		for name, do := range map[string]func() *fwk.Status{"broken": fails, "out of luck": panics} {
			pod := "pf-" + name[:3]
			s.only(alpha, "PostFilter", pod, do)
			created := createPod(ctx, "mine", pod, selecting("no-node", "has-this"))
			expectUnscheduled(ctx, created, corev1.PodReasonUnschedulable, And(
				HavePrefix("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "), HaveSuffix(name)))
		}
	})

	DescribeTable("failing by a panic while preemption is tried out, is an error of preemption", func(ctx context.Context, at string) {
		createClasses(ctx, priorityClass("important", 1000))
		for _, node := range []string{"n1", "n2"} {
			create(ctx, podOf("somebody-else", "low-"+node, cpu("3500m"), on(node)))
		}
		s.only(alpha, at, "high", panics)
		pod := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, And(
			HavePrefix("0/2 nodes are available: 2 Insufficient cpu. "), ContainSubstring(at)))
		for _, node := range []string{"n1", "n2"} {
			low := podOf("somebody-else", "low-"+node)
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(low), low)).To(Succeed())
			Expect(low.DeletionTimestamp).To(BeNil())
		}
	},
		Entry("in RemovePod", "RemovePod"),
		Entry("in AddPod", "AddPod"),
	)

	It("about its events, by a panic, keeps its profile from being built; and at its end, from nothing", func(ctx context.Context) {
		createProfile(ctx, "extra", both)
		s.perform(func(a *acts) {
			a.close = func(*actor) error { panic("out of luck") }
		})
		respec(ctx, "extra", "plugins: {multiPoint: {enabled: [{name: Beta}]}}")
		expectBound(ctx, createPod(ctx, "extra", "extra-pod"))

		events := s.now().events
		s.perform(func(a *acts) {
			a.events = func(*actor) ([]fwk.ClusterEventWithHint, error) { panic("out of luck") }
		})
		DeferCleanup(func() { s.perform(func(a *acts) { a.events = events }) })
		update(ctx, profile("extra", ""), func(p *v1alpha1.SchedulerProfile) { p.Spec = profile("extra", both).Spec })
		p := expectCondition(ctx, "extra", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonBuildFailed)
		Expect(p.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(`plugin "Alpha": events to register: panic: out of luck`))))
		expectBound(ctx, createPod(ctx, "extra", "extra-pod-2"))
		Expect(k8s.Delete(ctx, p)).To(Succeed())
	})
})
