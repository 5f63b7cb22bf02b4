// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

const seed = 20260117

// variants are the profiles for which decisions are compared.
var variants = map[string]setup{
	"the default profile": {percentage: 100, parallelism: 16},
	"one worker":          {percentage: 100, parallelism: 1},
	"other weights and strategy": {percentage: 100, parallelism: 4, change: func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.Score.Enabled = []schedconfig.Plugin{
			{Name: "NodeResourcesFit", Weight: 7}, {Name: "InterPodAffinity", Weight: 1},
			{Name: "ImageLocality", Weight: 20},
		}
		p.Plugins.Score.Disabled = []schedconfig.Plugin{{Name: "TaintToleration"}}
		p.Plugins.Filter.Disabled = []schedconfig.Plugin{{Name: "NodeUnschedulable"}}
		for i := range p.PluginConfig {
			if args, ok := p.PluginConfig[i].Args.(*schedconfig.NodeResourcesFitArgs); ok {
				args.ScoringStrategy.Type = schedconfig.MostAllocated
			}
		}
	}},
	// Here the first node that fits is chosen. Of the nodes that PreFilter names, kube-scheduler
	// takes any first.
	"no scoring": {percentage: 100, parallelism: 1, noNodeNames: true,
		change: func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.Score.Disabled = []schedconfig.Plugin{{Name: "*"}}
		}},
	"no filters": {percentage: 100, parallelism: 16, change: func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.Filter.Disabled = []schedconfig.Plugin{{Name: "*"}}
		p.Plugins.PreFilter.Disabled = []schedconfig.Plugin{{Name: "*"}}
		p.Plugins.PreScore.Disabled = []schedconfig.Plugin{{Name: "*"}}
		p.Plugins.PreScore.Enabled = []schedconfig.Plugin{{Name: "Spy"}}
		p.Plugins.Score.Disabled = []schedconfig.Plugin{{Name: "*"}}
		p.Plugins.Score.Enabled = []schedconfig.Plugin{{Name: "NodeResourcesFit"}, {Name: "ImageLocality"}}
	}},
	"extenders": {percentage: 100, parallelism: 16, extenders: testExtenders},
	// kube-scheduler no longer has such a setting: the test compares the decisions, and that there
	// are more reasons.
	"all filters are checked": {percentage: 100, parallelism: 16, checkAllFilters: true},
}

// testExtenders filter and score by a hash of pod and node.
func testExtenders() []fwk.Extender {
	hash := func(salt string, pod *corev1.Pod, node fwk.NodeInfo) uint32 {
		h := fnv.New32a()
		fmt.Fprint(h, salt, pod.Name, node.Node().Name)
		return h.Sum32()
	}
	refusing := func(salt string) tf.FitPredicate {
		return func(pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
			switch hash(salt, pod, node) % 9 {
			case 0:
				return fwk.NewStatus(fwk.Unschedulable, "no")
			case 1:
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "never")
			}
			return nil
		}
	}
	scoring := func(salt string) tf.PriorityFunc {
		return func(pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.NodeScoreList, error) {
			list := fwk.NodeScoreList{}
			for _, node := range nodes {
				list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: int64(hash(salt, pod, node) % 11)})
			}
			return &list, nil
		}
	}
	failing := func(*corev1.Pod, fwk.NodeInfo) *fwk.Status { return fwk.AsStatus(errors.New("gone")) }
	return []fwk.Extender{
		&tf.FakeExtender{ExtenderName: "both", Weight: 3, Predicates: []tf.FitPredicate{refusing("a")},
			Prioritizers: []tf.PriorityConfig{{Function: scoring("b"), Weight: 2}}},
		&tf.FakeExtender{ExtenderName: "gone", Ignorable: true, Predicates: []tf.FitPredicate{failing}},
		&tf.FakeExtender{ExtenderName: "filter", Predicates: []tf.FitPredicate{refusing("c")}},
		&tf.FakeExtender{ExtenderName: "score", Weight: 1,
			Prioritizers: []tf.PriorityConfig{{Function: scoring("d"), Weight: 1}}},
		&tf.FakeExtender{ExtenderName: "broken", Weight: 5,
			Prioritizers: []tf.PriorityConfig{{Function: tf.ErrorPrioritizerExtender, Weight: 1}}},
		&tf.FakeExtender{ExtenderName: "elsewhere", UnInterested: true, Predicates: []tf.FitPredicate{failing}},
	}
}

// outcomes counts the kinds of cases, so that a generator which makes only easy ones is noticed.
type outcomes map[string]int

func (o outcomes) String() string {
	out := ""
	for _, key := range slices.Sorted(maps.Keys(o)) {
		out += fmt.Sprintf(" %s=%d", key, o[key])
	}
	return out
}

func TestDecisionsMatchKubeScheduler(t *testing.T) {
	const clusters, pods = 8, 60
	for name, variant := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := quiet(t)
			seen := outcomes{}
			for cluster := range uint64(clusters) {
				g := newGenerator(seed, cluster)
				o := newOracle(ctx, t, variant)
				nodes := o.fill(g, 10+g.IntN(91), 5)
				for i := range pods {
					where := fmt.Sprintf("seed %d, cluster %d of %d nodes, pod %d", seed, cluster, len(nodes), i)
					pod := g.pod(nodes)
					if variant.noNodeNames {
						pod.Spec.Affinity.NodeAffinity = nil
					}
					if g.chance(10) {
						pod.Status.NominatedNodeName = pick(g, append(nodes, &corev1.Node{})).Name
						seen["nominated"]++
					}
					host := o.compare(where, pod, seen)
					if host != "" && g.chance(60) {
						o.place(pod, host)
						o.refresh()
					}
				}
			}
			t.Logf("seed %d: %d cases:%s", seed, clusters*pods, seen)
			if seen["chosen"] < clusters*pods/4 {
				t.Errorf("only %d pods fitted", seen["chosen"])
			}
			if variant.checkAllFilters && seen["more reasons"] < 20 {
				t.Errorf("only %d nodes had more reasons", seen["more reasons"])
			}
			if seen["nowhere"] < 10 && name != "no filters" {
				t.Errorf("only %d pods did not fit", seen["nowhere"])
			}
		})
	}
}

// compare makes both sides decide about the pod and returns the chosen node, if any.
func (o *oracle) compare(where string, pod *corev1.Pod, seen outcomes) string {
	o.t.Helper()
	want, wantErr := o.upstreamDecision(pod)
	got, gotErr := o.ourDecision(pod)
	if wantErr != nil || gotErr != nil {
		o.compareErrors(where, wantErr, gotErr, seen)
		return ""
	}
	seen["chosen"]++
	if want.EvaluatedNodes != got.EvaluatedNodes || want.FeasibleNodes != got.FeasibleNodes {
		o.t.Fatalf("%s: kube-scheduler evaluated %d nodes of which %d fit, we %d and %d", where,
			want.EvaluatedNodes, want.FeasibleNodes, got.EvaluatedNodes, got.FeasibleNodes)
	}
	if want, got := o.upstreamSaw.names(), o.oursSaw.names(); !slices.Equal(want, got) {
		o.t.Fatalf("%s: nodes that fit (-kube-scheduler +ours):\n%s", where, cmp.Diff(want, got))
	}
	if len(o.oursSaw.nodes) == 0 {
		// One node fits, or nothing scores: there is no choice to compare.
		if want.SuggestedHost != got.SuggestedHost {
			o.t.Fatalf("%s: kube-scheduler chose %s, we %s", where, want.SuggestedHost, got.SuggestedHost)
		}
		return got.SuggestedHost
	}
	seen["scored"]++
	best := o.compareScores(where, pod)
	if !slices.Contains(best, got.SuggestedHost) || !slices.Contains(best, want.SuggestedHost) {
		o.t.Fatalf("%s: kube-scheduler chose %s, we %s, the best are %v", where, want.SuggestedHost,
			got.SuggestedHost, best)
	}
	if len(best) > 1 {
		seen["ties"]++
	}
	return got.SuggestedHost
}

// compareErrors expects the same explanation from both sides: word for word for the pod, and status
// by status for preemption and the queue.
func (o *oracle) compareErrors(where string, wantErr, gotErr error, seen outcomes) {
	o.t.Helper()
	var want, got *schedframework.FitError
	if !errors.As(wantErr, &want) || !errors.As(gotErr, &got) {
		o.t.Fatalf("%s:\nkube-scheduler: %v\nours:           %v", where, wantErr, gotErr)
	}
	seen["nowhere"]++
	if want.Diagnosis.PreFilterMsg != "" {
		seen["prefilter"]++
	}
	if o.checkAllFilters {
		o.compareReasons(where, want, got, seen)
		return
	}
	if want.Error() != got.Error() {
		o.t.Fatalf("%s:\nkube-scheduler: %v\nours:           %v", where, want, got)
	}
	if diff := cmp.Diff(want.Diagnosis, got.Diagnosis, statuses, cmpopts.EquateEmpty()); diff != "" {
		o.t.Fatalf("%s: diagnosis (-kube-scheduler +ours):\n%s", where, diff)
	}
}

// compareReasons expects both sides to reject the same nodes for the same reasons, of which
// livesched may have more: these may show that preemption cannot help.
func (o *oracle) compareReasons(where string, want, got *schedframework.FitError, seen outcomes) {
	o.t.Helper()
	if got.Diagnosis.NodeToStatus.Len() != want.Diagnosis.NodeToStatus.Len() {
		o.t.Fatalf("%s: kube-scheduler refused %d nodes, we %d", where, want.Diagnosis.NodeToStatus.Len(),
			got.Diagnosis.NodeToStatus.Len())
	}
	want.Diagnosis.NodeToStatus.ForEachExplicitNode(func(node string, theirs *fwk.Status) {
		ours := got.Diagnosis.NodeToStatus.Get(node)
		n := len(theirs.Reasons())
		if len(ours.Reasons()) < n || !slices.Equal(theirs.Reasons(), ours.Reasons()[:n]) ||
			ours.Code() != theirs.Code() && ours.Code() != fwk.UnschedulableAndUnresolvable {
			o.t.Fatalf("%s: node %s: kube-scheduler said %s, we %s", where, node, describe(theirs), describe(ours))
		}
		if len(ours.Reasons()) > n {
			seen["more reasons"]++
		}
		if ours.Code() != theirs.Code() {
			seen["found unresolvable"]++
		}
	})
}

var statuses = cmp.Transformer("statuses", func(m *schedframework.NodeToStatus) map[string]string {
	out := map[string]string{"absent": describe(m.AbsentNodesStatus())}
	m.ForEachExplicitNode(func(node string, status *fwk.Status) { out[node] = describe(status) })
	return out
})

func describe(s *fwk.Status) string {
	return fmt.Sprintf("%s %q %q", s.Code(), s.Plugin(), s.Reasons())
}

// compareScores scores the nodes that fit again on both sides, compares the scores plugin by
// plugin, and returns the nodes with the best total.
func (o *oracle) compareScores(where string, pod *corev1.Pod) []string {
	o.t.Helper()
	nodes := o.oursSaw.nodes
	theirState, ourState := schedframework.NewCycleState(), schedframework.NewCycleState()
	o.framework.RunPreFilterPlugins(o.ctx, theirState, pod)
	o.profile.Framework.RunPreFilterPlugins(o.ctx, ourState, pod)
	if status := o.framework.RunPreScorePlugins(o.ctx, theirState, pod, nodes); !status.IsSuccess() {
		o.t.Fatalf("%s: %v", where, status.AsError())
	}
	want, status := o.framework.RunScorePlugins(o.ctx, theirState, pod, nodes)
	if !status.IsSuccess() {
		o.t.Fatalf("%s: %v", where, status.AsError())
	}
	c := o.ours.newScalar(request{o.profile, ourState, pod})
	got, err := c.prioritize(o.ctx, nodes)
	if err != nil {
		o.t.Fatalf("%s: %v", where, err)
	}
	o.addExtenderScores(pod, nodes, want)
	if !slices.EqualFunc(want, got, sameScores) {
		o.t.Fatalf("%s: scores (-kube-scheduler +ours):\n%s", where, cmp.Diff(want, got))
	}
	highest := slices.MaxFunc(want, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) })
	var best []string
	for _, node := range want {
		if node.TotalScore == highest.TotalScore {
			best = append(best, node.Name)
		}
	}
	return best
}

// sameScores reports whether two nodes have equal scores. It takes a hundredth of the time that
// cmp.Equal takes.
func sameScores(a, b fwk.NodePluginScores) bool {
	return a.Name == b.Name && a.TotalScore == b.TotalScore && a.Randomizer == b.Randomizer &&
		slices.Equal(a.Scores, b.Scores)
}

// addExtenderScores repeats on kube-scheduler's scores what kube-scheduler does in a function that
// is not accessible here.
func (o *oracle) addExtenderScores(pod *corev1.Pod, nodes []fwk.NodeInfo, scores []fwk.NodePluginScores) {
	for _, extender := range o.upstream.Extenders {
		if !extender.IsInterested(pod) || !extender.IsPrioritizer() {
			continue
		}
		list, weight, err := extender.Prioritize(pod, nodes)
		if err != nil {
			continue
		}
		for _, entry := range *list {
			for i := range scores {
				if scores[i].Name == entry.Host {
					score := entry.Score * weight * 10
					scores[i].Scores = append(scores[i].Scores, fwk.PluginScore{Name: extender.Name(), Score: score})
					scores[i].TotalScore += score
				}
			}
		}
	}
}

func TestSamplesMatchKubeScheduler(t *testing.T) {
	// With one worker both sides search the nodes in the same order, so the samples must be equal,
	// and so must the node at which the next search begins.
	for _, percentage := range []int32{5, 30, 70} {
		t.Run(fmt.Sprintf("%d percent", percentage), func(t *testing.T) {
			t.Parallel()
			ctx := quiet(t)
			seen := outcomes{}
			g := newGenerator(seed, uint64(percentage))
			g.rarity = 5
			o := newOracle(ctx, t, setup{percentage: percentage, parallelism: 1})
			nodes := o.fill(g, 250+g.IntN(150), 2)
			sampled := 0
			for i := range 60 {
				pod := g.pod(nodes)
				where := fmt.Sprintf("seed %d, %d nodes, pod %d", seed, len(nodes), i)
				if host := o.compare(where, pod, seen); host != "" {
					o.place(pod, host)
					o.refresh()
				}
				if n := len(o.oursSaw.nodes); n == max(100, len(nodes)*int(percentage)/100) {
					sampled++
				}
			}
			t.Logf("seed %d: %d nodes, %d samples:%s", seed, len(nodes), sampled, seen)
			if sampled < 10 {
				t.Errorf("only %d decisions stopped at the sample's size", sampled)
			}
		})
	}
}
