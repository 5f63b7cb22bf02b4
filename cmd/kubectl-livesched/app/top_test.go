// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certutil "k8s.io/client-go/util/cert"

	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("top", func() {
	It("prints one frame without a terminal, with what may be read", func(ctx context.Context) {
		certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
		port, err := process.FreePort()
		Expect(err).NotTo(HaveOccurred())
		startLivesched(ctx, func(o *liveschedapp.Options) {
			o.Secure.Port, o.Secure.CertFile, o.Secure.KeyFile = port, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		})
		p := profile("good")
		create(ctx, p, objects.Pod("default", "stuck-0", "good", "1", "1Gi"), objects.Pod("default", "stuck-1", "good", "1", "1Gi"))
		expectProgrammed(ctx, p)
		flags := []string{"top", "--livesched-url", fmt.Sprintf("https://127.0.0.1:%d", port), "--livesched-ca", filepath.Join(dir, "tls.crt")}
		Eventually(func(g Gomega) {
			got := kubectl(ctx, flags...)
			g.Expect(got.code).To(BeZero(), got.errOut)
			g.Expect(got.out).To(HavePrefix("livesched  "))
			g.Expect(got.out).NotTo(ContainSubstring("decisions: "))
			g.Expect(columns(got.out, "good")).To(HaveLen(8))
			g.Expect(columns(got.out, "default/stuck-*")).To(HaveExactElements("default/stuck-*", "2", "Unschedulable", "1", Not(BeEmpty()), "good"))
		}).WithContext(ctx).Should(Succeed())

		By("showing profiles where decisions cannot be read")
		got := kubectl(ctx, "top", "--once", "--livesched-url=https://127.0.0.1:1")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(ContainSubstring("decisions: "))
		Expect(columns(got.out, "good")).NotTo(BeEmpty())

		By("failing where nothing can be read")
		got = kubectl(ctx, "top", "--server=https://127.0.0.1:1", "--livesched-url=https://127.0.0.1:1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("profiles: "))
		Expect(kubectl(ctx, "top", "--interval=10ms").errOut).To(ContainSubstring("--interval: must be at least 1s"))
	})
})
