// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"io"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A follower whose watch is late", func() {
	var late *lateWatch

	// replicas starts a leader, and a follower whose watch of some resources may be late.
	replicas := func(path string) (leader, follower *testcluster.Running) {
		late = &lateWatch{path: path}
		late.set(false)
		config := rest.CopyConfig(cluster.Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateTransport{late, next} })
		o := testcluster.Options()
		o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, "default", "late"
		run := func(config *rest.Config) *testcluster.Running {
			running, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, o)
			Expect(err).NotTo(HaveOccurred())
			return running
		}
		leader = run(cluster.Config)
		Eventually(leader.Elected()).Should(BeClosed())
		follower = run(config)
		DeferCleanup(func() {
			late.set(false)
			Expect(follower.Stop(tolerated)).To(Succeed())
		})
		Eventually(follower.Scheduler.Ready()).Should(BeClosed())
		return leader, follower
	}

	// takeOver stops the leader, and expects the follower to schedule nothing until it has received
	// what it missed.
	takeOver := func(ctx context.Context, leader, follower *testcluster.Running, waiting *corev1.Pod) {
		By("taking over")
		Expect(leader.Stop(tolerated)).To(Succeed())
		Eventually(follower.Elected()).Should(BeClosed())
		Eventually(func() float64 { return testutil.ToFloat64(metrics.CatchingUp) }).Should(Equal(1.0))
		Consistently(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(waiting), waiting)).To(Succeed())
			g.Expect(waiting.Spec.NodeName).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())

		By("receiving what it missed")
		late.set(false)
		Eventually(func() float64 { return testutil.ToFloat64(metrics.CatchingUp) }).Should(BeZero())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(waiting), waiting)).To(Succeed())
		Expect(waiting.Spec.NodeName).To(BeEmpty())
	}

	It("schedules only when it has the bindings of the last leader", func(ctx context.Context) {
		leader, follower := replicas("/api/v1/pods")

		By("binding a pod that the follower does not see, on a node that it sees")
		taint := corev1.Taint{Key: "not-yet", Effect: corev1.TaintEffectNoSchedule}
		node := objects.Node("n", "2", "16Gi", nil)
		node.Spec.Taints = []corev1.Taint{taint}
		waiting := objects.Pod("default", "waiting", "mine", "2", "1Gi")
		create(ctx, profile("mine"), node, waiting)
		expectPodScheduled(ctx, waiting, corev1.ConditionFalse)
		Eventually(func() int { return len(follower.Parts().Queue.Dump()) }).Should(Equal(1))
		late.set(true)
		unseen := objects.Pod("default", "unseen", "mine", "2", "1Gi")
		unseen.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
		create(ctx, unseen)
		expectBound(ctx, unseen)
		Expect(testcluster.Update(ctx, k8s, node, func(n *corev1.Node) { n.Spec.Taints = nil })).To(Succeed())

		takeOver(ctx, leader, follower, waiting)
		Expect(k8s.Delete(ctx, unseen, client.GracePeriodSeconds(0))).To(Succeed())
		expectBound(ctx, waiting)
	})

	It("schedules only when it has the devices that the last leader gave away", func(ctx context.Context) {
		leader, follower := replicas("/apis/resource.k8s.io/v1/resourceclaims")
		first, second := objects.DeviceClaim("first", "devices"), objects.DeviceClaim("second", "devices")
		createUntilEnd(ctx, objects.DeviceClass("devices"), objects.Device("only", "n"))
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil), first, second)
		DeferCleanup(func(ctx context.Context) {
			for _, claim := range []*resourcev1.ResourceClaim{first, second} {
				Expect(k8s.Delete(ctx, claim)).To(Succeed())
				// There is no controller that removes the finalizer.
				Expect(testcluster.Update(ctx, k8s, claim, func(c *resourcev1.ResourceClaim) { c.Finalizers = nil })).
					To(Succeed())
			}
		})
		scope := follower.Informers.NewScope()
		defer scope.Close()
		Eventually(scope.Resource().V1().ResourceClaims().Lister().List).WithArguments(labels.Everything()).
			Should(HaveLen(2))

		By("allocating the only device while the follower does not see it")
		late.set(true)
		unseen := objects.PodOf("mine", "unseen", objects.UsingDevices("first"))
		create(ctx, unseen)
		expectBound(ctx, unseen)
		waiting := objects.PodOf("mine", "waiting", objects.UsingDevices("second"))
		create(ctx, waiting)
		expectPodScheduled(ctx, waiting, corev1.ConditionFalse)

		takeOver(ctx, leader, follower, waiting)
		createUntilEnd(ctx, objects.Device("another", "n"))
		expectBound(ctx, waiting)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(second), second)).To(Succeed())
		Expect(second.Status.Allocation.Devices.Results).To(ConsistOf(HaveField("Device", "another")))
	})
})

var _ = Describe("A replica that cannot list the pods", func() {
	It("leaves the lease to others until it can", func() {
		listed := make(chan struct{})
		config := rest.CopyConfig(cluster.Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateLists{listed, next} })
		o := testcluster.Options()
		o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, "default", "unlisted"
		replica, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(replica.Stop(tolerated)).To(Succeed()) })
		Consistently(replica.Elected(), "3s").ShouldNot(BeClosed())
		close(listed)
		Eventually(replica.Elected()).Should(BeClosed())
	})
})

// lateLists is a transport that does not list the pods until a channel is closed.
type lateLists struct {
	listed <-chan struct{}
	next   http.RoundTripper
}

func (t lateLists) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Path == "/api/v1/pods" {
		select {
		case <-t.listed:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return t.next.RoundTrip(request)
}

// lateWatch holds back the events of some resources for a while. All of its transports share it.
type lateWatch struct {
	// path is the URL path of the resources.
	path string

	mu sync.Mutex // guards in
	// in is closed when events are not held back.
	in chan struct{}
}

// set sets whether events are held back.
func (l *lateWatch) set(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late || l.in == nil {
		l.in = make(chan struct{})
	}
	if !late {
		select {
		case <-l.in:
		default:
			close(l.in)
		}
	}
}

func (l *lateWatch) arrived() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.in
}

// lateTransport is the transport of one client.
type lateTransport struct {
	watch *lateWatch
	next  http.RoundTripper
}

func (t lateTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && request.URL.Path == t.watch.path && request.URL.Query().Get("watch") != "" {
		response.Body = &lateBody{ReadCloser: response.Body, watch: t.watch, ctx: request.Context()}
	}
	return response, err
}

// lateBody is the body of a watch.
type lateBody struct {
	io.ReadCloser
	watch *lateWatch
	ctx   context.Context
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.watch.arrived():
	case <-b.ctx.Done():
	}
	return n, err
}
