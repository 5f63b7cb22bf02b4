// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/queue"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

const (
	// bystander is the scheduler name of a profile that no spec changes, for pods on the node
	// "spare".
	bystander = "bystander"
	spare     = "spare"
	// important is a priority class.
	important = "important"
)

// cell is one spec of the matrix with its objects.
type cell struct {
	moment moment
	change change
	// name is the name of the profile, its scheduler name, the policy and the node.
	name   string
	policy string
	node   *corev1.Node
	pod    *corev1.Pod
	held   *hold
	// attempts is the number of attempts at the pod that had been made when it reached its moment.
	attempts int

	// What some moments need:
	blocker *hold
	victim  *corev1.Pod
	others  []*corev1.Pod // they stay on the node
	volume  *corev1.PersistentVolume
}

// instance returns the first instance of the cell's profile.
func (c *cell) instance() *holder { return plugins.of(c.name)[0] }

func exists(ctx context.Context, object client.Object) bool {
	err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object)
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// begin brings the pod to its moment.
func (c *cell) begin(ctx context.Context) {
	GinkgoHelper()
	c.policy = c.moment.policy
	if c.policy == "" {
		c.policy = "podInitialBackoff: 1ms\npodMaxBackoff: 1ms"
	}
	create(ctx, Policy(c.name, c.policy), Profile(c.name, c.spec("")))
	DeferCleanup(func(ctx context.Context) { remove(ctx, Profile(c.other(), "")) })
	createNode(ctx, c.name)
	c.node = Node(c.name, "4", "8Gi", nil)
	ExpectProgrammed(ctx, c.name)

	c.pod = podOn(c.node.Name, c.name+"-pod", c.name, "3")
	if c.moment.prepare != nil {
		c.moment.prepare(ctx, c)
	}
	if c.moment.point != "" {
		c.held = plugins.hold(c.pod.Name, c.moment.point, c.moment.status)
		DeferCleanup(c.held.release) // a failed spec must not block the loop
	}
	if c.blocker != nil {
		DeferCleanup(c.blocker.release)
	}
	create(ctx, c.pod)
	if c.held != nil {
		Eventually(c.held.reached).WithContext(ctx).Should(BeClosed())
	}
	if c.moment.reached != nil {
		c.moment.reached(ctx, c)
	}
	if c.moment.place != 0 {
		Eventually(c.place).WithContext(ctx).Should(Equal(c.moment.place))
	}
	c.attempts = len(plugins.seen(c.pod.Name))
}

func (c *cell) place() queue.Place {
	state, _ := run.Parts().Queue.Get(c.pod.UID)
	return state.Place
}

// goOn lets the pod continue.
func (c *cell) goOn(ctx context.Context) {
	if c.held != nil {
		c.held.release()
	}
	if c.moment.goOn != nil {
		c.moment.goOn(ctx, c)
	}
}

// run changes the profile while the pod is at its moment, and returns the instance that must bind
// it.
func (c *cell) run(ctx context.Context) (generation int) {
	GinkgoHelper()
	old := c.instance()
	if c.moment.place == queue.ErrorBackoff {
		c.held.release() // the back-off holds the pod
	}
	c.change.make(ctx, c)
	retired := c.change.effect == replaced || c.change.effect == removed

	if c.moment.underWay {
		Expect(old.closes.Load()).To(BeZero(), "a generation with a pod under way is not closed")
		Expect(old.ctx.Err()).NotTo(HaveOccurred())
	} else if retired {
		Eventually(old.closes.Load).WithContext(ctx).Should(Equal(int32(1)), "no pod is left in the old generation")
	}
	switch {
	case c.moment.underWay:
	case c.change.effect == removed:
		ExpectEvent(ctx, c.pod, "FailedScheduling", ContainSubstring(fmt.Sprintf("scheduler name %q is gone", c.name)))
		_, known := run.Parts().Queue.Get(c.pod.UID)
		Expect(known).To(BeFalse(), "the pod has left the queue")
		Expect(run.Parts().Queue.Nominator().NominatedPodsForNode(c.node.Name)).To(BeEmpty())
	case c.change.effect == replaced || c.change.effect == shared:
		c.expectLookedAtAgain(ctx)
	}
	if c.moment.meanwhile != nil {
		c.moment.meanwhile(ctx, c)
	}
	switch {
	case c.moment.underWay || c.change.effect == kept && c.moment.place != queue.ErrorBackoff:
		c.goOn(ctx)
		return 0
	case c.change.effect == replaced || c.change.effect == shared:
		c.goOn(ctx)
		return 1
	case c.change.effect == removed:
		c.goOn(ctx)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(c.pod), c.pod)).To(Succeed())
		Expect(c.pod.Spec.NodeName).To(BeEmpty())
	default:
		Expect(c.place()).To(Equal(queue.ErrorBackoff), "what was kept changes nothing for the pod")
		c.goOn(ctx)
	}
	c.mend(ctx)
	return 1
}

// expectLookedAtAgain waits until the new instance has tried a waiting pod, without an event.
func (c *cell) expectLookedAtAgain(ctx context.Context) {
	GinkgoHelper()
	if c.blocker != nil {
		Eventually(plugins.askedToAdmit).WithArguments(c.pod.Name).WithContext(ctx).Should(Equal([]int{0, 1}))
		return
	}
	if c.moment.place == queue.Gated && c.moment.point == "" {
		return // the gate comes before the plugin
	}
	if c.moment.place == queue.Gated {
		Eventually(plugins.askedToAdmit).WithArguments(c.pod.Name).WithContext(ctx).Should(Equal([]int{0, 1}))
		return
	}
	Eventually(func() []int {
		seen := plugins.seen(c.pod.Name)
		return seen[len(seen)-1].generations
	}).WithContext(ctx).Should(Equal([]int{1}))
}

// end checks the outcome of the pod, and that nothing is left.
func (c *cell) end(ctx context.Context, generation int) {
	GinkgoHelper()
	ExpectBound(ctx, c.pod)
	Eventually(func() []string {
		seen := plugins.seen(c.pod.Name)
		return seen[len(seen)-1].points
	}).WithContext(ctx).Should(ContainElement("PostBind"))
	seen := plugins.seen(c.pod.Name)
	for i, attempt := range seen {
		Expect(attempt.generations).To(HaveLen(1), "attempt %d saw %v", i, attempt)
		Expect(slices.Contains(attempt.points, "PostBind")).To(Equal(i == len(seen)-1), "attempt %d", i)
	}
	Expect(seen[len(seen)-1].generations).To(Equal([]int{generation}))
	if c.moment.underWay {
		// The first attempts may have preceded the event of the volume or the device.
		Expect(seen).To(HaveLen(c.attempts), "a pod that is under way is not taken a second time")
	}
	Eventually(bound.Of).WithArguments(c.pod.UID).WithContext(ctx).Should(Equal(1), "it is bound once")
	Expect(plugins.of(c.name)[0].handle.GetWaitingPod(c.pod.UID)).To(BeNil())

	want := int64(3000)
	for range c.others {
		want += 1000
	}
	Eventually(func(g Gomega) {
		g.Expect(requested(c.node.Name)).To(Equal(want), "the used room of the node is that of its pods")
		g.Expect(run.Parts().Cache.Dump().AssumedPods.Has(c.pod.UID)).To(BeFalse())
		_, known := run.Parts().Queue.Get(c.pod.UID)
		g.Expect(known).To(BeFalse())
	}).WithContext(ctx).Should(Succeed())

	remove(ctx, Profile(c.other(), ""))
	remove(ctx, Profile(c.name, ""))
	for _, h := range plugins.of(c.name) {
		Eventually(h.closes.Load).WithContext(ctx).Should(Equal(int32(1)), "generation %d is closed, once",
			h.generation)
		Expect(h.ctx.Err()).To(HaveOccurred())
	}
}

var _ = Describe("The matrix of reloads:", Ordered, ContinueOnFailure, func() {
	var before footprint

	BeforeAll(func(ctx context.Context) {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: important}, Value: 1000}
		create(ctx, class, Policy("bystander", ""), Profile(bystander, holderEverywhere+"policyRef: {name: bystander}"))
		createNode(ctx, spare)
		probe := podOn(spare, "probe", bystander, "1m")
		probe.Spec.PriorityClassName = important
		Eventually(func() error { return k8s.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
			Should(Succeed())
		ExpectProgrammed(ctx, bystander)
		create(ctx, probe)
		ExpectBound(ctx, probe)
		before = takeFootprint()
	})

	number := 0
	for _, m := range moments {
		for _, ch := range changes {
			number++
			c := &cell{moment: m, change: ch, name: fmt.Sprintf("%s%d", seriesPrefix, number)}
			It(fmt.Sprintf("while a pod %s, its profile %s", m.name, ch.name), func(ctx context.Context) {
				c.begin(ctx)
				c.end(ctx, c.run(ctx))
			})
		}
	}

	It("leaves the numbers of generations, handlers, goroutines and metric series unchanged",
		func(ctx context.Context) {
			Eventually(func(g Gomega) {
				now := takeFootprint()
				g.Expect(now.generations).To(Equal(before.generations))
				g.Expect(now.handlers).To(Equal(before.handlers))
				g.Expect(now.series).To(Equal(before.series))
				g.Expect(now.goroutines).To(BeNumerically("<=", before.goroutines+number/2), "of %d specs", number)
				g.Expect(run.Parts().Queue.Counts()).To(Equal(queue.Counts{}))
			}).WithContext(ctx).Should(Succeed())
		})
})
