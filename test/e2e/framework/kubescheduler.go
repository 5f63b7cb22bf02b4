// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// Oracle names the environment variable with the path of a kube-scheduler program. If it is set,
// the specs that begin with StartDefault, StartProfiles, StartExtended or Stage run kube-scheduler
// instead of livesched, which checks their expectations.
const Oracle = testcluster.KubeSchedulerEnv

// OracleGates are the feature gates of that kube-scheduler, which a suite may set.
var OracleGates string

// StartDefault runs a scheduler with the default plugins for the scheduler name "mine" until the
// end of the spec.
func StartDefault(ctx context.Context) {
	GinkgoHelper()
	StartProfiles(ctx, map[string]string{"mine": ""})
}

// StartProfiles runs a scheduler with profiles until the end of the spec. The profiles are specs in
// YAML by scheduler name.
func StartProfiles(ctx context.Context, profiles map[string]string) {
	GinkgoHelper()
	if program := os.Getenv(Oracle); program != "" {
		StartOracle(program, testcluster.KubeScheduler{Profiles: profiles, FeatureGates: OracleGates})
		return
	}
	Start()
	for name, spec := range profiles {
		Create(ctx, Profile(name, spec))
	}
	for name := range profiles {
		ExpectProgrammed(ctx, name)
	}
}

// StartExtended is StartDefault with extenders, in YAML.
func StartExtended(ctx context.Context, extenders string) {
	GinkgoHelper()
	if program := os.Getenv(Oracle); program != "" {
		StartOracle(program, testcluster.KubeScheduler{Profiles: map[string]string{"mine": ""}, Extenders: extenders})
		return
	}
	Start()
	Create(ctx, Policy("default", "{podInitialBackoff: 1ms, podMaxBackoff: 1ms, extenders: "+extenders+"}"))
	CreateProfile(ctx, "mine", "")
}

// StartOracle runs kube-scheduler until the end of the spec.
func StartOracle(program string, configuration testcluster.KubeScheduler) {
	GinkgoHelper()
	stop, err := Cluster.StartKubeScheduler(program, GinkgoT().TempDir(), configuration, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
}
