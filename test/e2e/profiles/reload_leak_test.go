// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"fmt"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("Profiles that are created and deleted", func() {
	It("rule 7: leave the number of goroutines, handlers and metric series unchanged", func(ctx context.Context) {
		s := &Script{}
		s.Perform(func(a *Acts) {
			a.Build = func(a *Actor) error {
				_, err := a.Handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				go func() { <-a.Ctx.Done() }() // plugins may have goroutines that end with their context
				return err
			}
		})
		run := Start(s.Register)
		CreateNodes(ctx, "n1")
		// The first one starts things that stay: informers, connections, series without a profile's
		// name.
		comeAndGo := func(name string) {
			CreateProfile(ctx, name, "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
			pod := CreatePod(ctx, name, "pod")
			ExpectBound(ctx, pod)
			tooBig := CreatePod(ctx, name, "too-big", CPU("100"))
			ExpectUnscheduled(ctx, tooBig, "Unschedulable", HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			Expect(ProfileSeries(name)).To(BeNumerically(">", 10))
			Expect(K8s.Delete(ctx, Profile(name, ""))).To(Succeed())
			ExpectEvent(ctx, tooBig, "FailedScheduling", ContainSubstring("is gone"))
			for _, pod := range []client.Object{pod, tooBig} {
				Expect(K8s.Delete(ctx, pod)).To(Succeed())
			}
			Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		}
		comeAndGo("leak-first")
		Eventually(ProfileSeries).WithArguments("leak-").Should(BeZero())
		handlers, goroutines := run.Informers.Handlers(), runtime.NumGoroutine()

		const rounds = 25
		for i := range rounds {
			comeAndGo(fmt.Sprintf("leak-%d", i))
		}
		Eventually(ProfileSeries).WithArguments("leak-").Should(BeZero())
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		Eventually(runtime.NumGoroutine).WithTimeout(20 * time.Second).Should(BeNumerically("<", goroutines+rounds/2))
		for _, a := range s.Actors() {
			Expect(a.Closes.Load()).To(Equal(int32(1)))
		}
	})
})
