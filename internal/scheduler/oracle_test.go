// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// oracle names a kube-scheduler program. Where it is set, the specs that begin with startDefault have kube-scheduler
// schedule in the place of livesched, so that what they say of kube-scheduler can be checked.
const oracle = "LIVESCHED_TEST_KUBE_SCHEDULER"

// startDefault has pods that ask for the scheduler "mine" scheduled by the default plugins until the end of the spec.
func startDefault(ctx context.Context) {
	GinkgoHelper()
	if program := os.Getenv(oracle); program != "" {
		startOracle(program, "")
		return
	}
	start()
	createProfile(ctx, "mine", "")
}

// startExtended is startDefault with extenders, in YAML.
func startExtended(ctx context.Context, extenders string) {
	GinkgoHelper()
	if program := os.Getenv(oracle); program != "" {
		startOracle(program, "extenders: "+extenders)
		return
	}
	start()
	create(ctx, policy("default", "{podInitialBackoff: 1ms, podMaxBackoff: 1ms, extenders: "+extenders+"}"))
	createProfile(ctx, "mine", "")
}

// startOracle runs kube-scheduler with one more line of configuration.
func startOracle(program, more string) {
	GinkgoHelper()
	configuration := filepath.Join(GinkgoT().TempDir(), "configuration.yaml")
	Expect(os.WriteFile(configuration, fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
profiles: [{schedulerName: mine}]
%s
`, cluster.Kubeconfig(), more), 0o600)).To(Succeed())
	command := exec.Command(program, "--config="+configuration, "--secure-port=0")
	command.Stderr = GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Kill()).To(Succeed())
		Expect(command.Wait()).To(MatchError(ContainSubstring("killed")))
	})
}
