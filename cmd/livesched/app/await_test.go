// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/objects"
)

// waiting and answered are the log lines at the beginning and at the end of an outage.
const (
	waiting  = "Waiting for the API server"
	answered = "The API server answers"
)

var _ = Describe("A start during an outage", func() {
	DescribeTable("is alive and not ready", func(ctx context.Context, words string, kubeconfig func() string) {
		c := livesched("--kubeconfig="+kubeconfig(), "--leader-elect=false")
		Eventually(get).WithArguments(ctx, "http://"+c.probes+"/readyz").Should(And(
			HaveField("Code", http.StatusInternalServerError), HaveField("Body", ContainSubstring(words))),
			c.output.String)
		Expect(get(ctx, "http://"+c.probes+"/livez").Code).To(Equal(http.StatusOK), "restarting would not help")
		Expect(c.output.String()).To(And(ContainSubstring(waiting), ContainSubstring(words)))
		// The race detector delays the end by a second, after which it counts as hanging: so the
		// exit code is not always 0.
		Expect(c.terminate()).To(BeNumerically("<", tolerated), c.output.String())
	},
		Entry("without an API server", "connection refused",
			func() string { return kubeconfigFor(cluster.Kubeconfig(), freeAddress()) }),
		Entry("with credentials that the API server rejects", "Unauthorized", unknownUser),
	)

	It("schedules when the API server can be reached", func(ctx context.Context) {
		p := newProxy()
		refused, mend := cut(p)
		pod := objects.Pod("default", "pod", "mine", "1", "1Gi")
		create(ctx, profile("mine"), objects.Node("n", "4", "16Gi", nil), pod)
		c := livesched("--kubeconfig="+kubeconfigFor(cluster.Kubeconfig(), p.Address()),
			"--leader-election-namespace=default")
		Eventually(refused.Load).Should(BeNumerically(">", 3), "it retries")
		mend()
		expectBound(ctx, pod)
		c.expectReady(ctx)
		Expect(strings.Count(c.output.String(), waiting)).To(Equal(1))
		Expect(strings.Count(c.output.String(), answered)).To(Equal(1))
	})

	It("waits when the API server stops answering before the first lists", func(ctx context.Context) {
		p := newProxy()
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfigFor(cluster.Kubeconfig(), p.Address()))
		Expect(err).NotTo(HaveOccurred())
		o := app.NewOptions()
		o.MetricsBindAddress, o.HealthProbeBindAddress, o.LeaderElect = "0", "0", false
		mgr, err := app.NewManager(config, o)
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.GetControllerOptions().CacheSyncTimeout).To(BeNumerically(">", 24*time.Hour),
			"by default, the manager gives up after two minutes")

		refused, mend := cut(p)
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(run) }()
		Eventually(refused.Load).Should(BeNumerically(">", 3), "it retries")
		Expect(ended).NotTo(Receive())
		mend()
		pod := objects.Pod("default", "pod", "mine", "1", "1Gi")
		create(ctx, profile("mine"), objects.Node("n", "4", "16Gi", nil), pod)
		expectBound(ctx, pod)
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
})
