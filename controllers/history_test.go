// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("After a restart", func() {
	BeforeEach(createNodes)

	It("the last good spec of a profile stays active, and status does not change", func(ctx context.Context) {
		run := start()
		mine := profile("mine", spreads)
		create(ctx, mine)
		expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, packs)
		good := expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, refusals[0].spec)
		refused := expectProfile(ctx, "mine", keepsLastGood)
		Expect(run.Stop(patience)).To(Succeed())

		run = start()
		Eventually(running).WithArguments(run, "mine").
			Should(Equal(fmt.Sprintf("%s of generation 2", good.Status.Active.Revision)))
		expectLookedAt(ctx)
		expectUntouched(ctx, map[string]string{"profile mine": refused.ResourceVersion})
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))

		By("fixing it")
		change(ctx, mine, spreads)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
	})

	It("the last good spec of a profile that became invalid in between stays active", func(ctx context.Context) {
		run := start()
		mine := profile("mine", packs)
		create(ctx, mine)
		good := expectProfile(ctx, "mine", isProgrammed)
		Expect(run.Stop(patience)).To(Succeed())
		change(ctx, mine, refusals[0].spec)
		start()
		kept := expectProfile(ctx, "mine", isRefused(refusals[0].reason), keepsLastGood)
		Expect(kept.Status.Active).To(Equal(good.Status.Active), "since when, too")
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
	})

	It("the last good spec of a policy stays active, in new profiles, too", func(ctx context.Context) {
		run := start()
		shared := policy("shared", autoscaler)
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		before := expectProfile(ctx, "mine", isProgrammed)
		Expect(run.Stop(patience)).To(Succeed())
		change(ctx, shared, extended)
		start()
		expectPolicy(ctx, "shared", isRefused(v1alpha1.ReasonSecretNotFound), keepsLastGood)
		Expect(expectProfile(ctx, "mine", isAccepted, isProgrammed).Status.Active).To(Equal(before.Status.Active))
		create(ctx, profile("new", "policyRef: {name: shared}"))
		Expect(expectProfile(ctx, "new", isProgrammed).Status.Active.Policy).
			To(Equal(&v1alpha1.ActivePolicy{Name: "shared", Generation: 1}))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules-too", "new"))).To(Equal(busy))
	})

	It("a profile keeps the policy that it was built with, even if the policy is deleted", func(ctx context.Context) {
		run := start()
		shared := policy("shared", autoscaler)
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		before := expectProfile(ctx, "mine", isProgrammed)
		Expect(run.Stop(patience)).To(Succeed())
		Expect(k8s.Delete(ctx, shared)).To(Succeed())
		start()
		kept := expectProfile(ctx, "mine", isRefused(v1alpha1.ReasonPolicyNotFound), keepsLastGood)
		Expect(kept.Status.Active).To(Equal(before.Status.Active))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
	})

	It("the Secrets of a last good policy are read again", func(ctx context.Context) {
		certificate, _, err := certutil.GenerateSelfSignedCertKey("extender.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nowhere",
			Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "shared"}},
			Data: map[string][]byte{"ca.crt": certificate}}
		create(ctx, secret)
		DeferCleanup(k8s.Delete, secret)
		run := start()
		shared := policy("shared", extended)
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		before := expectProfile(ctx, "mine", isProgrammed)
		Expect(run.Stop(patience)).To(Succeed())
		change(ctx, shared, "queueSort: {name: NoSuchPlugin}")
		run = start()
		expectPolicy(ctx, "shared", isRefused(v1alpha1.ReasonUnknownPlugin), keepsLastGood)
		Expect(expectProfile(ctx, "mine", isProgrammed).Status.Active).To(Equal(before.Status.Active))
		Expect(run.Scheduler.Store().Current().Get("mine").Config.Extenders).To(HaveLen(1))
	})

	It("the last revision that ran runs again if the current spec cannot be built", func(ctx context.Context) {
		factory := &moodyFactory{}
		withMoody := func(o *app.Options) { o.OutOfTree = framework.Registry{moody: factory.build} }
		run := start(withMoody)
		mine := profile("mine", packs)
		create(ctx, mine)
		good := expectProfile(ctx, "mine", isProgrammed)
		factory.set(noLicence)
		change(ctx, mine, spreads+usesMoody)
		expectProfile(ctx, "mine", buildFails("stays active"))
		Expect(run.Stop(patience)).To(Succeed())

		start(withMoody)
		expectLookedAt(ctx)
		failed := expectProfile(ctx, "mine", isAccepted,
			buildFails("no licence found", "revision "+good.Status.Active.Revision+" of generation 1 stays active"))
		Expect(failed.Status.Active).To(Equal(good.Status.Active))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
		factory.set(nil)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
	})

	It("of a livesched that lacks a plugin, an older revision is active until the plugin is back",
		func(ctx context.Context) {
			factory := &moodyFactory{}
			withMoody := func(o *app.Options) { o.OutOfTree = framework.Registry{moody: factory.build} }
			run := start(withMoody)
			mine := profile("mine", packs)
			create(ctx, mine)
			first := expectProfile(ctx, "mine", isProgrammed)
			change(ctx, mine, spreads+usesMoody)
			second := expectProfile(ctx, "mine", isProgrammed)
			change(ctx, mine, refusals[0].spec)
			expectProfile(ctx, "mine", keepsLastGood)
			Expect(run.Stop(patience)).To(Succeed())

			run = start()
			Eventually(func(g Gomega) {
				active := expectProfile(ctx, "mine", keepsLastGood).Status.Active
				g.Expect(active.Revision).To(Equal(first.Status.Active.Revision))
				g.Expect(active.Generation).To(Equal(int64(1)))
			}).Should(Succeed())
			Expect(expectBound(ctx, createPod(ctx, "by-the-oldest-rules", "mine"))).To(Equal(busy))
			Expect(run.Stop(patience)).To(Succeed())
			Expect(revisionsOf(ctx, mine)).To(HaveLen(2), "what goes on is not taken up again")

			start(withMoody)
			Eventually(func(g Gomega) {
				g.Expect(expectProfile(ctx, "mine", keepsLastGood).Status.Active.Revision).
					To(Equal(second.Status.Active.Revision))
			}).Should(Succeed())
		})

	It("a revision that cannot be decoded is ignored", func(ctx context.Context) {
		run := start()
		mine := profile("mine", packs)
		create(ctx, mine)
		first := expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, spreads)
		expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, refusals[0].spec)
		expectProfile(ctx, "mine", keepsLastGood)
		Expect(run.Stop(patience)).To(Succeed())

		newest := revisionsOf(ctx, mine)[1]
		object := &appsv1.ControllerRevision{}
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: newest.Name}, object)).To(Succeed())
		Expect(k8s.Delete(ctx, object.DeepCopy())).To(Succeed())
		object.ResourceVersion, object.UID, object.Data.Raw = "", "",
			[]byte(`{"apiVersion":"v1","kind":"List","items":[{"kind":"Secret"},null]}`)
		create(ctx, object)

		start()
		Eventually(func(g Gomega) {
			g.Expect(expectProfile(ctx, "mine", keepsLastGood).Status.Active.Revision).
				To(Equal(first.Status.Active.Revision))
		}).Should(Succeed())
		change(ctx, mine, spreads)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(revisionsOf(ctx, mine)).To(HaveLen(2), "it is stored under another name")
	})

	It("nothing is written if nothing has changed", func(ctx context.Context) {
		run := start()
		create(ctx, policy("default", autoscaler), policy("unused", byDefault))
		create(ctx, profile("good", packs), profile("kept", packs))
		expectProfile(ctx, "good", isProgrammed)
		expectProfile(ctx, "kept", isProgrammed)
		change(ctx, profile("kept", ""), refusals[0].spec)
		expectProfile(ctx, "kept", keepsLastGood)
		expectPolicy(ctx, "unused", isProgrammed)
		Eventually(func() []string { return expectPolicy(ctx, "default", isProgrammed).Status.Profiles }).
			WithContext(ctx).Should(Equal([]string{"good", "kept"}))
		Expect(run.Stop(patience)).To(Succeed())

		api := &watchedAPI{}
		run = startFor(api)
		Eventually(running).WithArguments(run, "kept").ShouldNot(BeEmpty())
		expectBound(ctx, createPod(ctx, "a", "good"))
		expectLookedAt(ctx)
		Consistently(api.writes).WithTimeout(200 * time.Millisecond).Should(ConsistOf(
			MatchRegexp("^POST .*/controllerrevisions$"),
			MatchRegexp("^PATCH .*/schedulingpolicies/looked-at-.*/status$"),
		))
	})
})

var _ = Describe("The history", func() {
	It("has the specs that ran, with the policy that each was built with, owned by the object",
		func(ctx context.Context) {
			start()
			shared, mine := policy("shared", autoscaler), profile("mine", "policyRef: {name: shared}")
			create(ctx, shared, mine)
			first := expectProfile(ctx, "mine", isProgrammed)
			change(ctx, mine, "{policyRef: {name: shared}, pluginConfig: [{name: InterPodAffinity, args: "+
				"{hardPodAffinityWeight: 7}}]}")
			second := expectProfile(ctx, "mine", isProgrammed)
			change(ctx, shared, byDefault)
			Eventually(func(g Gomega) {
				g.Expect(expectProfile(ctx, "mine", isProgrammed).Status.Active.Policy.Generation).To(Equal(int64(2)))
			}).Should(Succeed())
			third := expectProfile(ctx, "mine", isProgrammed)

			ofPolicy := revisionsOf(ctx, shared)
			Expect(ofPolicy).To(HaveExactElements(
				And(HaveField("Number", int64(1)), HaveField("Generation", int64(1)),
					HaveField("Policy.Spec.AlgorithmSource.Provider",
						HaveValue(Equal(v1alpha1.ClusterAutoscalerProvider)))),
				And(HaveField("Number", int64(2)), HaveField("Generation", int64(2)),
					HaveField("Policy.Spec.AlgorithmSource.Provider", HaveValue(Equal(v1alpha1.DefaultProvider)))),
			))
			like := func(number int64, p *v1alpha1.SchedulerProfile, configs int,
				policy history.Revision) gomegatypes.GomegaMatcher {
				return And(HaveField("Number", number), HaveField("Generation", p.Status.Active.Generation),
					HaveField("Hash", p.Status.Active.Revision),
					HaveField("Profile.PluginConfig", HaveLen(configs)), HaveField("Policy.Name", "shared"),
					HaveField("Policy.UID", shared.UID),
					HaveField("Policy.Generation", p.Status.Active.Policy.Generation),
					HaveField("Policy.Revision", policy.Name), HaveField("Policy.Spec", policy.Policy.Spec))
			}
			Expect(revisionsOf(ctx, mine)).
				To(HaveExactElements(like(1, first, 0, ofPolicy[0]), like(2, second, 1, ofPolicy[0]),
					like(3, third, 1, ofPolicy[1])))
			for _, object := range []client.Object{shared, mine} {
				for _, revision := range revisionsOf(ctx, object) {
					stored := &appsv1.ControllerRevision{}
					Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: revision.Name}, stored)).
						To(Succeed())
					Expect(stored.OwnerReferences).To(ConsistOf(And(
						HaveField("APIVersion", "livesched.io/v1alpha1"), HaveField("Kind", kindOf(object)),
						HaveField("Name", object.GetName()), HaveField("UID", object.GetUID()),
					)))
				}
			}
		})

	It("keeps as many revisions as the limit, besides the one that runs", func(ctx context.Context) {
		start()
		mine := profile("mine", "revisionHistoryLimit: 2")
		create(ctx, mine)
		for generation := int64(1); generation <= 5; generation++ {
			Expect(expectProfile(ctx, "mine", isProgrammed).Generation).To(Equal(generation))
			change(ctx, mine, fmt.Sprintf("{revisionHistoryLimit: 2, percentageOfNodesToScore: %d}", generation))
		}
		expectProfile(ctx, "mine", isProgrammed)
		Eventually(numbersOf).WithArguments(ctx, mine).Should(Equal([]int64{4, 5, 6}), "deleted once status is written")

		By("lowering the limit, which does not rebuild the profile")
		before := expectProfile(ctx, "mine", isProgrammed).Status.Active
		change(ctx, mine, "{revisionHistoryLimit: 1, percentageOfNodesToScore: 5}")
		after := expectProfile(ctx, "mine", isProgrammed).Status.Active
		Eventually(numbersOf).WithArguments(ctx, mine).Should(Equal([]int64{5, 6}))
		Expect(after.Generation).To(Equal(before.Generation + 1))
		after.Generation = before.Generation
		Expect(after).To(Equal(before))
		Expect(revisionsOf(ctx, mine)[1].Generation).
			To(Equal(int64(7)), "the revision that runs is that of the latest generation")
	})

	It("goes back when the data of a revision is applied, which an Event reports", func(ctx context.Context) {
		createNodes(ctx)
		start()
		shared, mine := policy("shared", autoscaler),
			profile("mine", "{policyRef: {name: shared}, revisionHistoryLimit: 7}")
		create(ctx, shared, mine)
		first := expectProfile(ctx, "mine", isProgrammed)
		change(ctx, shared, byDefault)
		expectPolicy(ctx, "shared", isProgrammed)
		expectOn(ctx, "mine", "shared", 2)
		change(ctx, mine, "{policyRef: {name: shared}, percentageOfNodesToScore: 50}")
		expectProfile(ctx, "mine", isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
		Expect(numbersOf(ctx, mine)).To(Equal([]int64{1, 2, 3}))

		stored := &appsv1.ControllerRevision{}
		oldest := revisionsOf(ctx, mine)[0]
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "default", Name: oldest.Name}, stored)).To(Succeed())
		var list unstructured.UnstructuredList
		Expect(json.Unmarshal(stored.Data.Raw, &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(2))
		for i := range list.Items {
			// Replace the object, as kubectl replace does: fields that the revision lacks are
			// removed.
			present := &unstructured.Unstructured{}
			present.SetGroupVersionKind(list.Items[i].GroupVersionKind())
			Eventually(func() error {
				if err := k8s.Get(ctx, client.ObjectKey{Name: list.Items[i].GetName()}, present); err != nil {
					return err
				}
				present.Object["spec"] = list.Items[i].Object["spec"]
				return k8s.Update(ctx, present)
			}).Should(Succeed())
		}
		Eventually(func(g Gomega) {
			active := expectProfile(ctx, "mine", isProgrammed).Status.Active
			g.Expect(active.Revision).To(Equal(first.Status.Active.Revision))
			g.Expect(active.Policy.Generation).To(Equal(int64(3)))
		}).Should(Succeed())
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
		all := revisionsOf(ctx, mine)
		newest := all[len(all)-1]
		Expect(newest.Name).To(Equal(oldest.Name), "it is the same one, with a new number")
		Expect(newest.Generation).To(Equal(int64(3)))
		Expect(newest.Policy.Generation).To(Equal(int64(3)))
		told := func(words string) gomegatypes.GomegaMatcher {
			return And(HaveField("Type", corev1.EventTypeNormal), HaveField("Reason", v1alpha1.ReasonRolledBack),
				HaveField("Note", ContainSubstring(words)))
		}
		Eventually(eventsOf).WithArguments(ctx, shared).
			Should(ContainElement(told("Generation 3 goes back to the revision with the number 1, of generation 1, " +
				"which now has the number 3")))
		Eventually(eventsOf).WithArguments(ctx, mine).
			Should(ContainElement(told(`goes back to the revision with the number 1, of generation 1 with generation ` +
				`1 of SchedulingPolicy "shared", which now has the number `)))
	})

	It("does not include the revisions of a deleted object of the same name", func(ctx context.Context) {
		run := start()
		old := profile("mine", packs)
		create(ctx, old)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(run.Stop(patience)).To(Succeed())
		Expect(k8s.Delete(ctx, old)).To(Succeed())
		mine := profile("mine", refusals[0].spec)
		create(ctx, mine)
		start()
		Expect(expectProfile(ctx, "mine", isRefused(refusals[0].reason), neverRan).Status.Active).To(BeNil())
		change(ctx, mine, packs)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(numbersOf(ctx, mine)).To(Equal([]int64{1}))
		Expect(numbersOf(ctx, old)).To(Equal([]int64{1}), "the garbage collector has not come yet")
	})

	It("has one revision for a spec with and without its defaults", func(ctx context.Context) {
		start()
		mine, shared := profile("mine", packs), policy("default", "")
		create(ctx, shared)
		expectPolicy(ctx, "default", isProgrammed)
		create(ctx, mine) // with one revision, since the policy is known
		expectProfile(ctx, "mine", isProgrammed)
		change(ctx, mine, packs+"- name: InterPodAffinity\n  args: {hardPodAffinityWeight: 1}\n")
		change(ctx, shared, "algorithmSource: {provider: DefaultProvider}")
		expectProfile(ctx, "mine", isProgrammed)
		expectPolicy(ctx, "default", isProgrammed)
		Eventually(func(g Gomega) {
			g.Expect(expectProfile(ctx, "mine").Status.Active).
				To(And(HaveField("Generation", int64(2)), HaveField("Policy.Generation", int64(2))))
		}).Should(Succeed())
		Expect(revisionsOf(ctx, mine)).
			To(ConsistOf(And(HaveField("Number", int64(1)), HaveField("Generation", int64(2)),
				HaveField("Policy.Generation", int64(2)))))
		Expect(revisionsOf(ctx, shared)).
			To(ConsistOf(And(HaveField("Number", int64(1)), HaveField("Generation", int64(2)))))
	})
})

var _ = Describe("A replica that becomes the leader", func() {
	var (
		lease    *coordinationv1.Lease
		follower *testcluster.Running
		mine     *v1alpha1.SchedulerProfile
	)

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		held := metav1.NowMicro()
		lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "livesched"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("somebody-else"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &held,
				RenewTime: &held,
			},
		}
		create(ctx, lease)
		follower = start(func(o *app.Options) {
			o.LeaderElect, o.LeaderElectionNamespace = true, "default"
			o.RetryPeriod = 100 * time.Millisecond
		})
		mine = profile("mine", packs)
		create(ctx, mine)
		Eventually(running).WithArguments(follower, "mine").Should(HaveSuffix(" of generation 1"))
	})

	lead := func(ctx context.Context) {
		GinkgoHelper()
		release(ctx, lease)
	}

	It("runs what the last leader stored, even if it has not seen it itself", func(ctx context.Context) {
		change(ctx, mine, refusals[0].spec)
		change(ctx, mine, refusals[1].spec)
		Expect(mine.Generation).To(Equal(int64(3)))
		stored, err := history.Encode(&history.Revision{
			Kind: history.KindProfile, ObjectName: "mine", UID: mine.UID, Number: 2, Generation: 2, Hash: "unknown",
			Profile: &profile("mine", spreads).Spec,
		}, "default")
		Expect(err).NotTo(HaveOccurred())
		create(ctx, stored)
		expectSeen(ctx, follower, mine)
		lead(ctx)
		Expect(expectProfile(ctx, "mine", keepsLastGood).Status.Active.Generation).To(Equal(int64(2)))
		Expect(expectBound(ctx, createPod(ctx, "by-what-was-stored", "mine"))).To(Equal(idle))
	})

	It("keeps the Secrets that it holds, although they have been deleted", func(ctx context.Context) {
		certificate, _, err := certutil.GenerateSelfSignedCertKey("extender.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nowhere",
			Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "shared"}},
			Data: map[string][]byte{"ca.crt": certificate}}
		shared := policy("shared", extended)
		create(ctx, secret, shared)
		change(ctx, mine, "policyRef: {name: shared}")
		Eventually(running).WithArguments(follower, "mine").Should(HaveSuffix(" of generation 2"))
		before := follower.Scheduler.Store().Current().Get("mine").Config

		By("storing what the last leader ran, which is the same")
		good := &history.Policy{Name: shared.Name, UID: shared.UID, Generation: shared.Generation, Spec: shared.Spec}
		for _, revision := range []*history.Revision{
			{Kind: history.KindPolicy, ObjectName: shared.Name, UID: shared.UID, Number: 1,
				Generation: shared.Generation, Hash: "same", Policy: good},
			{Kind: history.KindProfile, ObjectName: "mine", UID: mine.UID, Number: 1, Generation: 2,
				Hash: before.Revision, Profile: &mine.Spec, Policy: good},
		} {
			stored, err := history.Encode(revision, "default")
			Expect(err).NotTo(HaveOccurred())
			create(ctx, stored)
		}
		Expect(k8s.Delete(ctx, secret)).To(Succeed())
		lead(ctx)
		expectPolicy(ctx, "shared", isRefused(v1alpha1.ReasonSecretNotFound), keepsLastGood)
		Expect(expectProfile(ctx, "mine", isProgrammed).Status.Active.Revision).To(Equal(before.Revision))
		Expect(follower.Scheduler.Store().Current().Get("mine").Config.Extenders).To(HaveLen(1))
	})

	It("stores what it has run itself, if the last leader did not get to it", func(ctx context.Context) {
		change(ctx, mine, spreads)
		Eventually(running).WithArguments(follower, "mine").Should(HaveSuffix(" of generation 2"))
		change(ctx, mine, refusals[0].spec)
		Expect(revisionsOf(ctx, mine)).To(BeEmpty(), "a follower stores nothing")
		lead(ctx)
		active := expectProfile(ctx, "mine", keepsLastGood).Status.Active
		Expect(active.Generation).To(Equal(int64(2)))
		Expect(revisionsOf(ctx, mine)).
			To(ConsistOf(And(HaveField("Generation", int64(2)), HaveField("Hash", active.Revision))))
		Expect(expectBound(ctx, createPod(ctx, "by-what-ran", "mine"))).To(Equal(idle))
	})
})

var _ = Describe("While revisions", func() {
	isNotStored := haveCondition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonNotStored,
		"The revision could not be stored", "out of order")

	BeforeEach(createNodes)

	It("cannot be written, changes take effect, and status reports it and names only what a restart could bring back",
		func(ctx context.Context) {
			api := &watchedAPI{}
			startFor(api)
			mine := profile("mine", packs)
			create(ctx, mine)
			good := expectProfile(ctx, "mine", isProgrammed)
			api.refuse("POST", "PATCH")
			change(ctx, mine, spreads)
			create(ctx, profile("new", spreads), policy("default", ""))
			Expect(expectProfile(ctx, "mine", isAccepted, isNotStored).Status.Active).To(Equal(good.Status.Active))
			Expect(expectProfile(ctx, "new", isAccepted, isNotStored).Status.Active).To(BeNil())
			expectPolicy(ctx, "default", isAccepted, isNotStored)
			Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
			Eventually(eventsOf).WithArguments(ctx, mine).
				Should(ContainElement(And(HaveField("Type", corev1.EventTypeWarning),
					HaveField("Reason", v1alpha1.ReasonNotStored))))

			By("an invalid change in the meantime")
			change(ctx, mine, refusals[0].spec)
			refused := expectProfile(ctx, "mine", isRefused(refusals[0].reason),
				haveCondition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonKeptLastGood,
					"of generation 2 stays active", "could not be stored"))
			Expect(refused.Status.Active).To(Equal(good.Status.Active))

			By("ending the failures of the API server")
			api.refuse()
			expectProfile(ctx, "new", isProgrammed)
			expectPolicy(ctx, "default", isProgrammed)
			Eventually(func(g Gomega) {
				g.Expect(expectProfile(ctx, "mine", keepsLastGood).Status.Active.Generation).To(Equal(int64(2)))
			}).Should(Succeed())
			Expect(revisionsOf(ctx, mine)).To(HaveLen(2), "what was not accepted any more was stored all the same")
		})

	It("cannot be written because that hangs, changes take effect at once", func(ctx context.Context) {
		api := &watchedAPI{}
		release := api.hold(http.MethodPost)
		run := startFor(api)
		mine := profile("mine", packs)
		create(ctx, mine, profile("other", packs))
		Eventually(running).WithArguments(run, "mine").Should(HaveSuffix(" of generation 1"))
		Eventually(api.held.Load).Should(BeNumerically(">=", 2))
		change(ctx, mine, spreads)
		Eventually(running).WithArguments(run, "mine").Should(HaveSuffix(" of generation 2"))
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
		expectUnreported(ctx, "mine")

		release()
		Expect(expectProfile(ctx, "mine", isProgrammed).Status.Active.Generation).To(Equal(int64(2)))
		expectProfile(ctx, "other", isProgrammed)
	})

	It("may not be read, profiles run without them, and status reports it", func(ctx context.Context) {
		api := &watchedAPI{}
		api.refuse("GET", "forbidden")
		startFor(api)
		create(ctx, profile("mine", packs))
		Expect(expectProfile(ctx, "mine", isAccepted, isNotStored).Status.Active).To(BeNil())
		Expect(expectBound(ctx, createPod(ctx, "a", "mine"))).To(Equal(busy))
		api.refuse()
		expectProfile(ctx, "mine", isProgrammed)
	})

	It("cannot be read at the start, profiles wait for a while, since they may depend on the revisions",
		func(ctx context.Context) {
			run := start()
			mine := profile("mine", packs)
			create(ctx, mine)
			good := expectProfile(ctx, "mine", isProgrammed)
			Expect(run.Stop(patience)).To(Succeed())
			change(ctx, mine, refusals[0].spec)
			api := &watchedAPI{}
			api.refuse("GET")
			run = startFor(api)
			Eventually(api.refused.Load).Should(BeNumerically(">", 1))
			Expect(running(run, "mine")).To(BeEmpty())
			api.refuse()
			Expect(expectProfile(ctx, "mine", keepsLastGood).Status.Active).To(Equal(good.Status.Active))
		})
})

// running returns the revision that runs under a scheduler name, empty if none does.
func running(run *testcluster.Running, schedulerName string) string {
	p := run.Scheduler.Store().Current().Get(schedulerName)
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s of generation %d", p.Config.Revision, p.Config.Generation)
}

// expectLookedAt waits until the leader has reconciled everything again. It may still be writing
// the statuses of others: what has just changed comes first.
func expectLookedAt(ctx context.Context) {
	GinkgoHelper()
	marker := policy("looked-at-"+fmt.Sprint(GinkgoRandomSeed()), "")
	create(ctx, marker)
	expectPolicy(ctx, marker.Name, isProgrammed)
}

func kindOf(object client.Object) string {
	if _, ok := object.(*v1alpha1.SchedulingPolicy); ok {
		return history.KindPolicy
	}
	return history.KindProfile
}

// revisionsOf lists the revisions of an object.
func revisionsOf(ctx context.Context, object client.Object) []history.Revision {
	GinkgoHelper()
	all, err := history.List(ctx, k8s, "default", kindOf(object), object.GetName())
	Expect(err).NotTo(HaveOccurred())
	return history.Of(all, object.GetUID())
}

func numbersOf(ctx context.Context, object client.Object) []int64 {
	GinkgoHelper()
	var numbers []int64
	for _, r := range revisionsOf(ctx, object) {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// expectSeen waits until livesched has the current generation of a profile in its cache.
func expectSeen(ctx context.Context, run *testcluster.Running, p *v1alpha1.SchedulerProfile) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var seen v1alpha1.SchedulerProfile
		g.Expect(run.GetClient().Get(ctx, client.ObjectKeyFromObject(p), &seen)).To(Succeed())
		g.Expect(seen.Generation).To(Equal(p.Generation))
	}).WithContext(ctx).Should(Succeed())
}

// startFor is start with a watchedAPI, which can reject or delay calls for revisions.
func startFor(api *watchedAPI, change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	options := testcluster.Options()
	for _, f := range change {
		f(options)
	}
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return api.roundTrip(next, r) })
	})
	run, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(run.Stop(patience)).To(Succeed()) })
	return run
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// watchedAPI is a proxy of the API server. It records the writes of revisions and of livesched's
// own kinds, and rejects calls as a spec specifies.
type watchedAPI struct {
	refused, held atomic.Int32

	mu      sync.Mutex // guards the fields below
	refuses []string   // methods rejected for ControllerRevisions, and "forbidden" if so
	holding string     // method whose calls for ControllerRevisions wait for holds
	holds   chan struct{}
	written []string // method and path of each write
}

func (a *watchedAPI) refuse(methods ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuses = methods
}

// hold delays the calls of a method for ControllerRevisions until release is called or the spec
// ends.
func (a *watchedAPI) hold(method string) (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	holds := make(chan struct{})
	a.holding, a.holds = method, holds
	release = sync.OnceFunc(func() { close(holds) })
	DeferCleanup(release)
	return release
}

func (a *watchedAPI) writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.written)
}

func (a *watchedAPI) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	revisions := strings.Contains(r.URL.Path, "/controllerrevisions")
	if !revisions && !strings.Contains(r.URL.Path, "/livesched.io/") {
		return next.RoundTrip(r)
	}
	a.mu.Lock()
	refuses, holding, holds := a.refuses, a.holding, a.holds
	if r.Method != http.MethodGet {
		a.written = append(a.written, r.Method+" "+r.URL.Path)
	}
	a.mu.Unlock()
	if revisions && r.Method == holding {
		a.held.Add(1)
		select {
		case <-holds:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	if !revisions || !slices.Contains(refuses, r.Method) {
		return next.RoundTrip(r)
	}
	a.refused.Add(1)
	code, reason := http.StatusInternalServerError, metav1.StatusReasonInternalError
	if slices.Contains(refuses, "forbidden") {
		code, reason = http.StatusForbidden, metav1.StatusReasonForbidden
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: "out of order",
	})
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, err
}
