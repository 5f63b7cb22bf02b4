// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// defaultCases is the number of cases of a run if the environment does not set one.
const defaultCases = 80

// The seed alone determines a case, however long the run is. docs/development.md describes the two
// variables.
const (
	casesVariable = "LIVESCHED_TEST_DIFFERENTIAL_CASES"
	seedVariable  = "LIVESCHED_TEST_DIFFERENTIAL_SEED"
)

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// size draws the size of a cluster: mostly small, where much happens to each node, and sometimes
// large.
func (c *contest) size() (nodes, podsPerNode int) {
	podsPerNode = 1 + c.IntN(9)
	if c.crowded {
		podsPerNode = 12 + c.IntN(12)
	}
	switch kind := c.IntN(100); {
	case c.sampled && kind < 60:
		return 110 + c.IntN(90), podsPerNode / 3
	case kind < 60:
		return 10 + c.IntN(30), podsPerNode
	case kind < 96:
		return 40 + c.IntN(60), podsPerNode
	default:
		return 100 + c.IntN(401), min(podsPerNode, 10)
	}
}

func TestLiveschedMatchesKubeScheduler(t *testing.T) {
	p := playCases(t, defaultCases, (*contest).play)
	if !p.enough {
		return
	}
	for _, kind := range []string{
		"placed", "ties", "unplaced", "refusedByPreFilter", "preemptions", "nominated", "cleared", "violations",
		"events",
	} {
		if p.total[kind] < int(p.cases)/10 {
			t.Errorf("the cases hardly show anything of the kind %q: %d in %d cases", kind, p.total[kind], p.cases)
		}
	}
}

// played is what the cases of a test have shown.
type played struct {
	total counts
	cases uint64
	// enough means that none failed, and that there were as many as usual: all kinds of things must
	// have happened.
	enough bool
}

// playCases plays the cases with some seeds: usual ones if the environment sets no number.
func playCases(t *testing.T, usual uint64, play func(*contest)) played {
	t.Helper()
	first, cases := number(t, seedVariable, 0), usual
	if first > 0 {
		cases = 1
	}
	first, cases = max(first, 1), number(t, casesVariable, cases)
	began, total := time.Now(), counts{}
	var mu sync.Mutex // guards total
	t.Run("cases", func(t *testing.T) {
		for seed := first; seed < first+cases; seed++ {
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				t.Parallel()
				c := newContest(t, seed)
				defer c.close()
				play(c)
				mu.Lock()
				defer mu.Unlock()
				total.add(c.count)
			})
		}
	})
	t.Logf("seeds %d to %d, %s:%s", first, first+cases-1, time.Since(began).Round(time.Second), total)
	return played{total: total, cases: cases, enough: cases >= usual && !t.Failed()}
}

// mustShow fails if enough cases show nothing of a kind.
func (p *played) mustShow(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if p.enough && p.total[kind] == 0 {
			t.Errorf("the cases show nothing of the kind %q", kind)
		}
	}
}

// TestVolumesOfLaterVersions has the feature gates for volumes that are on by default in Kubernetes
// 1.37.
func TestVolumesOfLaterVersions(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.StorageCapacityScoring: true, kubefeatures.VolumeLimitScaling: true,
	})
	playCases(t, defaultCases/4, (*contest).play)
}

// play fills a cluster and makes both sides decide about pods in it, with or without events in
// between.
func (c *contest) play() {
	c.t.Helper()
	nodes, podsPerNode := c.size()
	c.fill(nodes, podsPerNode)
	lively := c.chance(60)
	for i := range 15 {
		c.at = fmt.Sprintf("pod %d", i)
		pod := c.newPod()
		if waiting, ok := anyOf(c, c.queued); ok && c.chance(30) {
			pod = waiting
		}
		pod = pod.DeepCopy()
		c.promote(pod)
		if c.chance(8) {
			pod.Status.NominatedNodeName = "node-gone"
			if node, ok := anyOf(c, c.nodes); ok && c.chance(90) {
				pod.Status.NominatedNodeName = node.Name
			}
			c.count["cameNominated"]++
		}
		c.put(pod)
		got := c.decide(pod)
		if c.parted {
			return
		}
		c.afterwards(pod, got)
		for lively && c.chance(75) {
			c.happen()
		}
	}
}

func TestKubeSchedulerBatchesNoPodsUnderTheDefaultProfile(t *testing.T) {
	// docs/compare/kube-scheduler.md explains why livesched does not need batching.
	ctx := klog.NewContext(t.Context(), logr.Discard())
	spread := func(constraints *configv1.PodTopologySpreadArgs) *sidebyside.Configuration {
		return &sidebyside.Configuration{Parallelism: 1, Profile: configv1.KubeSchedulerProfile{
			SchedulerName: ptr.To(schedulerName),
			PluginConfig:  []configv1.PluginConfig{args("PodTopologySpread", constraints)},
		}}
	}
	plain := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: schedulerName}}
	for _, test := range []struct {
		name          string
		configuration *sidebyside.Configuration
		signed        bool
	}{
		{"the default profile", spread(&configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}),
			false},
		{"no default constraints", spread(&configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}),
			true},
	} {
		u, err := newUpstream(ctx, sidebyside.NewObjects(), test.configuration, 0)
		if err != nil {
			t.Fatal(err)
		}
		if signed := u.Framework.SignPod(ctx, plain) != nil; signed != test.signed {
			t.Errorf("%s: a plain pod is signed: %v", test.name, signed)
		}
	}
}
