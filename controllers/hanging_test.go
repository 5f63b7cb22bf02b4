// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/testcluster"
)

// isPending matches Programmed of an object whose plugins are still being built.
func isPending(words ...string) gomegatypes.GomegaMatcher {
	return haveCondition(v1alpha1.ConditionProgrammed, "Unknown", v1alpha1.ReasonPending, words...)
}

var _ = Describe("A build that takes long", func() {
	var (
		run     *testcluster.Running
		factory *moodyFactory
	)

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		factory = &moodyFactory{released: make(chan struct{})}
		run = start(func(o *app.Options) {
			o.OutOfTree = framework.Registry{moody: factory.build, newestFirst: newNewestFirst}
			o.ProfileBuildTimeout = time.Minute // no spec of these waits for it
		})
		DeferCleanup(func() {
			select {
			case <-factory.released:
			default:
				close(factory.released)
			}
		})
	})
	instance := func(name string) any { return run.Scheduler.Store().Current().Get(name) }

	It("does not delay other profiles or their changes, and its profile runs as soon as it is built",
		func(ctx context.Context) {
			factory.set((*moodyFactory).hang)
			// Builds are in the order of scheduler names: the one that hangs is the first.
			create(ctx, profile("a-slow", usesMoody), profile("b-slow", usesMoody), profile("quick", packs))
			expectProfile(ctx, "quick", isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "one", "quick"))).To(Equal(busy))
			change(ctx, profile("quick", ""), spreads)
			expectProfile(ctx, "quick", isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "two", "quick"))).To(Equal(idle))
			late := expectProfile(ctx, "a-slow", isAccepted,
				isPending("Generation 1 is still being built", "pods with this scheduler name stay pending"))
			Expect(late.Status.Active).To(BeNil())
			waiting := createPod(ctx, "waiting", "a-slow")
			expectPending(ctx, waiting)

			close(factory.released)
			expectProfile(ctx, "a-slow", isProgrammed)
			expectProfile(ctx, "b-slow", isProgrammed)
			expectBound(ctx, waiting)
			Expect(factory.calls()).To(Equal(2), "what was built is used")
		})

	It("is given up when its profile is changed again or deleted, and leaves nothing behind",
		func(ctx context.Context) {
			mine := profile("mine", packs)
			create(ctx, mine, profile("theirs", packs))
			expectProfile(ctx, "mine", isProgrammed)
			expectProfile(ctx, "theirs", isProgrammed)
			handlers := run.Informers.Handlers()

			factory.set((*moodyFactory).hang)
			change(ctx, mine, spreads+usesMoody)
			expectProfile(ctx, "mine", isPending("Generation 2 is still being built", "of generation 1 stays active"))
			change(ctx, profile("theirs", ""), spreads+usesMoody)
			expectProfile(ctx, "theirs", isPending())
			change(ctx, mine, spreads)
			expectProfile(ctx, "mine", isProgrammed)
			Expect(k8s.Delete(ctx, profile("theirs", ""))).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(Equal(1))
			Eventually(run.Informers.Handlers).Should(Equal(handlers), "nothing is lent to a build that was given up")

			mended := instance("mine")
			close(factory.released)
			Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
			Consistently(func() any { return instance("mine") }).Should(BeIdenticalTo(mended))
		})

	It("delays the profiles that change the order of the queue together with it", func(ctx context.Context) {
		create(ctx, policy("shared", ""))
		slow := "policyRef: {name: shared}\n" + usesMoody
		create(ctx, profile("a-quick", "policyRef: {name: shared}"), profile("b-slow", slow))
		for _, name := range []string{"a-quick", "b-slow"} {
			expectProfile(ctx, name, isProgrammed)
		}
		before := run.Scheduler.Store().Current()

		factory.set((*moodyFactory).hang)
		change(ctx, policy("shared", ""), "queueSort: {name: NewestFirst}")
		expectProfile(ctx, "b-slow", isPending("Generation 1 is still being built"))
		expectProfile(ctx, "a-quick",
			isPending("Generation 1 is built, and waits for the profile with scheduler name \"b-slow\"",
				"stays active"))
		expectPolicy(ctx, "shared", isAccepted, isPending("a-quick, b-slow"))
		By("creating another profile in the meantime")
		create(ctx, profile("c-new", "policyRef: {name: shared}"))
		expectProfile(ctx, "c-new", isProgrammed)
		expectBound(ctx, createPod(ctx, "pod", "c-new"))
		for _, name := range []string{"a-quick", "b-slow"} {
			Expect(instance(name)).To(BeIdenticalTo(before.Get(name)))
		}

		close(factory.released)
		quick, slowOne := expectProfile(ctx, "a-quick", isProgrammed), expectProfile(ctx, "b-slow", isProgrammed)
		Expect(quick.Status.Active.Plugins.QueueSort).To(Equal([]string{newestFirst}))
		Expect(slowOne.Status.Active.Plugins.QueueSort).To(Equal([]string{newestFirst}))
	})
})

var _ = Describe("Changes in quick succession", func() {
	It("coalesce: only the last of them is built", func(ctx context.Context) {
		const changes = 10 // in less time than the first pass waits
		factory, api := &moodyFactory{}, &watchedAPI{}
		createNodes(ctx)
		p := profile("mine", usesMoody)
		create(ctx, p)
		// The first pass waits until it has read the stored revisions.
		release := api.hold(http.MethodGet)
		run := startFor(api, func(o *app.Options) { o.OutOfTree = framework.Registry{moody: factory.build} })
		Eventually(api.held.Load).Should(BeEquivalentTo(1))
		for i := range changes {
			spec := fmt.Sprintf(`{"spec":{"percentageOfNodesToScore":%d}}`, i+1)
			Expect(k8s.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(spec)))).To(Succeed())
		}
		expectSeen(ctx, run, p)
		release()
		last := expectProfile(ctx, "mine", isProgrammed)
		Expect(last.Status.Active.Generation).To(Equal(int64(changes + 1)))
		Expect(run.Scheduler.Store().Current().Get("mine").Config.PercentageOfNodesToScore).To(Equal(int32(changes)))
		Expect(factory.calls()).To(Equal(1))
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		expectBound(ctx, createPod(ctx, "pod", "mine"))
	})
})
