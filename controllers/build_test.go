// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/testcluster"
)

// buildFails matches Programmed of an object whose plugins cannot be built.
func buildFails(words ...string) gomegatypes.GomegaMatcher {
	return haveCondition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonBuildFailed, words...)
}

var _ = Describe("A plugin that cannot be built", func() {
	var (
		run     *testcluster.Running
		factory *moodyFactory
	)

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		factory = &moodyFactory{released: make(chan struct{})}
		run = start(func(o *app.Options) {
			o.OutOfTree = framework.Registry{moody: factory.build}
			o.ProfileBuildTimeout = time.Second
		})
		DeferCleanup(func() { close(factory.released) })
	})

	DescribeTable("leaves the running revision in place, and is retried until it succeeds", func(ctx context.Context,
		how func(*moodyFactory) error, words string) {
		mine := profile("mine", packs)
		create(ctx, mine)
		good := expectProfile(ctx, "mine", isProgrammed)
		handlers, generations := run.Informers.Handlers(), run.Scheduler.Store().Alive()

		factory.set(how)
		change(ctx, mine, spreads+usesMoody)
		failed := expectProfile(ctx, "mine", isAccepted,
			buildFails(`"Moody"`, words, "revision "+good.Status.Active.Revision+" of generation 1 stays active"))
		Expect(failed.Status.Active).To(Equal(good.Status.Active))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
		Eventually(run.Informers.Handlers).Should(Equal(handlers), "a failed build leaves no handler behind")
		Expect(run.Scheduler.Store().Alive()).To(Equal(generations))

		By("creating another profile in the meantime")
		create(ctx, profile("other", spreads))
		expectProfile(ctx, "other", isProgrammed)

		factory.set(nil)
		mended := expectProfile(ctx, "mine", isAccepted, isProgrammed)
		Expect(mended.Generation).To(Equal(int64(2)), "the profile was not changed")
		Expect(mended.Status.Active.Plugins.PostBind).To(Equal([]string{moody}))
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
	},
		Entry("when its factory fails", noLicence, "no licence found"),
		Entry("when its factory panics", func(*moodyFactory) error { panic("index out of range") },
			"panic: index out of range"),
		Entry("when its factory hangs", (*moodyFactory).hang, "the build did not end within 1s"),
	)

	It("does not run if nothing ran before, and its pods stay pending", func(ctx context.Context) {
		factory.set(noLicence)
		create(ctx, profile("mine", usesMoody), profile("other", ""))
		pod := createPod(ctx, "waiting", "mine")
		failed := expectProfile(ctx, "mine", isAccepted,
			buildFails("no licence found", "pods with this scheduler name stay pending"))
		Expect(failed.Status.Active).To(BeNil())
		expectBound(ctx, createPod(ctx, "other", "other"))
		expectPending(ctx, pod)

		factory.set(nil)
		expectBound(ctx, pod)
		expectProfile(ctx, "mine", isProgrammed)
	})

	It("is given up when the profile no longer enables it", func(ctx context.Context) {
		factory.set(noLicence)
		mine := profile("mine", usesMoody)
		create(ctx, mine)
		expectProfile(ctx, "mine", buildFails("no licence found"))
		change(ctx, mine, packs)
		expectProfile(ctx, "mine", isProgrammed)
		calls := factory.calls()
		// Longer than the first retry of a failed build takes.
		Consistently(factory.calls, "1500ms").Should(Equal(calls))
	})

	It("makes the policy name the profile that could not be built", func(ctx context.Context) {
		create(ctx, policy("shared", ""))
		create(ctx, profile("mine", "policyRef: {name: shared}\n"+usesMoody),
			profile("other", "policyRef: {name: shared}"))
		expectPolicy(ctx, "shared", isProgrammed)
		expectOn(ctx, "mine", "shared", 1)
		expectOn(ctx, "other", "shared", 1)
		factory.set(noLicence)
		change(ctx, policy("shared", ""), "percentageOfNodesToScore: 50")
		expectPolicy(ctx, "shared", isAccepted,
			buildFails("Generation 2 could not be built into profile mine; see the profile status for the error"))
		expectOn(ctx, "other", "shared", 2)
		mine := expectProfile(ctx, "mine", buildFails("stays active"))
		Expect(mine.Status.Active.Policy).To(Equal(&v1alpha1.ActivePolicy{Name: "shared", Generation: 1}))
		factory.set(nil)
		expectPolicy(ctx, "shared", isProgrammed)
	})
})

// moody is an out-of-tree plugin whose factory fails as a spec determines.
const (
	moody     = "Moody"
	usesMoody = `
plugins: {postBind: {enabled: [{name: Moody}]}}
`
)

type moodyPlugin struct{}

func (moodyPlugin) Name() string { return moody }

func (moodyPlugin) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// moodyFactory builds the plugin unless a spec has set how it fails.
type moodyFactory struct {
	released chan struct{} // closed to end the calls that hang

	mu    sync.Mutex // guards the fields below
	how   func(*moodyFactory) error
	count int
}

func noLicence(*moodyFactory) error { return errors.New("no licence found") }

func (f *moodyFactory) hang() error {
	<-f.released
	return nil
}

func (f *moodyFactory) set(how func(*moodyFactory) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how = how
}

func (f *moodyFactory) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *moodyFactory) build(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	f.mu.Lock()
	f.count++
	how := f.how
	f.mu.Unlock()
	// A failed build must remove this handler.
	if _, err := handle.SharedInformerFactory().Core().V1().Services().Informer().
		AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
		return nil, err
	}
	if how != nil {
		if err := how(f); err != nil {
			return nil, err
		}
	}
	return moodyPlugin{}, nil
}
