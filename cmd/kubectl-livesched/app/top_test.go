// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("top", func() {
	It("prints one frame without a terminal, with what may be read", func(ctx context.Context) {
		livesched := startSecurely(ctx)
		p := profile("good")
		create(ctx, objects.Node("small", "500m", "16Gi", nil), p,
			objects.Pod("default", "stuck-0", "good", "1", "1Gi"),
			objects.Pod("default", "stuck-1", "good", "1", "1Gi"))
		expectProgrammed(ctx, p)
		flags := append([]string{"top"}, livesched...)
		Eventually(func(g Gomega) {
			got := kubectl(ctx, flags...)
			g.Expect(got.code).To(BeZero(), got.errOut)
			g.Expect(got.out).To(HavePrefix("livesched  "))
			g.Expect(got.out).NotTo(ContainSubstring("decisions: "))
			g.Expect(columns(got.out, "good")).
				To(HaveExactElements("good", "True", "0", "0", "2", "0", Not(BeEmpty()), Not(BeEmpty())))
			g.Expect(columns(got.out, "default/stuck-*")).
				To(HaveExactElements("default/stuck-*", "2", "Unschedulable", "1", Not(BeEmpty()), "good"))
		}).WithContext(ctx).Should(Succeed())

		By("showing profiles where decisions cannot be read")
		got := kubectl(ctx, "top", "--once", "--livesched-url=https://127.0.0.1:1")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(ContainSubstring("\nqueues, decisions: https://127.0.0.1:1 cannot be reached"))
		Expect(got.out).To(ContainSubstring("  1 profiles  - pending  "))
		Expect(columns(got.out, "good")).
			To(HaveExactElements("good", "True", "-", "-", "-", "-", Not(BeEmpty()), Not(BeEmpty())))

		By("failing where nothing can be read")
		got = kubectl(ctx, "top", "--server=https://127.0.0.1:1", "--livesched-url=https://127.0.0.1:1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("profiles: "))
		Expect(kubectl(ctx, "top", "--interval=10ms").errOut).To(ContainSubstring("--interval: must be at least 1s"))
	})
})
