// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/queue"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The plugins order the queue by the names of pods, ascending and descending.
const (
	byName     = "ByName"
	byNameDown = "ByNameDown"
)

type nameSort struct{ down bool }

func newByName(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nameSort{}, nil
}

func newByNameDown(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nameSort{down: true}, nil
}

func (s nameSort) Name() string {
	if s.down {
		return byNameDown
	}
	return byName
}

func (s nameSort) Less(a, b fwk.QueuedEntityInfo) bool {
	x, y := Queued(a).Name, Queued(b).Name
	if s.down {
		return x > y
	}
	return x < y
}

var _ = Describe("A queue whose order changes", func() {
	const node, one, two = "reload-order", "reload-one", "reload-two"

	BeforeEach(func(ctx context.Context) {
		Eventually(func() int { return run.Scheduler.Store().Current().Len() }).WithContext(ctx).Should(BeZero())
		createNode(ctx, node)
	})
	on := func(policy string) string { return holderEverywhere + "policyRef: {name: " + policy + "}" }
	// reorder changes the order that a policy specifies.
	reorder := func(ctx context.Context, name, sort string) {
		GinkgoHelper()
		patch := fmt.Sprintf(`{"spec":{"queueSort":{"name":%q}}}`, sort)
		Expect(k8s.Patch(ctx, Policy(name, ""), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	expectOrder := func(ctx context.Context, sort string, schedulerNames ...string) {
		GinkgoHelper()
		for _, name := range schedulerNames {
			Eventually(func() string {
				p := run.Scheduler.Store().Current().Get(name)
				if p == nil {
					return ""
				}
				return p.QueueSort().Name()
			}).WithContext(ctx).Should(Equal(sort))
		}
	}
	// block blocks the scheduling loop with a pod.
	block := func(ctx context.Context, name, schedulerName string) *hold {
		GinkgoHelper()
		h := plugins.hold(name, "PreFilter", nil)
		DeferCleanup(h.release)
		create(ctx, podOn(node, name, schedulerName, "1m"))
		Eventually(h.reached).WithContext(ctx).Should(BeClosed())
		return h
	}
	queued := func(ctx context.Context, place queue.Place, pods []*corev1.Pod) {
		GinkgoHelper()
		for _, pod := range pods {
			Eventually(func() queue.Place {
				state, _ := run.Parts().Queue.Get(pod.UID)
				return state.Place
			}).WithContext(ctx).Should(Equal(place))
		}
	}

	It("through the policy that profiles share reorders the active pods of all of them", func(ctx context.Context) {
		create(ctx, Policy("shared", "queueSort: {name: ByName}"), Profile(one, on("shared")),
			Profile(two, on("shared")))
		ExpectProgrammed(ctx, one)
		ExpectProgrammed(ctx, two)
		blocker := block(ctx, "order-active", one)
		since := plugins.count()
		var pods []*corev1.Pod
		for i, name := range []string{"m", "p", "k", "q", "n", "l"} {
			pods = append(pods, podOn(node, "active-"+name, []string{one, two}[i%2], "1m"))
			create(ctx, pods[i])
		}
		queued(ctx, queue.Active, pods)
		reorder(ctx, "shared", byNameDown)
		expectOrder(ctx, byNameDown, one, two)
		blocker.release()
		for _, pod := range pods {
			ExpectBound(ctx, pod)
		}
		want := []string{"active-q", "active-p", "active-n", "active-m", "active-l", "active-k"}
		Expect(plugins.order(since, want)).To(Equal(want))
	})

	It("through the deletion of the profile that decided it reorders the backed-off pods of an unchanged profile",
		func(ctx context.Context) {
			// The elder is the older one, but its spec is invalid when the younger starts to run.
			create(ctx, Policy("down", "queueSort: {name: ByNameDown}\npodInitialBackoff: 1h\npodMaxBackoff: 1h"),
				Policy("up", "queueSort: {name: ByName}"))
			create(ctx, Profile(one, "policyRef: {name: nowhere}"), Profile(two, on("down")))
			ExpectProgrammed(ctx, two)
			respec(ctx, one, on("up"))
			ExpectProgrammed(ctx, one)
			ExpectCondition(ctx, two, v1alpha1.ConditionAccepted, metav1.ConditionFalse,
				v1alpha1.ReasonQueueSortConflict)
			running := run.Scheduler.Store().Current().Get(two)

			var pods []*corev1.Pod
			var names []string
			for _, name := range []string{"c", "e", "a", "d", "b"} {
				pod := podOn(node, "backoff-"+name, two, "1m")
				h := plugins.hold(pod.Name, "Filter", refused)
				create(ctx, pod)
				pods, names = append(pods, pod), append(names, pod.Name)
				DeferCleanup(h.release)
			}
			queued(ctx, queue.Unschedulable, pods)
			blocker := block(ctx, "order-backoff", one)
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			Update(ctx, n, func(n *corev1.Node) { n.Labels["better"] = "yes" })
			queued(ctx, queue.Backoff, pods)
			since := plugins.count()

			Expect(k8s.Delete(ctx, Profile(one, ""))).To(Succeed())
			ExpectProgrammed(ctx, two)
			Expect(run.Scheduler.Store().Current().Get(two)).To(BeIdenticalTo(running), "it is carried over")
			queued(ctx, queue.Backoff, pods)
			// Back-offs end in windows; within one the queue sort decides. Usually there is one
			// window.
			var states []queue.PodState
			for _, pod := range pods {
				state, _ := run.Parts().Queue.Get(pod.UID)
				states = append(states, state)
			}
			slices.SortFunc(states, func(a, b queue.PodState) int {
				if c := a.BackoffEnd.Compare(b.BackoffEnd); c != 0 {
					return c
				}
				return strings.Compare(b.Pod.Name, a.Pod.Name)
			})
			var want []string
			for _, state := range states {
				want = append(want, state.Pod.Name)
			}
			for _, name := range names {
				plugins.letGo(name)
			}
			blocker.release() // with nothing active, the loop takes pods that back off
			for _, pod := range pods {
				ExpectBound(ctx, pod)
			}
			Expect(plugins.order(since, names)).To(Equal(want))
		})

	It("repeatedly under load loses no pod, binds none twice, and changes for all profiles at the same time",
		func(ctx context.Context) {
			const flips, total = 20, 100 // a node takes 110
			create(ctx, Policy("shared", "queueSort: {name: ByName}\npodInitialBackoff: 1ms\npodMaxBackoff: 1ms"),
				Profile(one, on("shared")), Profile(two, on("shared")))
			ExpectProgrammed(ctx, one)
			ExpectProgrammed(ctx, two)

			watching, stop := context.WithCancel(ctx)
			defer stop()
			mixed := make(chan string, 1)
			go func() {
				for watching.Err() == nil {
					now := run.Scheduler.Store().Current()
					a, b := now.Get(one), now.Get(two)
					if a != nil && b != nil && a.QueueSort().Name() != b.QueueSort().Name() {
						select {
						case mixed <- a.QueueSort().Name() + " and " + b.QueueSort().Name():
						default:
						}
					}
				}
			}()
			flipped := make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(flipped)
				for i := range flips {
					sort := []string{byNameDown, byName}[i%2]
					reorder(ctx, "shared", sort)
					expectOrder(ctx, sort, one, two)
				}
			}()
			var pods []*corev1.Pod
			for i := range total {
				pod := podOn(node, fmt.Sprintf("load-%d", (i*7919)%total), []string{one, two}[i%2], "1m")
				if i%2 == 1 { // rejected once, so that pods back off, too
					h := plugins.hold(pod.Name, "Reserve", refusedOnce)
					DeferCleanup(h.release)
				}
				create(ctx, pod)
				pods = append(pods, pod)
			}
			// a reload for each flip
			Eventually(flipped).WithContext(ctx).WithTimeout(5 * time.Minute).Should(BeClosed())
			Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
				func(n *corev1.Node) { n.Labels["done"] = "yes" })
			for _, pod := range pods {
				ExpectBound(ctx, pod)
				Eventually(bound.Of).WithArguments(pod.UID).WithContext(ctx).Should(Equal(1))
				for _, attempt := range plugins.seen(pod.Name) {
					Expect(attempt.generations).To(HaveLen(1))
				}
			}
			Expect(mixed).NotTo(Receive())
			Expect(requested(node)).To(Equal(int64(total)))
		})
})
