// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The endpoints", func() {
	It("report that livesched is alive but not ready until it can read pods and nodes", func(ctx context.Context) {
		const somebody = "somebody-without-rights"
		kubeconfig, err := cluster.KubeconfigAs(somebody, "system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		c := livesched("--kubeconfig="+kubeconfig, "--leader-elect=false")
		Eventually(get).WithArguments(ctx, "http://"+c.probes+"/livez").Should(Equal(answer{http.StatusOK, "ok"}))
		Eventually(func() string { return c.output.String() }).Should(ContainSubstring("forbidden"))
		notReady := get(ctx, "http://"+c.probes+"/readyz")
		Expect(notReady.Code).To(Equal(http.StatusInternalServerError))
		Expect(notReady.Body).To(And(ContainSubstring("[-]handlers failed"), ContainSubstring("[-]profiles failed")))

		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "everything-for-somebody"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: somebody}},
		}
		create(ctx, binding)
		DeferCleanup(k8s.Delete, binding)
		c.expectReady(ctx)
		Expect(get(ctx, "http://"+c.probes+"/livez").Code).To(Equal(http.StatusOK))
	})

	It("report that livesched is not ready while existing profiles are being built", func(ctx context.Context) {
		slow := &slowFactory{called: make(chan struct{}), proceed: make(chan struct{})}
		o := testcluster.Options()
		o.HealthProbeBindAddress = freeAddress()
		o.OutOfTree = framework.Registry{"Slow": slow.build}
		mine := profile("mine")
		mine.Spec.Plugins = &v1alpha1.Plugins{PostBind: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "Slow"}}}}
		create(ctx, mine)
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })

		Eventually(slow.called).Should(BeClosed())
		ready := "http://" + o.HealthProbeBindAddress + "/readyz"
		notReady := get(ctx, ready)
		Expect(notReady.Code).To(Equal(http.StatusInternalServerError))
		Expect(notReady.Body).To(And(ContainSubstring("[+]handlers ok"), ContainSubstring("[-]profiles failed")))
		close(slow.proceed)
		Eventually(get).WithArguments(ctx, ready).Should(Equal(answer{http.StatusOK, "ok"}))
	})

	It("serve kube-scheduler's metrics, livesched's own and the manager's", func(ctx context.Context) {
		o := testcluster.Options()
		o.MetricsBindAddress = freeAddress()
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
		pod := objects.Pod("default", "p", "measured", "1", "1Gi")
		create(ctx, profile("measured"), objects.Node("n", "8", "16Gi", nil), pod)
		expectBound(ctx, pod)

		Eventually(func(g Gomega) {
			scraped := get(ctx, "http://"+o.MetricsBindAddress+"/metrics")
			g.Expect(scraped.Code).To(Equal(http.StatusOK))
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(scraped.Body))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.Collect(maps.Keys(families))).To(ContainElements(
				"scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds",
				"scheduler_pending_pods",
				"scheduler_cache_size", "scheduler_queue_incoming_pods_total",
				"scheduler_framework_extension_point_duration_seconds",
				"livesched_reloads_total", "livesched_reload_build_duration_seconds",
				"livesched_reload_swap_duration_seconds",
				"livesched_profiles", "livesched_profile_generations",
				"controller_runtime_reconcile_total", "workqueue_depth", "rest_client_requests_total",
				"go_goroutines", "process_cpu_seconds_total",
			))
			var profiles []string
			for _, m := range families["scheduler_schedule_attempts_total"].GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "profile" {
						profiles = append(profiles, l.GetValue())
					}
				}
			}
			g.Expect(profiles).To(ContainElement("measured"))
		}).Should(Succeed())
	})
})

// slowFactory builds a plugin after proceed is closed.
type slowFactory struct{ called, proceed chan struct{} }

func (f *slowFactory) build(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	close(f.called)
	select {
	case <-f.proceed:
		return slowPlugin{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type slowPlugin struct{}

func (slowPlugin) Name() string { return "Slow" }

func (slowPlugin) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {}
