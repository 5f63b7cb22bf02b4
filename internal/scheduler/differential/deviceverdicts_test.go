// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	metricstestutil "k8s.io/component-base/metrics/testutil"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestDeviceVerdictsAreKept: once the scheduler has seen a kind of claims, Filter of
// DynamicResources runs only on the nodes whose devices have changed, and on the chosen one.
func TestDeviceVerdictsAreKept(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false)
	calls := func() int {
		n, err := metricstestutil.GetCounterMetricValue(schedmetrics.PluginEvaluationTotal.WithLabelValues(
			dynamicresources.Name, schedmetrics.Filter, schedulerName))
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	const nodes, decisions = 120, 20
	for i := range deviceKinds {
		kind := &deviceKinds[i]
		t.Run(kind.name, func(t *testing.T) {
			c := newDeviceCluster(t, kind, "livesched", nodes)
			defer c.close()
			place := func() (asked int) {
				before := calls()
				c.place()
				c.leave()
				return calls() - before
			}
			if first := place(); first < 1 || first > nodes+1 {
				t.Errorf("the first decision runs the plugin %d times, on %d nodes", first, nodes)
			}
			for range nodes { // those that a search on the best nodes first has not reached yet
				place()
			}
			for range decisions {
				if asked := place(); asked < 1 || asked > 3 {
					t.Fatalf("a decision runs the plugin %d times, want one node that got a pod, one that lost one, "+
						"and the chosen one", asked)
				}
			}
		})
	}
}
