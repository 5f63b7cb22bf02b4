// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/test/testcluster"
)

// oracle names a kube-scheduler program. Where it is set, the specs that begin with startDefault,
// startProfiles, startExtended, stage or wakers have kube-scheduler schedule in the place of
// livesched, so that what they say of kube-scheduler can be checked.
const oracle = testcluster.KubeSchedulerEnv

// startDefault has pods that ask for the scheduler "mine" scheduled by the default plugins until
// the end of the spec.
func startDefault(ctx context.Context) {
	GinkgoHelper()
	startProfiles(ctx, map[string]string{"mine": ""})
}

// startProfiles has pods scheduled by profiles until the end of the spec: specs in YAML by
// scheduler name.
func startProfiles(ctx context.Context, profiles map[string]string) {
	GinkgoHelper()
	if program := os.Getenv(oracle); program != "" {
		startOracle(program, testcluster.KubeScheduler{Profiles: profiles})
		return
	}
	start()
	for name, spec := range profiles {
		create(ctx, profile(name, spec))
	}
	for name := range profiles {
		expectProgrammed(ctx, name)
	}
}

// startExtended is startDefault with extenders, in YAML.
func startExtended(ctx context.Context, extenders string) {
	GinkgoHelper()
	if program := os.Getenv(oracle); program != "" {
		startOracle(program, testcluster.KubeScheduler{Profiles: map[string]string{"mine": ""}, Extenders: extenders})
		return
	}
	start()
	create(ctx, policy("default", "{podInitialBackoff: 1ms, podMaxBackoff: 1ms, extenders: "+extenders+"}"))
	createProfile(ctx, "mine", "")
}

// startOracle runs kube-scheduler until the end of the spec.
func startOracle(program string, configuration testcluster.KubeScheduler) {
	GinkgoHelper()
	stop, err := cluster.StartKubeScheduler(program, GinkgoT().TempDir(), configuration, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
}
