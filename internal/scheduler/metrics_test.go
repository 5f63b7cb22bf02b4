// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

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
)

// permitWaits is how many waits on Permit have ended with a status.
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
	It("are gone with it, and begin anew when it comes back", func(ctx context.Context) {
		run := start()
		create(ctx, quickRetries())
		nodes(ctx, "n1")
		live := func() (attempts, refused float64) {
			for name, value := range profileValues("measured-twice") {
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
			createProfile(ctx, "measured-twice", "")
			fits, huge := createPod(ctx, "measured-twice", "fits"), createPod(ctx, "measured-twice", "huge", cpu("100"))
			expectBound(ctx, fits)
			expectUnscheduled(ctx, huge, corev1.PodReasonUnschedulable, Not(BeEmpty()))
			Eventually(func(g Gomega) {
				attempts, refused := live()
				g.Expect(attempts).To(Equal(2.0))
				g.Expect(refused).To(Equal(1.0))
			}).Should(Succeed())
			Expect(k8s.Delete(ctx, profile("measured-twice", ""))).To(Succeed())
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
			Eventually(profileValues).WithArguments("measured-twice").Should(BeEmpty())
			for _, pod := range []*corev1.Pod{fits, huge} {
				Expect(k8s.Delete(ctx, pod)).To(Succeed())
			}
			Expect(profileValues("measured-twice")).To(BeEmpty(), "pods that are nobody's make none")
		}
	})

	It("tell errors from refusals, and allowed waits from refused ones", func(ctx context.Context) {
		s := &script{}
		var broken atomic.Bool
		s.perform(waits(10 * time.Minute))
		s.perform(func(a *acts) {
			a.filter = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "breaks-once" && broken.CompareAndSwap(false, true) {
					return fwk.AsStatus(errors.New("broken"))
				}
				return nil
			}
		})
		start(s.register)
		create(ctx, quickRetries())
		nodes(ctx, "n1")
		createProfile(ctx, "measured-outcomes", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		allowed, refused := permitWaits("Success"), permitWaits("Unschedulable")

		expectBound(ctx, createPod(ctx, "measured-outcomes", "breaks-once"))
		yes := createPod(ctx, "measured-outcomes", "yes", labelled("wait", "yes"))
		s.expectWaiting(ctx, yes).Allow(alpha)
		expectBound(ctx, yes)
		no := createPod(ctx, "measured-outcomes", "no", labelled("wait", "yes"))
		s.expectWaiting(ctx, no).Reject(alpha, "no")
		expectUnscheduled(ctx, no, corev1.PodReasonUnschedulable, ContainSubstring("no"))

		Expect(permitWaits("Success") - allowed).To(Equal(uint64(1)))
		Expect(permitWaits("Unschedulable") - refused).To(Equal(uint64(1)))
		attempts := func() map[string]float64 {
			results := map[string]float64{}
			for name, value := range profileValues("measured-outcomes") {
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
