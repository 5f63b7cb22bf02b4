// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/test/controlplane/process"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("livesched in a process of its own, beside hostile extenders", func() {
	It("does not grow", func(ctx context.Context) {
		if os.Getenv(Oracle) != "" {
			Skip("kube-scheduler trusts its extenders")
		}
		CreateNodes(ctx, "n1", "n2")
		livesched := startProcess(ctx)
		Create(ctx, Policy("default", `{podInitialBackoff: 1ms, podMaxBackoff: 1ms}`),
			Policy("hostile", hostilePolicy("http://127.0.0.1:1", time.Second)))
		CreateProfile(ctx, "others", "")
		CreateProfile(ctx, "mine", "policyRef: {name: hostile}")
		for i := range 20 {
			CreatePod(ctx, "mine", fmt.Sprint("needs-", i), CPU("1m"))
		}
		latencies(ctx, "before", hostilePods(), func(string) {})
		GinkgoWriter.Printf("RSS before: %d MiB\n", residentOf(livesched))
		rounds := 2
		if os.Getenv(hostilePodsVariable) != "" {
			rounds = 5
		}
		var sizes []int
		for round := range rounds {
			for _, extender := range []struct {
				name    string
				answer  http.HandlerFunc
				timeout time.Duration
			}{
				{"hangs", hang, 100 * time.Millisecond},
				{"drips", drip, 100 * time.Millisecond},
				{"floods", flood, 5 * time.Second},
			} {
				url, requests := hostile(extender.answer)
				Repolicy(ctx, "hostile", hostilePolicy(url, extender.timeout))
				Eventually(requests.Load).Should(BeNumerically(">", 1))
				latencies(ctx, fmt.Sprintf("%s-%d", extender.name, round), hostilePods(), func(string) {})
			}
			sizes = append(sizes, residentOf(livesched))
			GinkgoWriter.Printf("RSS after round %d: %d MiB\n", round+1, sizes[round])
		}
		Expect(livesched.Err()).NotTo(HaveOccurred(), "it runs")
		Expect(sizes[rounds-1]).To(BeNumerically("<", sizes[0]+100))
	})
})

func hostilePolicy(url string, timeout time.Duration) string {
	return fmt.Sprintf("{podInitialBackoff: 1ms, podMaxBackoff: 1s, extenders: [{urlPrefix: %q, filterVerb: filter, "+
		"httpTimeout: %v}]}", url, timeout)
}

// startProcess starts a livesched that ends with the spec, and waits until it is ready.
func startProcess(ctx context.Context) *process.Process {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err := process.Start(process.Config{
		Name: "livesched", Path: self, LogFile: filepath.Join(GinkgoT().TempDir(),
			"livesched.log"), Env: []string{asCommand + "=1"},
		Args: []string{
			"--kubeconfig=" + Cluster.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--health-probe-bind-address=" + probes, "--extender-allowed-hosts=off",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Kill)
	Eventually(func(g Gomega) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz", nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response).To(HaveHTTPStatus(http.StatusOK))
	}).WithContext(ctx).Should(Succeed())
	return p
}

// residentOf returns the resident set of a process in MiB, 0 where there is no /proc.
func residentOf(p *process.Process) int {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if os.IsNotExist(err) {
		return 0
	}
	Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	Expect(found).NotTo(BeNil(), "VmRSS of the process")
	kilobytes, err := strconv.Atoi(string(found[1]))
	Expect(err).NotTo(HaveOccurred())
	return kilobytes >> 10
}
