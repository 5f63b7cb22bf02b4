// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"
)

// runner has the methods that kube-scheduler's framework and livesched's share.
type runner interface {
	fwk.PluginsRunner
	RunPreFilterPlugins(context.Context, fwk.CycleState,
		*corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	RunFilterPluginsWithNominatedPods(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status
	RunPostFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod,
		fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status)
	RunReservePluginsReserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status
	RunReservePluginsUnreserve(context.Context, fwk.CycleState, *corev1.Pod, string)
	RunPermitPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) (map[string]time.Duration, *fwk.Status)
	RunPreBindPreFlights(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status
	RunPreBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status
	RunBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status
	RunPostBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string)
}

var (
	_ runner = (*Framework)(nil)
	_ runner = schedframework.Framework(nil)
)

// script determines the results of one case's plugins. Two runs of a case get the same results, and
// each records its own calls.
type script struct {
	seed  uint64
	mu    sync.Mutex
	calls []string
}

// rand returns the source of randomness for one call of one plugin.
func (s *script) rand(question ...string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, question)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, strings.Join(question, " "))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// status returns one of the codes, mostly success.
func (s *script) status(r *rand.Rand, codes ...fwk.Code) *fwk.Status {
	if r.IntN(3) > 0 {
		return nil
	}
	code := codes[r.IntN(len(codes))]
	if code == fwk.Error {
		return fwk.AsStatus(errors.New("broken"))
	}
	return fwk.NewStatus(code, fmt.Sprintf("reason %d", r.IntN(3)))
}

// plugins returns three fakes for each extension point that follow the script.
func (s *script) plugins() *Plugins {
	p := &Plugins{ScoreWeights: map[string]int64{}}
	for i := range 3 {
		name := fmt.Sprintf("pl%d", i)
		n := func(point string) named { return named(point + "-" + name) }
		pf := &preFilter{named: n("f"), run: func() (*fwk.PreFilterResult, *fwk.Status) {
			r := s.rand(name, "PreFilter")
			st := s.status(r, fwk.Skip, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Error, fwk.Pending)
			if r.IntN(2) == 0 {
				return nil, st
			}
			nodes := sets.New[string]()
			for _, node := range []string{"n1", "n2", "n3", "gone"} {
				if r.IntN(3) > 0 {
					nodes.Insert(node)
				}
			}
			return &fwk.PreFilterResult{NodeNames: nodes}, st
		}}
		if i > 0 {
			pf.add = func(pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
				return s.status(s.rand(name, "AddPod", pod.GetPod().Name, node.Node().Name), fwk.Error,
					fwk.Unschedulable)
			}
			pf.remove = func(pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
				return s.status(s.rand(name, "RemovePod", pod.GetPod().Name, node.Node().Name), fwk.Error,
					fwk.Unschedulable)
			}
		}
		p.PreFilter = append(p.PreFilter, pf)
		p.Filter = append(p.Filter, &filter{named: n("f"), run: func(node fwk.NodeInfo) *fwk.Status {
			r := s.rand(name, "Filter", node.Node().Name, fmt.Sprint(len(node.GetPods())))
			return s.status(r, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Pending, fwk.Error)
		}})
		p.PostFilter = append(p.PostFilter,
			&postFilter{named: n("po"), run: func() (*fwk.PostFilterResult, *fwk.Status) {
				r := s.rand(name, "PostFilter")
				st := unschedulable(fmt.Sprintf("reason %d", r.IntN(3)))
				if r.IntN(3) == 0 {
					st = s.status(r, fwk.UnschedulableAndUnresolvable, fwk.Error, fwk.Pending)
				}
				switch r.IntN(3) {
				case 0:
					return nil, st
				case 1:
					return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}}, st
				}
				return schedframework.NewPostFilterResultWithNominatedNode(fmt.Sprintf("n%d", r.IntN(3))), st
			}})
		p.PreScore = append(p.PreScore, &preScore{named: n("s"), run: func() *fwk.Status {
			r := s.rand(name, "PreScore")
			if r.IntN(4) > 0 {
				return s.status(r, fwk.Skip)
			}
			return s.status(r, fwk.Unschedulable, fwk.Error)
		}})
		sc := &score{named: n("s"), run: func(node string) (int64, *fwk.Status) {
			r := s.rand(name, "Score", node)
			if r.IntN(40) == 0 {
				return 0, s.status(r, fwk.Unschedulable, fwk.Error)
			}
			return int64(r.IntN(120) - 5), nil
		}}
		if i > 0 {
			sc.normalize = func(list fwk.NodeScoreList) *fwk.Status {
				r := s.rand(name, "NormalizeScore", fmt.Sprint(list))
				for j := range list {
					list[j].Score = min(max(list[j].Score+int64(r.IntN(5)), 0), 100)
				}
				if r.IntN(20) == 0 {
					return s.status(r, fwk.Error)
				}
				return nil
			}
		}
		p.Score = append(p.Score, sc)
		p.ScoreWeights[string(sc.named)] = int64(i + 1)
		p.Reserve = append(p.Reserve, &reserve{
			named: n("r"),
			run: func() *fwk.Status {
				return s.status(s.rand(name, "Reserve"), fwk.Unschedulable, fwk.Error, fwk.Pending)
			},
			undo: func() { s.rand(name, "Unreserve") },
		})
		p.Permit = append(p.Permit, &permit{named: n("pe"), run: func() (*fwk.Status, time.Duration) {
			r := s.rand(name, "Permit")
			return s.status(r, fwk.Wait, fwk.Wait, fwk.Wait, fwk.Unschedulable, fwk.Error),
				time.Duration(r.IntN(30)) * time.Minute
		}})
		p.PreBind = append(p.PreBind, &preBind{
			named: n("pb"),
			flight: func() (*fwk.PreBindPreFlightResult, *fwk.Status) {
				r := s.rand(name, "PreBindPreFlight")
				codes := []fwk.Code{fwk.Skip}
				if r.IntN(8) == 0 {
					codes = []fwk.Code{fwk.Error, fwk.Unschedulable}
				}
				var result *fwk.PreBindPreFlightResult
				if r.IntN(2) == 0 {
					result = &fwk.PreBindPreFlightResult{AllowParallel: r.IntN(4) == 0}
				}
				return result, s.status(r, codes...)
			},
			run: func(context.Context) *fwk.Status {
				return s.status(s.rand(name, "PreBind"), fwk.Error, fwk.Unschedulable)
			},
		})
		p.Bind = append(p.Bind, &bind{named: n("b"), run: func() *fwk.Status {
			return s.status(s.rand(name, "Bind"), fwk.Skip, fwk.Skip, fwk.Skip, fwk.Unschedulable, fwk.Error)
		}})
		p.PostBind = append(p.PostBind, &postBind{named: n("pob"), run: func() { s.rand(name, "PostBind") }})
	}
	return p
}

// combined is one plugin made of the fakes of two extension points that share a name, as
// kube-scheduler requires.
type combined struct {
	fwk.PreFilterPlugin
	filter *filter
}

func (c combined) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return c.filter.Filter(ctx, state, pod, node)
}

type combinedScore struct {
	fwk.PreScorePlugin
	score *score
}

func (c combinedScore) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	return c.score.Score(ctx, state, pod, node)
}
func (c combinedScore) ScoreExtensions() fwk.ScoreExtensions { return c.score.ScoreExtensions() }

// upstreamRunner builds kube-scheduler's framework from livesched's fakes.
func upstreamRunner(
	ctx context.Context, t *testing.T, p *Plugins, snapshot fwk.SharedLister, nominator fwk.PodNominator,
	parallelism int,
) schedframework.Framework {
	t.Helper()
	instances := map[string]fwk.Plugin{"sort": struct {
		named
		doesQueueSort
	}{named: "sort"}}
	cfg := &schedconfig.Plugins{QueueSort: set("sort")}
	enable := func(s *schedconfig.PluginSet, pl fwk.Plugin, weight int64) {
		s.Enabled = append(s.Enabled, schedconfig.Plugin{Name: pl.Name(), Weight: int32(weight)})
		if instances[pl.Name()] == nil {
			instances[pl.Name()] = pl
		}
	}
	for i := range p.PreFilter {
		f := combined{p.PreFilter[i], p.Filter[i].(*filter)}
		enable(&cfg.PreFilter, f, 0)
		enable(&cfg.Filter, f, 0)
		enable(&cfg.PostFilter, p.PostFilter[i], 0)
		s := combinedScore{p.PreScore[i], p.Score[i].(*score)}
		enable(&cfg.PreScore, s, 0)
		enable(&cfg.Score, s, p.ScoreWeights[s.Name()])
		enable(&cfg.Reserve, p.Reserve[i], 0)
		enable(&cfg.Permit, p.Permit[i], 0)
		enable(&cfg.PreBind, p.PreBind[i], 0)
		enable(&cfg.Bind, p.Bind[i], 0)
		enable(&cfg.PostBind, p.PostBind[i], 0)
	}
	registry := Registry{}
	for name, pl := range instances {
		registry[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return pl, nil }
	}
	fw, err := frameworkruntime.NewFramework(ctx, registry,
		&schedconfig.KubeSchedulerProfile{SchedulerName: "test", Plugins: cfg},
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithPodNominator(nominator),
		frameworkruntime.WithParallelism(parallelism))
	if err != nil {
		t.Fatal(err)
	}
	return fw
}

// transcript is everything that is visible of a run from outside.
type transcript []string

func (tr *transcript) add(format string, args ...any) {
	*tr = append(*tr, fmt.Sprintf(format, args...))
}

// summary is a status with its text, except for three kinds of errors that a plugin's bug causes
// and that kube-scheduler describes in less detail: a status that has no meaning at its point, a
// score out of bounds, and an error that names no plugin.
func summary(s *fwk.Status) string {
	if !s.IsError() {
		return describe(s)
	}
	for _, words := range []string{"%!w(<nil>)", "has no meaning there", "invalid score", "after normalizing",
		"unsupported", "may return Success"} {
		if strings.Contains(s.Message(), words) {
			return "Error"
		}
	}
	return describe(s)
}

func names(s sets.Set[string]) []string { return sets.List(s) }

// play runs every extension point once, each with the state that the previous ones left.
func play(ctx context.Context, t *testing.T, r runner, snapshot fwk.SharedLister, parallelism int) transcript {
	t.Helper()
	var tr transcript
	state, pod := newState(), makePod("p")
	pod.Spec.Priority = ptr.To[int32](5)
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	nodes := slices.SortedFunc(slices.Values(all), func(a, b fwk.NodeInfo) int {
		return strings.Compare(a.Node().Name, b.Node().Name)
	})

	result, status, restricting := r.RunPreFilterPlugins(ctx, state, pod)
	tr.add("PreFilter %s restricting %v skipped %v", summary(status), names(restricting),
		names(state.GetSkipFilterPlugins()))
	if !result.AllNodes() {
		tr.add("nodes %v", names(result.NodeNames))
	}
	statuses := schedframework.NewDefaultNodeToStatus()
	for _, node := range nodes {
		status := r.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		tr.add("Filter %s %s", node.Node().Name, summary(status))
		status = r.RunPreFilterExtensionRemovePod(ctx, state, pod, nominated(t, "victim", 0), node)
		tr.add("RemovePod %s %s", node.Node().Name, summary(status))
	}
	post, status := r.RunPostFilterPlugins(ctx, state, pod, statuses)
	tr.add("PostFilter %s", summary(status))
	if post != nil && post.NominatingInfo != nil {
		tr.add("nominated %+v", *post.NominatingInfo)
	}
	status = r.RunPreScorePlugins(ctx, state, pod, nodes)
	tr.add("PreScore %s skipped %v", summary(status), names(state.GetSkipScorePlugins()))
	scores, status := r.RunScorePlugins(ctx, state, pod, nodes)
	if status.IsError() && parallelism != 1 {
		status = fwk.NewStatus(fwk.Error) // whichever failed first
	}
	for i := range scores {
		scores[i].RawScores = nil // kube-scheduler keeps them for batches of pods
	}
	tr.add("Score %s %v", summary(status), scores)
	tr.add("Reserve %s", summary(r.RunReservePluginsReserve(ctx, state, pod, "n1")))
	r.RunReservePluginsUnreserve(ctx, state, pod, "n1")
	waits, status := r.RunPermitPlugins(ctx, state, pod, "n1")
	tr.add("Permit %s %v", summary(status), waits)
	status = r.RunPreBindPreFlights(ctx, state, pod, "n1")
	tr.add("PreBindPreFlight %s skipped %v parallel %v", summary(status),
		names(state.GetSkipPreBindPlugins()), names(state.GetParallelPreBindPlugins()))
	// In parallel it is random which of two failures comes first.
	parallel := state.GetParallelPreBindPlugins()
	state.SetParallelPreBindPlugins(nil)
	tr.add("PreBind %s", summary(r.RunPreBindPlugins(ctx, state, pod, "n1")))
	state.SetParallelPreBindPlugins(parallel)
	tr.add("Bind %s", summary(r.RunBindPlugins(ctx, state, pod, "n1")))
	r.RunPostBindPlugins(ctx, state, pod, "n1")
	return tr
}

// sequential removes the calls whose number depends on when goroutines notice that another one
// failed.
func sequential(calls []string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(call string) bool {
		return strings.Contains(call, "Score ") || strings.Contains(call, "NormalizeScore")
	})
}

func TestRunsMatchKubeScheduler(t *testing.T) {
	ctx := quiet(t)
	snapshot := schedcache.NewSnapshot(nil, []*corev1.Node{makeNode("n1"), makeNode("n2"), makeNode("n3")})
	nominees := nominations{
		"n1": {nominated(t, "higher", 6), nominated(t, "lower", 1)},
		"n2": {nominated(t, "p", 5)},
	}
	const cases = 1500
	for i := range cases {
		theirs, ours := &script{seed: seed + uint64(i)}, &script{seed: seed + uint64(i)}
		parallelism := []int{1, 16}[i%2]
		upstream := upstreamRunner(ctx, t, theirs.plugins(), snapshot, nominator{nominations: nominees}, parallelism)
		f := New(Config{
			ProfileName: "test", Plugins: ours.plugins(), Snapshot: snapshot, Nominator: nominees,
			Parallelizer: NewParallelizer(parallelism),
		})
		want := play(ctx, t, upstream, snapshot, parallelism)
		got := play(ctx, t, f, snapshot, parallelism)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("case %d: (-kube-scheduler +ours):\n%s", i, diff)
		}
		if diff := cmp.Diff(sequential(theirs.calls), sequential(ours.calls)); diff != "" {
			t.Fatalf("case %d: calls (-kube-scheduler +ours):\n%s", i, diff)
		}
	}
	t.Logf("seed %d: %d cases", seed, cases)
}
