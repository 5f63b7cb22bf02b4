// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
)

var _ = Describe("Status", func() {
	It("is written after the swap, and names the revision that was swapped in", func(ctx context.Context) {
		run := start()
		watcher, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: k8s.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		mine := profile("mine", "percentageOfNodesToScore: 100")
		create(ctx, mine)
		w, err := watcher.Watch(ctx, &v1alpha1.SchedulerProfileList{}, client.MatchingFields{"metadata.name": "mine"})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()

		const changes = 20
		for generation := int64(1); generation <= changes; {
			event := <-w.ResultChan()
			p, ok := event.Object.(*v1alpha1.SchedulerProfile)
			Expect(ok).To(BeTrue(), "%T", event.Object)
			programmed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
			if programmed == nil || programmed.ObservedGeneration != generation ||
				programmed.Reason == v1alpha1.ReasonPending { // on a busy machine
				continue
			}
			Expect(programmed.Status).To(Equal(metav1.ConditionTrue), programmed.Message)
			Expect(p.Status.Active.Generation).To(Equal(generation))
			decides := run.Scheduler.Store().Current().Get("mine").Config
			Expect(decides.Revision).To(Equal(p.Status.Active.Revision))
			Expect(decides.Generation).To(Equal(generation))
			generation++
			change(ctx, mine, fmt.Sprintf("percentageOfNodesToScore: %d", 100-generation))
		}
	})

	It("is not written if nothing has changed, not even after a restart", func(ctx context.Context) {
		create(ctx, policy("default", ""), profile("good", ""), profile("bad", refusals[0].spec))
		first := start()
		expectProfile(ctx, "good", isProgrammed)
		expectProfile(ctx, "bad", neverRan)
		Eventually(func(g Gomega) {
			g.Expect(expectPolicy(ctx, "default", isProgrammed).Status.Profiles).To(Equal([]string{"good"}))
		}).Should(Succeed())
		before := versions(ctx)

		By("reconciling the whole set because of another policy")
		create(ctx, policy("another", ""))
		expectPolicy(ctx, "another", isProgrammed)
		expectUntouched(ctx, before)

		By("restarting")
		Expect(first.Stop(patience)).To(Succeed())
		start()
		create(ctx, policy("third", ""))
		expectPolicy(ctx, "third", isProgrammed)
		expectUntouched(ctx, before)
	})

	It("is written again after another client has written it", func(ctx context.Context) {
		start()
		create(ctx, policy("default", ""), profile("mine", ""))
		p := expectOn(ctx, "mine", "default", 1)
		before := p.Status.DeepCopy()
		p.Status.Active, p.Status.Conditions = nil, nil
		Expect(k8s.Status().Update(ctx, p)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.Status.Active).To(Equal(before.Active))
			g.Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed)).To(BeTrue())
		}).WithContext(ctx).Should(Succeed())

		By("doing the same with a policy")
		q := expectPolicy(ctx, "default", isProgrammed)
		q.Status.Profiles, q.Status.Conditions = nil, nil
		Expect(k8s.Status().Update(ctx, q)).To(Succeed())
		expectPolicy(ctx, "default", isProgrammed)
	})

	It("has new transition times if and only if the status of a condition changes", func(ctx context.Context) {
		start()
		mine := profile("mine", "")
		create(ctx, mine)
		expectProfile(ctx, "mine", isProgrammed)
		// Make the profile look as if it had been programmed long ago.
		good := expectProfile(ctx, "mine", isProgrammed)
		longAgo := metav1.NewTime(good.CreationTimestamp.Add(-time.Hour))
		for i := range good.Status.Conditions {
			good.Status.Conditions[i].LastTransitionTime = longAgo
		}
		good.Status.Active.Since = longAgo
		Expect(k8s.Status().Update(ctx, good)).To(Succeed())

		change(ctx, mine, packs)
		for _, at := range transitions(expectProfile(ctx, "mine", isAccepted, isProgrammed)) {
			Expect(at.Time).To(BeTemporally("==", longAgo.Time))
		}
		change(ctx, mine, refusals[0].spec)
		refused := expectProfile(ctx, "mine", isRefused(refusals[0].reason), keepsLastGood)
		for _, at := range transitions(refused) {
			Expect(at.Time).To(BeTemporally(">", longAgo.Time))
		}
		change(ctx, mine, refusals[1].spec)
		Expect(transitions(expectProfile(ctx, "mine", isRefused(refusals[1].reason)))).To(Equal(transitions(refused)))
	})

	It("is written by the leader alone, as soon as it leads", func(ctx context.Context) {
		createNodes(ctx)
		held := metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "livesched"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("somebody-else"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &held,
				RenewTime: &held,
			},
		}
		create(ctx, lease)
		follower := start(func(o *app.Options) {
			o.LeaderElect, o.LeaderElectionNamespace = true, "default"
			o.RetryPeriod = 100 * time.Millisecond
		})
		create(ctx, policy("default", ""), profile("mine", ""))
		pod := createPod(ctx, "waiting", "mine")
		Eventually(func() any { return follower.Scheduler.Store().Current().Get("mine") }).
			ShouldNot(BeNil(), "a follower is ready to take over")
		expectUntouched(ctx, versions(ctx))
		expectPending(ctx, pod)
		Expect(eventsOf(ctx, expectUnreported(ctx, "mine"))).To(BeEmpty())

		release(ctx, lease)
		expectProfile(ctx, "mine", isAccepted, isProgrammed)
		expectPolicy(ctx, "default", isAccepted, isProgrammed)
		expectBound(ctx, pod)
	})
})

var _ = Describe("Events on a profile", func() {
	It("report each change once", func(ctx context.Context) {
		start()
		mine := profile("mine", packs)
		create(ctx, mine)
		first := expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, refusals[0].spec)
		expectProfile(ctx, "mine", keepsLastGood)
		change(ctx, mine, spreads)
		last := expectProfile(ctx, "mine", isProgrammed)
		create(ctx, profile("another", "")) // triggers a pass over all objects
		expectProfile(ctx, "another", isProgrammed)

		told := func(kind, reason, note string) OmegaMatcher {
			return And(HaveField("Type", kind), HaveField("Reason", reason), HaveField("Note", ContainSubstring(note)),
				HaveField("ReportingController", "livesched"), HaveField("Regarding.Kind", "SchedulerProfile"),
				HaveField("Series", BeNil()))
		}
		story := ConsistOf(
			told(corev1.EventTypeNormal, "Programmed", "Revision "+first.Status.Active.Revision+
				" of generation 1 is active"),
			told(corev1.EventTypeWarning, v1alpha1.ReasonUnknownPlugin, "spec.plugins.score.enabled[1].name: "),
			told(corev1.EventTypeWarning, v1alpha1.ReasonKeptLastGood, "Generation 2 is not accepted"),
			told(corev1.EventTypeNormal, "Programmed", "Revision "+last.Status.Active.Revision+
				" of generation 3 replaced "+first.Status.Active.Revision+" of generation 1"),
		)
		Eventually(eventsOf).WithArguments(ctx, mine).Should(story)
		Consistently(eventsOf).WithArguments(ctx, mine).Should(story)
	})

	It("name the policy that changed it, and Events on the policy name its profiles", func(ctx context.Context) {
		start()
		create(ctx, policy("shared", ""), profile("one", "policyRef: {name: shared}"),
			profile("two", "policyRef: {name: shared}"), profile("other", ""))
		before := map[string]string{}
		for _, name := range []string{"one", "two", "other"} {
			before[name] = expectProfile(ctx, name, isProgrammed).Status.Active.Revision
		}
		Eventually(func(g Gomega) {
			shared := &v1alpha1.SchedulingPolicy{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "shared"}, shared)).To(Succeed())
			g.Expect(shared.Status.Profiles).To(Equal([]string{"one", "two"}))
			shared.Spec.Parallelism = ptr.To[int32](5)
			g.Expect(k8s.Update(ctx, shared)).To(Succeed())
		}).WithContext(ctx).Should(Succeed())

		for _, name := range []string{"one", "two"} {
			p := &v1alpha1.SchedulerProfile{}
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
				g.Expect(p.Status.Active.Revision).NotTo(Equal(before[name]))
			}).WithContext(ctx).Should(Succeed())
			Eventually(eventsOf).WithArguments(ctx, p).Should(ContainElement(HaveField("Note",
				"Revision "+p.Status.Active.Revision+" of generation 1 replaced "+before[name]+
					`, with generation 2 of SchedulingPolicy "shared"`)))
		}
		shared := &v1alpha1.SchedulingPolicy{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: "shared"}, shared)).To(Succeed())
		Eventually(eventsOf).WithArguments(ctx, shared).Should(ContainElement(HaveField("Note",
			"Generation 2 is active in profiles one, two")))
		other := &v1alpha1.SchedulerProfile{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: "other"}, other)).To(Succeed())
		Eventually(eventsOf).WithArguments(ctx, other).Should(HaveLen(1))
		Consistently(eventsOf).WithArguments(ctx, other).Should(HaveLen(1))
	})
})

// release releases a lease as its holder does.
func release(ctx context.Context, lease *coordinationv1.Lease) {
	GinkgoHelper()
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	Expect(k8s.Update(ctx, lease)).To(Succeed())
}

// versions returns the resource versions of all profiles and policies.
func versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	var profiles v1alpha1.SchedulerProfileList
	Expect(k8s.List(ctx, &profiles)).To(Succeed())
	for _, p := range profiles.Items {
		all["profile "+p.Name] = p.ResourceVersion
	}
	var policies v1alpha1.SchedulingPolicyList
	Expect(k8s.List(ctx, &policies)).To(Succeed())
	for _, p := range policies.Items {
		all["policy "+p.Name] = p.ResourceVersion
	}
	return all
}

// expectUntouched expects for a while that objects keep their resource versions. There may be
// others.
func expectUntouched(ctx context.Context, before map[string]string) {
	GinkgoHelper()
	Consistently(func() map[string]string {
		now := versions(ctx)
		maps.DeleteFunc(now, func(object, _ string) bool { return before[object] == "" })
		return now
	}).WithContext(ctx).WithTimeout(200 * time.Millisecond).Should(Equal(before))
}

// expectUnreported returns a profile that has no status.
func expectUnreported(ctx context.Context, name string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
	Expect(p.Status).To(Equal(v1alpha1.SchedulerProfileStatus{ObservedGeneration: -1}))
	return p
}
