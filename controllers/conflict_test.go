// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/testcluster"
)

// Of two profiles of the same age, the one whose name sorts first counts as the older. The specs
// rely on that: creation timestamps have a resolution of one second.
var _ = Describe("Profiles that conflict", func() {
	var run *testcluster.Running

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		run = start(func(o *app.Options) { o.OutOfTree = framework.Registry{newestFirst: newNewestFirst} })
	})

	It("over a scheduler name: the older one has it until it is deleted", func(ctx context.Context) {
		elder := profile("elder", "schedulerName: shared\n"+packs)
		create(ctx, elder)
		expectProfile(ctx, "elder", isProgrammed)
		create(ctx, profile("younger", "schedulerName: shared\n"+spreads))
		loser := expectProfile(ctx, "younger",
			isRefused(v1alpha1.ReasonSchedulerNameConflict, "spec.schedulerName: ", `older SchedulerProfile "elder"`,
				`"shared"`), neverRan)
		Expect(loser.Status.Active).To(BeNil())
		Expect(expectBound(ctx, createPod(ctx, "by-elder", "shared"))).To(Equal(busy))

		By("deleting the winner")
		Expect(k8s.Delete(ctx, elder)).To(Succeed())
		winner := expectProfile(ctx, "younger", isAccepted, isProgrammed)
		Expect(winner.Status.Active).NotTo(BeNil())
		Expect(expectBound(ctx, createPod(ctx, "by-younger", "shared"))).To(Equal(idle))
	})

	It("over the order of the queue: the older one wins until it is deleted", func(ctx context.Context) {
		elder, younger := profile("elder", ""), profile("younger", packs)
		create(ctx, elder, younger)
		expectProfile(ctx, "elder", isProgrammed)
		before := expectProfile(ctx, "younger", isProgrammed)

		change(ctx, younger, spreads+sortsNewestFirst)
		loser := expectProfile(ctx, "younger",
			isRefused(v1alpha1.ReasonQueueSortConflict, "spec.plugins.queueSort: ", `older SchedulerProfile "elder"`,
				"PrioritySort", newestFirst), keepsLastGood)
		Expect(loser.Status.Active).To(Equal(before.Status.Active))
		Expect(loser.Status.Active.Plugins.QueueSort).To(Equal([]string{"PrioritySort"}))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "younger"))).To(Equal(busy))
		expectProfile(ctx, "elder", isProgrammed)

		By("deleting the winner")
		Expect(k8s.Delete(ctx, elder)).To(Succeed())
		winner := expectProfile(ctx, "younger", isAccepted, isProgrammed)
		Expect(winner.Status.Active.Plugins.QueueSort).To(Equal([]string{newestFirst}))
		Expect(run.Scheduler.Store().Current().Get("younger").QueueSort().Name()).To(Equal(newestFirst))
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "younger"))).To(Equal(idle))
	})

	It("over the order of the queue from the start: the younger one does not run", func(ctx context.Context) {
		create(ctx, profile("elder", sortsNewestFirst))
		expectProfile(ctx, "elder", isProgrammed)
		create(ctx, profile("younger", ""))
		expectProfile(ctx, "younger",
			isRefused(v1alpha1.ReasonQueueSortConflict, "spec.policyRef.name: ", newestFirst, "PrioritySort"), neverRan)
		expectBound(ctx, createPod(ctx, "by-elder", "elder"))
	})
})

// newestFirst is an out-of-tree plugin that sorts the queue.
const (
	newestFirst      = "NewestFirst"
	sortsNewestFirst = `
plugins: {queueSort: {enabled: [{name: NewestFirst}], disabled: [{name: "*"}]}}
`
)

type newestFirstSort struct{}

func newNewestFirst(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return newestFirstSort{}, nil
}

func (newestFirstSort) Name() string { return newestFirst }

func (newestFirstSort) Less(a, b fwk.QueuedEntityInfo) bool {
	return a.GetTimestamp().After(b.GetTimestamp())
}
