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

	"github.com/livesched/livesched/test/workload"
)

// TestDeviceVerdictsAreKept: once the scheduler has seen a kind of claims, Filter of
// DynamicResources runs only on the nodes whose devices have changed, and on the chosen one. If no
// device is free, it runs on none.
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
				asked := place()
				if kind.none && asked == 0 {
					continue
				}
				if kind.none || asked < 1 || asked > 3 {
					t.Fatalf("a decision runs the plugin %d times, want one node that got a pod, one that lost one, "+
						"and the chosen one, or 0 if all are refused", asked)
				}
			}
		})
	}
}

// TestANodeTakesTheSlotOfAnother: what is known of the devices of a node does not outlive it.
func TestANodeTakesTheSlotOfAnother(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false)
	kind := &deviceKinds[0]
	c := newDeviceCluster(t, kind, "livesched", 3)
	defer c.close()
	bare, late := workload.Node(10), workload.Node(11)
	c.addNode(bare)
	for _, slice := range kind.slices(late.Name) { // of a node that comes later
		c.must(c.objects.Put(slice))
	}
	feasible := func() int {
		pod, _ := c.newPod()
		c.next--                                      // the claim stays without devices
		pod.Labels = workload.Service().Spec.Selector // all nodes count
		d := c.decide(pod)
		c.must(d.Err)
		return d.Feasible
	}
	if got := feasible(); got != 3 {
		t.Fatalf("the pod fits on %d nodes, want the 3 with devices", got)
	}
	c.must(c.removeNode(bare))
	c.addNode(late)
	if got := feasible(); got != 4 {
		t.Errorf("the pod fits on %d nodes, want 4: one has come", got)
	}
}
