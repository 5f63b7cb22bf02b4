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
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A follower whose watch of pods is late", func() {
	It("schedules only when it has the bindings of the last leader", func(ctx context.Context) {
		late := &lateWatch{}
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
		leader := run(cluster.Config)
		Eventually(leader.Elected()).Should(BeClosed())
		follower := run(config)
		DeferCleanup(func() {
			late.set(false)
			Expect(follower.Stop(tolerated)).To(Succeed())
		})
		Eventually(follower.Scheduler.Ready()).Should(BeClosed())

		By("binding a pod that the follower does not see, on a node that it sees")
		taint := corev1.Taint{Key: "not-yet", Effect: corev1.TaintEffectNoSchedule}
		node := objects.Node("n", "2", "16Gi", nil)
		node.Spec.Taints = []corev1.Taint{taint}
		waiting := objects.Pod("default", "waiting", "mine", "2", "1Gi")
		create(ctx, profile("mine"), node, waiting)
		expectPodScheduled(ctx, waiting, corev1.ConditionFalse)
		Eventually(func() int { return len(follower.Scheduler.Queue().PendingPods()) }).Should(Equal(1))
		late.set(true)
		unseen := objects.Pod("default", "unseen", "mine", "2", "1Gi")
		unseen.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
		create(ctx, unseen)
		expectBound(ctx, unseen)
		Expect(testcluster.Update(ctx, k8s, node, func(n *corev1.Node) { n.Spec.Taints = nil })).To(Succeed())

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
		Expect(k8s.Delete(ctx, unseen, client.GracePeriodSeconds(0))).To(Succeed())
		expectBound(ctx, waiting)
	})
})

// lateWatch holds back the events of pods for a while. All of its transports share it.
type lateWatch struct {
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
	if err == nil && request.URL.Path == "/api/v1/pods" && request.URL.Query().Get("watch") != "" {
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
