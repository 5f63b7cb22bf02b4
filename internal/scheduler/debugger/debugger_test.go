// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

// debugged is a debugger of a world.
type debugged struct {
	*Debugger
	*WithT
	world *world
	clock *pausingClock
	lists atomic.Int32 // of nodes
	t     *testing.T

	mu  sync.Mutex // guards log
	log []string
}

func newDebugged(t *testing.T) *debugged {
	t.Helper()
	w := newWorld(t)
	d := &debugged{t: t, WithT: NewWithT(t), world: w,
		clock: &pausingClock{FakeClock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}}
	clientset := fake.NewClientset()
	clientset.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		d.lists.Add(1)
		list := &corev1.NodeList{}
		for _, node := range w.nodes {
			list.Items = append(list.Items, *node)
		}
		return true, list, nil
	})
	clientset.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.PodList{}
		for _, pod := range w.pods {
			list.Items = append(list.Items, *pod)
		}
		return true, list, nil
	})
	d.Debugger = &Debugger{
		Client:      clientset,
		Cache:       w.cache,
		Queue:       w.queue,
		WaitingPods: framework.NewWaitingPods(),
		Devices:     &devices.Managers{}, // without dynamic resource allocation
		Profiles:    profile.NewStore(),
		Leading:     &atomic.Bool{},
		Clock:       d.clock,
	}
	d.Leading.Store(true)
	instance := &profile.Instance{
		Config: &resolve.Profile{SchedulerName: served, Revision: "abc"}, Queue: &queue.ProfileSettings{},
		Built: d.clock.Now(),
	}
	// The world's queue already has its settings and pods.
	d.Profiles.Swap(quiet, profile.NewMap(map[string]*profile.Instance{served: instance}, ""),
		queue.New(queue.Config{}))
	return d
}

// logged returns a context with a logger whose lines d.log collects.
func (d *debugged) logged(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(prefix, args string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.log = append(d.log, prefix+" "+args)
	}, funcr.Options{}))
}

// lines returns the lines of the log that begin with a message, without it.
func (d *debugged) lines(message string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, line := range d.log {
		if _, rest, ok := strings.Cut(line, fmt.Sprintf(`"msg"=%q `, message)); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// pausingClock counts pauses. The timer that bounds the reading of the queue does not count, though
// the clock treats it as a waiter as well.
type pausingClock struct {
	*clocktesting.FakeClock
	pauses atomic.Int32
}

func (c *pausingClock) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	c.pauses.Add(1) // from here on a step ends it
	return over
}

// pauses returns once the debugger has compared for the first time and waits.
func (d *debugged) pauses() {
	d.t.Helper()
	d.Eventually(d.clock.pauses.Load).Should(Equal(int32(1)))
	d.Expect(d.lists.Load()).To(Equal(int32(1)))
}

// reportDifferences makes a report that compares twice.
func (d *debugged) reportDifferences() {
	d.t.Helper()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		d.Report(d.logged(d.t.Context()))
	}()
	d.pauses()
	d.clock.Step(settle)
	d.Eventually(reported).Should(BeClosed())
}

func TestCompareWithoutDifferencesReadsOnce(t *testing.T) {
	d := newDebugged(t)
	d.Expect(d.Compare(t.Context())).To(BeEmpty())
	d.Expect(d.lists.Load()).To(Equal(int32(1)))
}

func TestDifferenceIsReportedOnlyIfItLasts(t *testing.T) {
	d := newDebugged(t)
	d.world.nodes["new"], d.world.nodes["lost"] = newNode("new"), newNode("lost")
	type result struct {
		found []Difference
		err   error
	}
	results := make(chan result, 1)
	go func() {
		found, err := d.Compare(t.Context())
		results <- result{found, err}
	}()
	d.pauses()
	d.world.cache.AddNode(quiet, d.world.nodes["new"])
	d.Consistently(results).WithTimeout(50 * time.Millisecond).ShouldNot(Receive())
	d.clock.Step(settle)
	var r result
	d.Eventually(results).Should(Receive(&r))
	d.Expect(r.err).NotTo(HaveOccurred())
	d.Expect(r.found).
		To(Equal([]Difference{
			{Kind: NodeMissing, Object: "lost", Detail: "the API server has the node, the cache has not"}}))
	d.Expect(d.lists.Load()).To(Equal(int32(2)))
}

func TestCompareReadsTheClaims(t *testing.T) {
	d := newDebugged(t)
	claims, err := fixed.NewSource([]client.Object{newClaim("both"), newClaim("mine")})
	d.Expect(err).NotTo(HaveOccurred())
	scope := claims.NewScope()
	t.Cleanup(scope.Close)
	d.Devices, err = devices.NewManagers(t.Context(), d.Client, scope)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(d.Devices.AddEventHandlers(func(fwk.EventResource) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{}
	})).To(Succeed())
	d.Expect(scope.WaitForSync(t.Context())).To(Succeed())
	d.Eventually(d.Devices.Allocations).Should(HaveLen(2))
	lists := func(err error) {
		d.Client.(*fake.Clientset).PrependReactor("list", "resourceclaims",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &resourcev1.ResourceClaimList{
					Items: []resourcev1.ResourceClaim{*newClaim("both"), *newClaim("theirs")}}, err
			})
	}
	lists(nil)
	d.reportDifferences()
	d.Expect(d.lines("The API server has something else")).To(Equal([]string{
		`"kind"="DeviceDiffers" "object"="driver/pool/mine" "detail"="claims that have it: 0 in the API server, 1 for plugins"`,
		`"kind"="DeviceDiffers" "object"="driver/pool/theirs" "detail"="claims that have it: 1 in the API server, 0 for plugins"`,
	}))
	forbidden := errors.New("you must not")
	lists(forbidden)
	_, err = d.Compare(t.Context())
	d.Expect(err).To(MatchError(forbidden))
	d.Expect(err).To(MatchError("listing resource claims: you must not"))
	lists(apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), "")) // they are not served
	d.Expect(d.compareOnce(t.Context())).To(ConsistOf(HaveField("Object", "driver/pool/both"),
		HaveField("Object", "driver/pool/mine")))
}

func TestCompareEndsWithItsContext(t *testing.T) {
	d := newDebugged(t)
	d.world.nodes["lost"] = newNode("lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := d.Compare(ctx)
		ended <- err
	}()
	d.pauses()
	enough := errors.New("enough")
	cancel(enough)
	d.Eventually(ended).Should(Receive(MatchError(enough)))
}

func TestCompareNamesTheKindThatCouldNotBeListed(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		d := newDebugged(t)
		forbidden := errors.New("you must not")
		d.Client.(*fake.Clientset).
			PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, forbidden
			})
		_, err := d.Compare(t.Context())
		d.Expect(err).To(MatchError(forbidden))
		d.Expect(err).To(MatchError("listing " + resource + ": you must not"))
		d.Report(d.logged(t.Context()))
		d.Expect(d.lines("Dump")).To(HaveLen(1), "the dump does not need the API server")
		d.Expect(d.lines("Comparing the cache with the API server failed")).
			To(HaveExactElements(ContainSubstring("you must not")))
	}
}

func TestReportHasTheStateOfTheScheduler(t *testing.T) {
	d := newDebugged(t)
	waiting := newPod("permitted", "n1")
	d.WaitingPods.Add(waiting, map[string]time.Duration{"P": time.Hour})
	defer d.WaitingPods.Reject(waiting.UID)
	d.Report(d.logged(t.Context()))

	d.Expect(d.lines("Dump")).
		To(Equal([]string{`"leading"=true "nodes"=2 "pods"=3 "assumed"=1 "active"=2 "backoff"=0 "errorBackoff"=1 ` +
			`"unschedulable"=0 "gated"=1 "inFlight"=1 "nominated"=2 "waitingOnPermit"=1`}))
	d.Expect(d.lines("Profile")).
		To(Equal([]string{`"schedulerName"="served" "revision"="abc" "canary"=false "built"="2026-01-01T00:00:00Z"`}))
	d.Expect(d.lines("Pod waiting on Permit")).
		To(Equal([]string{`"pod"={"name"="permitted" "namespace"="ns"} "uid"="permitted" "node"="n1" "plugins"=["P"]`}))
	d.Expect(d.lines("Node")).To(Equal([]string{
		`"node"="n1" "known"=true "requested"="cpu=200m memory=2Gi" "allocatable"="cpu=4 memory=8Gi" "pods"=2 ` +
			`"room"=110`,
		`"node"="n1" "has"="ns/bound ns/another"`,
		`"node"="n2" "known"=true "requested"="cpu=100m memory=1Gi" "allocatable"="cpu=4 memory=8Gi" "pods"=1 ` +
			`"room"=110`,
		`"node"="n2" "has"="ns/assumed*"`,
	}))
	d.Expect(d.lines("Queued pod")).To(HaveExactElements(
		And(ContainSubstring(`"name"="waiting"`), ContainSubstring(`"place"="Active" "attempts"=0 "since"="`)),
		ContainSubstring(`"name"="nominated"`),
		And(ContainSubstring(`"name"="failed"`), ContainSubstring(`"place"="ErrorBackoff" "attempts"=1 "since"="`),
			ContainSubstring(`"backoffEnd"="`)),
		And(ContainSubstring(`"name"="gated"`),
			ContainSubstring(`"unschedulablePlugins"="Gate" "gatingPlugin"="Gate"`)),
		Equal(`"pod"={"name"="flying" "namespace"="ns"} "uid"="flying" "schedulerName"="served" "place"="InFlight"`),
	))
	d.Expect(d.lines("Nominated pod")).To(Equal([]string{
		`"pod"={"name"="gated" "namespace"="ns"} "uid"="gated" "node"="n1" "requests"="cpu=100m memory=1Gi"`,
		`"pod"={"name"="nominated" "namespace"="ns"} "uid"="nominated" "node"="n1" "requests"="cpu=100m memory=1Gi"`,
	}))
	d.Expect(d.log[len(d.log)-1]).To(ContainSubstring("Cache, queue and devices match the API server"))
}

func TestReportHasTheDifferences(t *testing.T) {
	d := newDebugged(t)
	delete(d.world.pods, "bound")
	d.reportDifferences()
	d.Expect(d.lines("The API server has something else")).To(Equal([]string{
		`"kind"="PodRedundant" "object"="ns/bound" "detail"="the cache has it on node n1, the API server does not ` +
			`have it" "uid"="bound"`,
	}))
	d.Expect(d.lines("Cache, queue or devices differ from the API server")).To(Equal([]string{`"differences"=1`}))
}

func TestReportIsBounded(t *testing.T) {
	d := newDebugged(t)
	for i := range maxPodsPerLine {
		d.world.bind(fmt.Sprint("more-", i), "n1")
	}
	for i := range maxLines {
		d.world.enqueue(newPod(fmt.Sprint("queued-", i), ""))
	}
	d.Report(d.logged(t.Context()))
	d.Expect(d.lines("Node")).To(HaveLen(5), "the pods of n1 take two lines")
	d.Expect(d.lines("Queued pod")).To(HaveLen(maxLines))
	d.Expect(d.lines("Omitted further entries")).To(Equal([]string{`"what"="Queued pod" "omitted"=5`}))
	for _, line := range d.log {
		d.Expect(len(line)).To(BeNumerically("<", 8<<10))
	}
}

func TestReportIsWrittenWithoutAStuckQueue(t *testing.T) {
	d := newDebugged(t)
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		d.world.queue.Add(quiet, objects.Edited(newPod("hangs", ""), func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "hang"}}
		}))
	}()
	d.Eventually(d.world.gate.hanging).Should(BeClosed())
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		d.Report(d.logged(t.Context()))
	}()
	d.Eventually(d.clock.Waiters).Should(Equal(1))
	d.clock.Step(queueTimeout)
	d.Eventually(reported).Should(BeClosed())
	d.Expect(d.lines("Node")).To(HaveLen(4))
	d.Expect(d.lines("The queue is missing from the dump, and the cache is not compared with the API server")).
		To(HaveExactElements(
			ContainSubstring("has been locked for 10s: a plugin hangs")))
	d.Expect(d.lists.Load()).To(BeZero())
	close(d.world.gate.proceed)
	d.Eventually(stuck).Should(BeClosed())
}
