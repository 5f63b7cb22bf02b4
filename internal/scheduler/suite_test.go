// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/testcluster"
)

func TestScheduler(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Scheduler")
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
)

var _ = BeforeSuite(func(ctx context.Context) {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
}, NodeTimeout(2*time.Minute))

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})

var _ = Describe("livesched", func() {
	It("binds a pod", func(ctx context.Context) {
		run, err := cluster.Run(context.Background(), GinkgoLogr, testcluster.Options())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(10 * time.Second)).To(Succeed()) })
		Expect(k8s.Create(ctx, testcluster.Node("n1", "4", "8Gi", nil))).To(Succeed())
		Expect(k8s.Create(ctx, testcluster.Pod("default", "p1", "mine", "1", "1Gi"))).To(Succeed())
		Expect(k8s.Create(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})).To(Succeed())
		Eventually(func(g Gomega) {
			var pod corev1.Pod
			g.Expect(k8s.Get(ctx, types.NamespacedName{Namespace: "default", Name: "p1"}, &pod)).To(Succeed())
			g.Expect(pod.Spec.NodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
	})
})
