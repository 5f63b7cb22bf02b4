// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	"github.com/livesched/livesched/test/dashboarddata"
	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("dashboard", func() {
	It("serves pages on this machine until it is interrupted", func(ctx context.Context) {
		livesched := startSecurely(ctx)
		p := profile("good")
		create(ctx, objects.Node("small", "500m", "16Gi", nil), p, objects.Pod("default", "stuck", "good", "1", "1Gi"))
		expectProgrammed(ctx, p)
		prometheus := httptest.NewServer(&dashboarddata.Prometheus{})
		DeferCleanup(prometheus.Close)
		running, interrupt := context.WithCancel(ctx)
		out, ended := io.Pipe()
		result := make(chan int, 1)
		go func() {
			defer func() { _ = ended.Close() }()
			args := append([]string{"--kubeconfig", cluster.Kubeconfig(), "dashboard", "--prometheus", prometheus.URL},
				livesched...)
			result <- app.Run(running, args,
				genericiooptions.IOStreams{In: strings.NewReader(""), Out: ended, ErrOut: GinkgoWriter}, openReplay)
		}()
		line, err := bufio.NewReader(out).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		address := strings.TrimSpace(line)
		Expect(address).To(HavePrefix("http://127.0.0.1:"))
		get := func(path string, change func(*http.Request)) (int, string) {
			GinkgoHelper()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			change(request)
			response, err := http.DefaultClient.Do(request)
			Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			Expect(err).NotTo(HaveOccurred())
			return response.StatusCode, string(body)
		}
		unchanged := func(*http.Request) {}
		Eventually(func(g Gomega) {
			_, kinds := get("parts/kinds", unchanged)
			g.Expect(kinds).To(ContainSubstring(`href="/pods/default/stuck"`))
			_, room := get("parts/room", unchanged)
			g.Expect(room).To(ContainSubstring("1"))
			_, profiles := get("parts/profiles", unchanged)
			g.Expect(profiles).To(ContainSubstring("good"))
			_, health := get("parts/health", unchanged)
			g.Expect(health).To(ContainSubstring("leader"))
		}).WithContext(ctx).Should(Succeed())
		_, days := get("parts/health?last=30d", unchanged)
		Expect(days).To(ContainSubstring("untilBound"))
		_, kinds := get("parts/kinds", unchanged)
		kind := regexp.MustCompile(`"/(kinds/default/[^"]+)"`).FindStringSubmatch(kinds)
		Expect(kind).To(HaveLen(2), kinds)
		_, pods := get(kind[1], unchanged)
		Expect(pods).To(ContainSubstring(`href="/pods/default/stuck"`))
		_, why := get("pods/default/stuck", unchanged)
		Expect(why).To(ContainSubstring("cpu"))
		code, _ := get("nodes/small", unchanged)
		Expect(code).To(Equal(http.StatusOK))
		other := profile("other")
		create(ctx, other)
		expectProgrammed(ctx, other)
		_, compared := get("compare?profile=good&with=other&pods=pending", unchanged)
		Expect(compared).To(And(ContainSubstring("1 pod of good decided again"), ContainSubstring("data-compared=")))
		_, decisions := get("decisions?namespace=default", unchanged)
		Expect(decisions).To(ContainSubstring("stuck"))

		By("refusing requests of other sites")
		code, body := get("", func(r *http.Request) { r.Host = "evil.example" })
		Expect(code).To(Equal(http.StatusForbidden), body)
		code, _ = get("", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		Expect(code).To(Equal(http.StatusForbidden))

		By("ending")
		interrupt()
		Eventually(result).WithContext(ctx).Should(Receive(BeZero()))
		_, err = http.DefaultClient.Get(address)
		Expect(err).To(HaveOccurred())
	})

	DescribeTable("refuses a Prometheus that it cannot ask", func(ctx context.Context, want string, args ...string) {
		var errOut bytes.Buffer
		args = append([]string{"--kubeconfig", cluster.Kubeconfig(), "dashboard"}, args...)
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: GinkgoWriter, ErrOut: &errOut}
		Expect(app.Run(ctx, args, streams, openReplay)).NotTo(BeZero())
		Expect(errOut.String()).To(And(ContainSubstring(want), Not(ContainSubstring("secret"))))
	},
		Entry("without a scheme", "--prometheus: must be a URL of Prometheus", "--prometheus", "prometheus:9090"),
		Entry("with a query", "--prometheus: must be a URL without a query", "--prometheus", "http://a/?token=secret"),
		Entry("with a token that is none", "no such file", "--prometheus", "https://a", "--prometheus-token-file",
			"/none"),
		Entry("that is not named", "have no effect without --prometheus", "--prometheus-token-file", "/none"),
	)
})
