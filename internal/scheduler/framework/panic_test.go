// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// errBoom is the value that plugins panic with.
var errBoom = errors.New("boom")

func TestPluginPanics(t *testing.T) {
	nodes := makeNodes("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
	pod := makePod("p")
	status := func() *fwk.Status { panic(errBoom) }
	weights := map[string]int64{"bad": 1}
	for _, test := range []struct {
		point   string
		plugins *Plugins
		run     func(context.Context, *Framework, fwk.CycleState) *fwk.Status
	}{
		{"PreFilter", &Plugins{PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "bad",
			run: func() (*fwk.PreFilterResult, *fwk.Status) { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				_, s, _ := f.RunPreFilterPlugins(ctx, state, pod)
				return s
			}},
		{"PreFilterExtensionAddPod", &Plugins{PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "bad",
			add: func(fwk.PodInfo, fwk.NodeInfo) *fwk.Status { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunPreFilterExtensionAddPod(ctx, state, pod, nominated(t, "q", 1), nodes[0])
			}},
		{"PreFilterExtensionRemovePod", &Plugins{PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "bad",
			remove: func(fwk.PodInfo, fwk.NodeInfo) *fwk.Status { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunPreFilterExtensionRemovePod(ctx, state, pod, nominated(t, "q", 1), nil)
			}},
		{"Filter", &Plugins{Filter: []fwk.FilterPlugin{&filter{named: "bad",
			run: func(fwk.NodeInfo) *fwk.Status { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunFilterPluginsWithNominatedPods(ctx, state, pod, nodes[0])
			}},
		{"PostFilter", &Plugins{PostFilter: []fwk.PostFilterPlugin{&postFilter{named: "bad",
			run: func() (*fwk.PostFilterResult, *fwk.Status) { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				_, s := f.RunPostFilterPlugins(ctx, state, pod, schedframework.NewDefaultNodeToStatus())
				return s
			}},
		{"PreScore", &Plugins{PreScore: []fwk.PreScorePlugin{&preScore{named: "bad", run: status}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunPreScorePlugins(ctx, state, pod, nodes)
			}},
		{"Score", &Plugins{ScoreWeights: weights, Score: []fwk.ScorePlugin{&score{named: "bad",
			run: func(string) (int64, *fwk.Status) { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				_, s := f.RunScorePlugins(ctx, state, pod, nodes)
				return s
			}},
		{"ScoreExtensionNormalize", &Plugins{ScoreWeights: weights, Score: []fwk.ScorePlugin{&score{named: "bad",
			run:       func(string) (int64, *fwk.Status) { return 1, nil },
			normalize: func(fwk.NodeScoreList) *fwk.Status { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				_, s := f.RunScorePlugins(ctx, state, pod, nodes)
				return s
			}},
		{"Reserve", &Plugins{Reserve: []fwk.ReservePlugin{&reserve{named: "bad", run: status}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunReservePluginsReserve(ctx, state, pod, "n1")
			}},
		{"Permit", &Plugins{Permit: []fwk.PermitPlugin{&permit{named: "bad",
			run: func() (*fwk.Status, time.Duration) { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				_, s := f.RunPermitPlugins(ctx, state, pod, "n1")
				return s
			}},
		{"PreBindPreFlight", &Plugins{PreBind: []fwk.PreBindPlugin{&preBind{named: "bad",
			flight: func() (*fwk.PreBindPreFlightResult, *fwk.Status) { panic(errBoom) }}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunPreBindPreFlights(ctx, state, pod, "n1")
			}},
		{"PreBind", &Plugins{PreBind: []fwk.PreBindPlugin{
			&preBind{named: "bad", run: func(context.Context) *fwk.Status { panic(errBoom) }},
			&preBind{named: "good"},
		}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				state.SetParallelPreBindPlugins(sets.New("bad", "good"))
				return f.RunPreBindPlugins(ctx, state, pod, "n1")
			}},
		{"Bind", &Plugins{Bind: []fwk.BindPlugin{&bind{named: "bad", run: status}}},
			func(ctx context.Context, f *Framework, state fwk.CycleState) *fwk.Status {
				return f.RunBindPlugins(ctx, state, pod, "n1")
			}},
	} {
		t.Run(test.point, func(t *testing.T) {
			s := test.run(quiet(t), newTestFramework(test.plugins), newState())
			expect(t, "code", s.Code(), fwk.Error)
			expect(t, "message", s.Message(), `plugin "bad" panicked at `+test.point+`: boom`)
			var panicked *PanicError
			if !errors.As(s.AsError(), &panicked) || panicked.Plugin != "bad" || panicked.ExtensionPoint != test.point {
				t.Errorf("the error is %#v", s.AsError())
			}
			if !errors.Is(s.AsError(), errBoom) {
				t.Error("the error does not wrap what the plugin panicked with")
			}
		})
	}
}

func TestPanicsWithoutStatusLetTheOthersRun(t *testing.T) {
	var calls []string
	called := func(name string) func() { return func() { calls = append(calls, name) } }
	boom := func() { panic(errBoom) }
	f := newTestFramework(&Plugins{
		Reserve:  []fwk.ReservePlugin{&reserve{named: "r1", undo: called("r1")}, &reserve{named: "bad", undo: boom}},
		PostBind: []fwk.PostBindPlugin{&postBind{named: "bad", run: boom}, &postBind{named: "p2", run: called("p2")}},
	})
	f.RunReservePluginsUnreserve(quiet(t), newState(), makePod("p"), "n1")
	f.RunPostBindPlugins(quiet(t), newState(), makePod("p"), "n1")
	expect(t, "calls", strings.Join(calls, " "), "r1 p2")
}

// fragile is state that cannot be copied.
type fragile struct{}

func (fragile) Clone() fwk.StateData { panic(errBoom) }

func TestPanicOfAPluginsStateFailsThePod(t *testing.T) {
	f := New(Config{Plugins: &Plugins{}, Nominator: nominations{"n1": {nominated(t, "higher", 6)}}})
	state := newState()
	state.Write("fragile", fragile{})
	s := f.RunFilterPluginsWithNominatedPods(quiet(t), state, makePod("p"), makeNodes("n1")[0])
	expect(t, "status", describe(s), "Error: a plugin's state panicked at StateData.Clone: boom")
}

func TestPanicIsLoggedWithTheStack(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	f := newTestFramework(&Plugins{Reserve: []fwk.ReservePlugin{&reserve{named: "bad", undo: explode}}})
	f.RunReservePluginsUnreserve(klog.NewContext(t.Context(), logger), newState(), makePod("p"), "n1")
	logs := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{"Plugin panicked", `plugin="bad"`, "Unreserve", "explode"} {
		if !strings.Contains(logs, want) {
			t.Errorf("%q is not in the log:\n%s", want, logs)
		}
	}
}

func explode() { panic(errBoom) }

func TestPanicInParallelWorkOfAPlugin(t *testing.T) {
	parallelizer := NewParallelizer(4)
	f := New(Config{Parallelizer: parallelizer, Plugins: &Plugins{Filter: []fwk.FilterPlugin{
		&filter{named: "bad", run: func(fwk.NodeInfo) *fwk.Status {
			parallelizer.Until(t.Context(), 64, func(i int) {
				if i == 17 {
					explode()
				}
			}, "test")
			return nil
		}},
	}}})
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	s := f.RunFilterPlugins(ctx, newState(), makePod("p"), makeNodes("n1")[0])
	expect(t, "status", describe(s), `Error[bad]: plugin "bad" panicked at Filter: boom`)
	if logs := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(logs, "explode") {
		t.Errorf("the stack is from another goroutine than the one that panicked:\n%s", logs)
	}
}

func TestParallelizer(t *testing.T) {
	for _, parallelism := range []int{0, 1, 3, 16} {
		p := NewParallelizer(parallelism)
		for _, pieces := range []int{0, 1, 2, 100} {
			done := make([]atomic.Int32, pieces)
			p.Until(t.Context(), pieces, func(i int) { done[i].Add(1) }, "test")
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Errorf("parallelism %d: piece %d of %d was done %d times", parallelism, i, pieces, n)
				}
			}
		}
	}
	t.Run("no more pieces start after the context has ended", func(t *testing.T) {
		for _, parallelism := range []int{1, 4} {
			ctx, cancel := context.WithCancel(t.Context())
			var begun atomic.Int32
			NewParallelizer(parallelism).Until(ctx, 1000, func(int) { begun.Add(1); cancel() }, "test")
			if n := begun.Load(); n < 1 || n > int32(parallelism) {
				t.Errorf("parallelism %d: %d pieces were begun", parallelism, n)
			}
		}
	})
	t.Run("a panic ends the work and reaches the caller", func(t *testing.T) {
		for _, pieces := range []int{1, 1000} {
			func() {
				defer func() {
					value := recover()
					if worker, ok := value.(*workerPanic); ok {
						if !strings.Contains(worker.String(), "explode") {
							t.Errorf("the stack is missing: %v", worker)
						}
						value = worker.value
					}
					if err, ok := value.(error); !ok || !errors.Is(err, errBoom) {
						t.Errorf("recovered %v", value)
					}
				}()
				NewParallelizer(4).Until(t.Context(), pieces, func(int) { explode() }, "test")
				t.Errorf("%d pieces: Until returned", pieces)
			}()
		}
	})
}
