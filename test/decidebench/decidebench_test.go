// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decidebench

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/testutil"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/workload"
)

func TestMain(m *testing.M) {
	leaks.Main(m)
}

const testNodes = 20

func newCluster(t *testing.T, contender string) Cluster {
	t.Helper()
	cluster, err := New(contender)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for i := range testNodes {
		cluster.AddNode(workload.Node(i))
	}
	return cluster
}

// TestEveryContenderSchedulesEveryKind also checks the placement of the kinds that would end up
// elsewhere if a contender ignored their requests.
func TestEveryContenderSchedulesEveryKind(t *testing.T) {
	for _, contender := range Contenders {
		cluster := newCluster(t, contender)
		for k, kind := range workload.Kinds {
			const each = testNodes / 2 // leaves room for anti-affinity pods in mixed
			pods := workload.Pods{Kind: kind, Nodes: testNodes, Series: 1}
			on := map[string]int{}
			for i := range each {
				i += k * testNodes
				node, err := cluster.Place(workload.Admit(pods.Pod(i)))
				if err != nil {
					t.Fatalf("%s, %s pod %d: %v", contender, kind, i, err)
				}
				if kind == workload.Daemon && node != workload.NodeName(i%testNodes) {
					t.Errorf("%s: daemon pod %d is on %s", contender, i, node)
				}
				on[node]++
			}
			if kind == workload.Anti && len(on) != each {
				t.Errorf("%s: pods that keep off each other are on %d nodes: %v", contender, len(on), on)
			}
		}
	}
}

func TestPodsThatFitNowhereAreAnError(t *testing.T) {
	for _, contender := range Contenders {
		cluster := newCluster(t, contender)
		pods := workload.Pods{Kind: workload.Anti, Series: 1}
		for i := range testNodes + 1 {
			_, err := cluster.Place(workload.Admit(pods.Pod(i)))
			if full := i == testNodes; (err != nil) != full {
				t.Errorf("%s, pod %d: %v", contender, i, err)
			}
		}
	}
}

// TestLiveschedTakesTheFastPath ensures that the benchmark does not measure the scalar path as
// livesched.
func TestLiveschedTakesTheFastPath(t *testing.T) {
	cluster := newCluster(t, Livesched)
	for k, kind := range workload.Kinds {
		if kind == workload.Daemon || kind == workload.Unique {
			continue // each of these pods is a class of its own, or names its node
		}
		before := fastDecisions(t)
		const pods = 8
		for i := range pods {
			i += k * testNodes // every name is unique
			if _, err := cluster.Place(workload.Admit(workload.Pods{Kind: kind, Series: 2}.Pod(i))); err != nil {
				t.Fatal(err)
			}
		}
		// The first pod of each class may take the scalar path. Most kinds have two classes here,
		// and mixed pods have four.
		if got := fastDecisions(t) - before; got < pods/2 {
			t.Errorf("%d of %d decisions about %s pods took the fast path", got, pods, kind)
		}
	}
}

// TestPodsWithClaimsGoWhereTheirVolumesAre covers all contenders. livesched calls the plugins for
// volumes only for the chosen node.
func TestPodsWithClaimsGoWhereTheirVolumesAre(t *testing.T) {
	const pods = 10
	plugins := []string{"VolumeBinding", "NodeVolumeLimits"}
	for _, contender := range Contenders {
		for _, kind := range workload.ClaimKinds {
			cluster, from := newCluster(t, contender), workload.Pods{Kind: kind}
			before := filtered(t, plugins)
			for i := range testNodes {
				if err := cluster.AddCSINode(workload.CSINode(i)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range pods {
				if err := cluster.AddClaim(from.Claim(i)); err != nil {
					t.Fatal(err)
				}
				node, err := cluster.Place(workload.Admit(from.Pod(i)))
				if err != nil {
					t.Fatalf("%s, %s pod %d: %v", contender, kind, i, err)
				}
				at, ok := workload.ZoneIndex(node)
				if kind == workload.Claims && (!ok || at != i%workload.Zones) {
					t.Errorf("%s: pod %d is on %s, in another zone than its volume", contender, i, node)
				}
			}
			for plugin, after := range filtered(t, plugins) {
				asked := after - before[plugin]
				if contender == Livesched && asked != pods ||
					contender == Scalar && plugin == "VolumeBinding" && asked != pods*testNodes {
					t.Errorf("%s, %s: %s was asked about %d nodes for %d pods", contender, kind, plugin, asked, pods)
				}
			}
		}
	}
}

// filtered returns the number of times that each plugin filtered a node.
func filtered(t *testing.T, plugins []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, plugin := range plugins {
		n, err := testutil.GetCounterMetricValue(schedmetrics.PluginEvaluationTotal.WithLabelValues(plugin,
			schedmetrics.Filter, "default-scheduler"))
		if err != nil {
			t.Fatal(err)
		}
		counts[plugin] = int(n)
	}
	return counts
}

func fastDecisions(t *testing.T) int {
	t.Helper()
	var m dto.Metric
	if err := metrics.Decisions.WithLabelValues(metrics.PathFast, "").Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

func TestAnUnknownContenderIsRefused(t *testing.T) {
	if _, err := New("nobody"); err == nil {
		t.Error("New(nobody) is no error")
	}
}

func TestReloadForgetsNothingOfTheCluster(t *testing.T) {
	cluster := newCluster(t, Livesched)
	pods := workload.Pods{Kind: workload.Anti, Series: 1}
	for i := range testNodes {
		if _, err := cluster.Place(workload.Admit(pods.Pod(i))); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cluster.Place(workload.Admit(pods.Pod(testNodes))); err == nil {
		t.Error("a pod was placed where there is no room")
	}
}
