// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// observations returns how often a histogram was observed with these labels.
func observations(t *testing.T, vec *metrics.HistogramVec, labels ...string) uint64 {
	t.Helper()
	histogram, err := testutil.GetHistogramMetricCount(vec.WithLabelValues(labels...))
	if err != nil {
		t.Fatal(err)
	}
	return histogram
}

func TestExtensionPointDurations(t *testing.T) {
	schedmetrics.FrameworkExtensionPointDuration.Reset()
	f := New(Config{
		ProfileName: "metrics", Snapshot: newTestFramework(&Plugins{}).SnapshotSharedLister(),
		Plugins: &Plugins{
			PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "a", run: returning(unresolvable("no"))}},
			PostFilter: []fwk.PostFilterPlugin{
				&postFilter{named: "a", run: func() (*fwk.PostFilterResult, *fwk.Status) { return nil, nil }}},
			Bind: []fwk.BindPlugin{&bind{named: "a", run: func() *fwk.Status { return nil }}},
		},
	})
	ctx, state, pod := quiet(t), newState(), makePod("p")
	f.RunPreFilterPlugins(ctx, state, pod)
	f.RunPostFilterPlugins(ctx, state, pod, schedframework.NewDefaultNodeToStatus())
	f.RunPreScorePlugins(ctx, state, pod, nil)
	f.RunScorePlugins(ctx, state, pod, nil)
	f.RunReservePluginsReserve(ctx, state, pod, "n1")
	f.RunReservePluginsUnreserve(ctx, state, pod, "n1")
	f.RunPermitPlugins(ctx, state, pod, "n1")
	f.RunPreBindPreFlights(ctx, state, pod, "n1")
	f.RunPreBindPlugins(ctx, state, pod, "n1")
	f.RunBindPlugins(ctx, state, pod, "n1")
	f.RunPostBindPlugins(ctx, state, pod, "n1")
	for _, labels := range [][2]string{
		{"PreFilter", "UnschedulableAndUnresolvable"}, {"PostFilter", "Success"}, {"PreScore", "Success"},
		{"Score", "Success"}, {"Reserve", "Success"}, {"Unreserve", "Success"}, {"Permit", "Success"},
		{"PreBindPreFlight", "Skip"}, {"PreBind", "Success"}, {"Bind", "Success"}, {"PostBind", "Success"},
	} {
		n := observations(t, schedmetrics.FrameworkExtensionPointDuration, labels[0], labels[1], "metrics")
		expect(t, labels[0]+" observed with status "+labels[1], n, 1)
	}
}

func TestPluginDurationsAreSampled(t *testing.T) {
	for _, test := range []struct {
		name    string
		sampled bool
		want    uint64
	}{{"a sampled cycle records every call", true, 2}, {"other cycles record none", false, 0}} {
		t.Run(test.name, func(t *testing.T) {
			schedmetrics.PluginExecutionDuration.Reset()
			stop := make(chan struct{})
			recorder := schedmetrics.NewMetricsAsyncRecorder(100, time.Millisecond, stop)
			f := New(Config{
				Plugins:  &Plugins{Filter: []fwk.FilterPlugin{&filter{named: "a"}, &filter{named: "b"}}},
				Recorder: recorder,
			})
			state := newState()
			state.SetRecordPluginMetrics(test.sampled)
			for _, node := range makeNodes("n1", "n2") {
				f.RunFilterPlugins(quiet(t), state, makePod("p"), node)
			}
			close(stop)
			<-recorder.IsStoppedCh
			recorder.FlushMetrics()
			for _, plugin := range []string{"a", "b"} {
				got := observations(t, schedmetrics.PluginExecutionDuration, plugin, "Filter", "Success")
				expect(t, "calls of "+plugin, got, test.want)
			}
		})
	}
	t.Run("without a recorder nothing is recorded", func(t *testing.T) {
		f := newTestFramework(&Plugins{Filter: []fwk.FilterPlugin{&filter{named: "a"}}})
		state := newState()
		state.SetRecordPluginMetrics(true)
		status := f.RunFilterPlugins(quiet(t), state, makePod("p"), makeNodes("n1")[0])
		expect(t, "status", describe(status), "Success")
	})
}

func TestPluginEvaluations(t *testing.T) {
	schedmetrics.PluginEvaluationTotal.Reset()
	skip := fwk.NewStatus(fwk.Skip)
	f := New(Config{
		ProfileName: "metrics", Snapshot: newTestFramework(&Plugins{}).SnapshotSharedLister(),
		Plugins: &Plugins{
			PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "a"}, &preFilter{named: "b", run: returning(skip)}},
			Filter:    []fwk.FilterPlugin{&filter{named: "a"}, &filter{named: "b"}},
			PreScore: []fwk.PreScorePlugin{
				&preScore{named: "a", run: func() *fwk.Status { return nil }},
				&preScore{named: "b", run: func() *fwk.Status { return skip }},
			},
			Score: []fwk.ScorePlugin{
				&score{named: "a", run: fixed(nil)}, &score{named: "b", run: fixed(nil)},
			},
			ScoreWeights: map[string]int64{"a": 1, "b": 1},
		},
	})
	ctx, state, pod, nodes := quiet(t), newState(), makePod("p"), makeNodes("n1", "n2", "n3")
	f.RunPreFilterPlugins(ctx, state, pod)
	for _, node := range nodes {
		f.RunFilterPlugins(ctx, state, pod, node)
	}
	f.RunPreScorePlugins(ctx, state, pod, nodes)
	f.RunScorePlugins(ctx, state, pod, nodes)
	for _, test := range []struct {
		point string
		a, b  float64
	}{{"PreFilter", 1, 0}, {"Filter", 3, 0}, {"PreScore", 1, 0}, {"Score", 3, 0}} {
		for plugin, want := range map[string]float64{"a": test.a, "b": test.b} {
			got, err := testutil.GetCounterMetricValue(
				schedmetrics.PluginEvaluationTotal.WithLabelValues(plugin, test.point, "metrics"))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, plugin+" at "+test.point, got, want)
		}
	}
}

func TestPermitWaitDuration(t *testing.T) {
	schedmetrics.PermitWaitDuration.Reset()
	synctest.Test(t, func(t *testing.T) {
		f := newTestFramework(&Plugins{})
		for _, name := range []string{"allowed", "late"} {
			f.AddWaitingPod(makePod(name), map[string]time.Duration{"a": time.Second})
		}
		f.cfg.WaitingPods.Get("allowed").Allow("a")
		f.WaitOnPermit(quiet(t), makePod("allowed"))
		f.WaitOnPermit(quiet(t), makePod("late"))
		f.WaitOnPermit(quiet(t), makePod("never waited"))
	})
	expect(t, "allowed", observations(t, schedmetrics.PermitWaitDuration, "Success"), 1)
	expect(t, "rejected", observations(t, schedmetrics.PermitWaitDuration, "Unschedulable"), 1)
}

func TestFrameworkAccessors(t *testing.T) {
	plugins := &Plugins{
		Filter:       []fwk.FilterPlugin{&filter{named: "a"}},
		PostFilter:   []fwk.PostFilterPlugin{&postFilter{named: "a"}},
		Score:        []fwk.ScorePlugin{&score{named: "a"}},
		ScoreWeights: map[string]int64{"a": 1},
	}
	full, empty := New(Config{ProfileName: "full", Plugins: plugins}), New(Config{Plugins: &Plugins{}})
	expect(t, "name", full.ProfileName(), "full")
	expect(t, "plugins", full.Plugins(), plugins)
	expect(t, "full has", full.HasFilterPlugins() && full.HasPostFilterPlugins() && full.HasScorePlugins(), true)
	expect(t, "empty has", empty.HasFilterPlugins() || empty.HasPostFilterPlugins() || empty.HasScorePlugins(), false)
	if signature := full.SignPod(t.Context(), makePod("p")); signature != nil {
		t.Errorf("signature %q", signature)
	}
	parallelizer := NewParallelizer(3)
	expect(t, "parallelizer", New(Config{Plugins: plugins, Parallelizer: parallelizer}).Parallelizer(),
		fwk.Parallelizer(parallelizer))
}
