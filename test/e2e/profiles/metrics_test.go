// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// permitWaits returns the number of waits on Permit that ended with a status.
func permitWaits(result string) uint64 {
	GinkgoHelper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "scheduler_permit_wait_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == result {
				return metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return 0
}

var _ = Describe("The metrics of a profile", func() {
	It("are deleted with it, and start anew when it is created again", func(ctx context.Context) {
		run := Start()
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		live := func() (attempts, refused float64) {
			for name, value := range ProfileValues("measured-twice") {
				switch {
				case strings.HasPrefix(name, "scheduler_schedule_attempts_total"):
					attempts += value
				case strings.HasPrefix(name, "scheduler_unschedulable_pods"):
					refused += value
				}
			}
			return attempts, refused
		}
		for range 2 {
			CreateProfile(ctx, "measured-twice", "")
			fits, huge := CreatePod(ctx, "measured-twice", "fits"), CreatePod(ctx, "measured-twice", "huge", CPU("100"))
			ExpectBound(ctx, fits)
			ExpectUnscheduled(ctx, huge, corev1.PodReasonUnschedulable, Not(BeEmpty()))
			Eventually(func(g Gomega) {
				attempts, refused := live()
				g.Expect(attempts).To(Equal(2.0))
				g.Expect(refused).To(Equal(1.0))
			}).Should(Succeed())
			Expect(K8s.Delete(ctx, Profile("measured-twice", ""))).To(Succeed())
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
			Eventually(ProfileValues).WithArguments("measured-twice").Should(BeEmpty())
			for _, pod := range []*corev1.Pod{fits, huge} {
				Expect(K8s.Delete(ctx, pod)).To(Succeed())
			}
			Expect(ProfileValues("measured-twice")).To(BeEmpty(), "pods without a profile create no series")
		}
	})

	It("distinguish errors from rejections, and allowed waits from rejected ones", func(ctx context.Context) {
		s := &Script{}
		var broken atomic.Bool
		s.Perform(WaitsOnPermit(10 * time.Minute))
		s.Perform(func(a *Acts) {
			a.Filter = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "breaks-once" && broken.CompareAndSwap(false, true) {
					return fwk.AsStatus(errors.New("broken"))
				}
				return nil
			}
		})
		Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "measured-outcomes", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		allowed, refused := permitWaits("Success"), permitWaits("Unschedulable")

		ExpectBound(ctx, CreatePod(ctx, "measured-outcomes", "breaks-once"))
		yes := CreatePod(ctx, "measured-outcomes", "yes", Labelled("wait", "yes"))
		s.ExpectWaiting(ctx, yes).Allow(Alpha)
		ExpectBound(ctx, yes)
		no := CreatePod(ctx, "measured-outcomes", "no", Labelled("wait", "yes"))
		s.ExpectWaiting(ctx, no).Reject(Alpha, "no")
		ExpectUnscheduled(ctx, no, corev1.PodReasonUnschedulable, ContainSubstring("no"))

		Expect(permitWaits("Success") - allowed).To(Equal(uint64(1)))
		Expect(permitWaits("Unschedulable") - refused).To(Equal(uint64(1)))
		attempts := func() map[string]float64 {
			results := map[string]float64{}
			for name, value := range ProfileValues("measured-outcomes") {
				if strings.HasPrefix(name, "scheduler_schedule_attempts_total") {
					for _, result := range []string{"scheduled", "unschedulable", "error"} {
						if strings.Contains(name, `"`+result+`"`) {
							results[result] = value
						}
					}
				}
			}
			return results
		}
		Eventually(attempts).Should(Equal(map[string]float64{"scheduled": 2, "unschedulable": 1, "error": 1}))
	})
})

var _ = Describe("The metric of the API server's version", func() {
	It("says that livesched is tested with it", func() {
		Start()
		Eventually(Counted).WithArguments("livesched_apiserver_version_info", "skew", "tested").Should(Equal(1.0))
	})
})
