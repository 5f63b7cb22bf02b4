// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// profileSeries counts the metric series of scheduler names that begin with a prefix.
func profileSeries(prefix string) int {
	GinkgoHelper()
	return len(profileValues(prefix))
}

// profileValues are the values of the metrics of profiles whose names begin with a prefix. A
// histogram's is its count.
func profileValues(prefix string) map[string]float64 {
	GinkgoHelper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "profile" && strings.HasPrefix(label.GetValue(), prefix) {
					values[fmt.Sprint(family.GetName(), metric.GetLabel())] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return values
}

var _ = Describe("Profiles that come and go", func() {
	It("rule 7: leave the number of goroutines, handlers and metric series where it was", func(ctx context.Context) {
		s := &script{}
		s.perform(func(a *acts) {
			a.build = func(a *actor) error {
				_, err := a.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				go func() { <-a.ctx.Done() }() // plugins may have goroutines that end with their context
				return err
			}
		})
		run := start(s.register)
		nodes(ctx, "n1")
		// The first one starts what stays: informers, connections, series without a profile's name.
		comeAndGo := func(name string) {
			createProfile(ctx, name, "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
			pod := createPod(ctx, name, "pod")
			expectBound(ctx, pod)
			tooBig := createPod(ctx, name, "too-big", cpu("100"))
			expectUnscheduled(ctx, tooBig, "Unschedulable", HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			Expect(profileSeries(name)).To(BeNumerically(">", 10))
			Expect(k8s.Delete(ctx, profile(name, ""))).To(Succeed())
			expectEvent(ctx, tooBig, "FailedScheduling", ContainSubstring("is gone"))
			for _, pod := range []client.Object{pod, tooBig} {
				Expect(k8s.Delete(ctx, pod)).To(Succeed())
			}
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		}
		comeAndGo("leak-first")
		Eventually(profileSeries).WithArguments("leak-").Should(BeZero())
		handlers, goroutines := run.Informers.Handlers(), runtime.NumGoroutine()

		const rounds = 25
		for i := range rounds {
			comeAndGo(fmt.Sprintf("leak-%d", i))
		}
		Eventually(profileSeries).WithArguments("leak-").Should(BeZero())
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		Eventually(runtime.NumGoroutine).WithTimeout(20 * time.Second).Should(BeNumerically("<", goroutines+rounds/2))
		for _, a := range s.actors() {
			Expect(a.closes.Load()).To(Equal(int32(1)))
		}
	})
})
