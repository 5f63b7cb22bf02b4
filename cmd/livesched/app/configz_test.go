// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("/configz", func() {
	It("shows the active configuration in kube-scheduler's format, and follows each reload", func(ctx context.Context) {
		o := testcluster.Options()
		o.MetricsBindAddress = freeAddress()
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
		url := "http://" + o.MetricsBindAddress + "/configz"

		policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		policy.Spec.Parallelism = ptr.To[int32](3)
		policy.Spec.PodMaxInUnschedulablePods = &metav1.Duration{Duration: 7 * time.Minute}
		mine := profile("mine")
		mine.Spec.PercentageOfNodesToScore = ptr.To[int32](40)
		mine.Spec.Plugins = &v1alpha1.Plugins{
			Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "ImageLocality", Weight: ptr.To[int32](11)}}}}
		create(ctx, policy, mine)

		var revision string
		Eventually(func(g Gomega) {
			c, livesched := readConfigz(ctx, g, url)
			g.Expect(c.Profiles).To(HaveLen(1))
			g.Expect(c.Profiles[0].SchedulerName).To(Equal("mine"))
			g.Expect(*c.Profiles[0].PercentageOfNodesToScore).To(Equal(int32(40)))
			g.Expect(c.Profiles[0].Plugins.Score.Enabled).
				To(ConsistOf(schedconfig.Plugin{Name: "ImageLocality", Weight: 11}))
			g.Expect(c.Parallelism).To(Equal(int32(3)))
			g.Expect(livesched.Profiles).To(HaveLen(1))
			g.Expect(livesched.Profiles[0].PodMaxInUnschedulablePods.Duration).To(Equal(7 * time.Minute))
			revision = livesched.Profiles[0].Revision
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(mine), mine)).To(Succeed())
			g.Expect(mine.Status.Active).NotTo(BeNil())
			g.Expect(mine.Status.Active.Revision).To(Equal(revision))
		}).WithContext(ctx).Should(Succeed())

		mine.Spec.Plugins.Score.Enabled[0].Weight = ptr.To[int32](13)
		Expect(k8s.Update(ctx, mine)).To(Succeed())
		Eventually(func(g Gomega) {
			// livesched writes the status after the swap, so /configz shows what the status names.
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(mine), mine)).To(Succeed())
			g.Expect(mine.Status.Active.Generation).To(Equal(mine.Generation))
		}).WithContext(ctx).Should(Succeed())
		c, livesched := readConfigz(ctx, Default, url)
		Expect(c.Profiles[0].Plugins.Score.Enabled).To(ConsistOf(schedconfig.Plugin{Name: "ImageLocality", Weight: 13}))
		Expect(livesched.Profiles[0].Revision).To(And(Equal(mine.Status.Active.Revision), Not(Equal(revision))))
		Expect(livesched.Profiles[0].Generation).To(Equal(mine.Generation))
	})
})

// runningProfiles has the settings that kube-scheduler's format does not have.
type runningProfiles struct {
	Profiles []struct {
		SchedulerName, Revision   string
		Generation                int64
		PodMaxInUnschedulablePods metav1.Duration
	}
}

// readConfigz decodes and validates the configuration strictly, as kube-scheduler does with its
// file.
func readConfigz(ctx context.Context, g Gomega, url string) (*schedconfig.KubeSchedulerConfiguration, runningProfiles) {
	a := get(ctx, url)
	g.Expect(a.Code).To(Equal(http.StatusOK), a.Body)
	var shown struct {
		ComponentConfig json.RawMessage
		Livesched       runningProfiles
	}
	g.Expect(json.Unmarshal([]byte(a.Body), &shown)).To(Succeed())
	object, gvk, err := scheme.Codecs.UniversalDecoder().Decode(shown.ComponentConfig, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*gvk).To(Equal(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration")))
	c, ok := object.(*schedconfig.KubeSchedulerConfiguration)
	g.Expect(ok).To(BeTrue())
	c.APIVersion = gvk.GroupVersion().String()
	g.Expect(validation.ValidateKubeSchedulerConfiguration(c)).To(Succeed())
	return c, shown.Livesched
}
