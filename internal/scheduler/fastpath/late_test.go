// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// first draws the first node.
func first(int, func(int) int) int { return 0 }

// newLateScene is a restScene whose foreign plugin only filters, so that the best nodes come first.
func newLateScene(t *testing.T, nodes int, f *foreign) *restScene {
	s := &restScene{scene: newScene(t, nodes, 0), foreign: f}
	s.plan = planOf(framework.Config{
		ProfileName: "mine", Snapshot: s.snapshot, Parallelizer: framework.NewParallelizer(4),
		Plugins: &framework.Plugins{
			PreFilter: []fwk.PreFilterPlugin{f}, Filter: []fwk.FilterPlugin{s.plugin, f},
			Score: []fwk.ScorePlugin{s.plugin}, ScoreWeights: map[string]int64{"Scored": 2},
		},
	})
	return s
}

// decide decides about a pod. With draw, the best nodes come first.
func (s *restScene) decide(draw Draw) Attempt {
	s.Helper()
	if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
	s.foreign.preFilters, s.foreign.filtered = 0, nil
	s.state = schedframework.NewCycleState()
	s.attempt = s.engine.Decide(s.ctx, Request{Plan: s.plan, State: s.state, Pod: s.pod("a"), Draw: draw})
	return s.attempt
}

func TestPluginsRunOnTheBestNodesFirst(t *testing.T) {
	const nodes = 100
	for name, test := range map[string]struct {
		// refused is how many of the best nodes the plugin refuses, asked on how many it is run.
		refused, asked int
	}{
		"the best is accepted":         {0, 1},
		"the best is refused":          {1, 1 + 16},
		"the first batch is refused":   {1 + 16, 1 + 16 + 32},
		"the last node is accepted":    {nodes - 1, nodes},
		"the second batch is refused":  {1 + 16 + 32, nodes},
		"one of the second is refused": {1 + 3, 1 + 16},
	} {
		t.Run(name, func(t *testing.T) {
			byScore := map[string]int64{}
			refused := []string{}
			for i, number := range rand.New(rand.NewPCG(1, 2)).Perm(nodes) {
				name := fmt.Sprintf("n%d", number)
				byScore[name] = int64(i)
				if i >= nodes-test.refused {
					refused = append(refused, name)
				}
			}
			s := newLateScene(t, nodes, &foreign{filter: refuse(refused...)})
			s.plugin.score = scores(byScore)
			all, ok := s.decide(nil).Fit()
			if !ok || len(s.foreign.filtered) != nodes {
				t.Fatalf("fits: %v, by %d calls of Filter", ok, len(s.foreign.filtered))
			}
			best, total := all.Names(), all.Total()
			fit, ok := s.decide(first).Fit()
			if !ok {
				t.Fatalf("the reason is %q", s.attempt.Reason())
			}
			placement, ok := fit.Take(s.ctx, 0)
			if !ok || !slices.Contains(best, placement.NodeName) || len(s.foreign.filtered) != test.asked {
				t.Errorf("chose %v after %d calls of Filter, want one of %v after %d", placement.NodeName,
					len(s.foreign.filtered), best, test.asked)
			}
			if placement.Evaluated != test.asked || placement.Uncached != UnknownPlugin || placement.Total != total {
				t.Errorf("got %+v, want the total %d after evaluating %d nodes", placement, total, test.asked)
			}
			if totals, err := fit.Totals(s.ctx); err != nil || totals[placement.NodeName] != placement.Total {
				t.Errorf("the totals are %v (%v)", totals, err)
			}
			if data, err := s.state.Read(foundKey); err != nil {
				t.Error(err)
			} else if _, ok := data.(*found).nodes.Load(placement.NodeName); !ok {
				t.Error("the plugin has left nothing about the node for Reserve")
			}
			if s.foreign.preFilters != 1 {
				t.Errorf("PreFilter was called %d times", s.foreign.preFilters)
			}
		})
	}
}

func TestASearchOfTheBestFirstMayFindNoNode(t *testing.T) {
	for name, test := range map[string]struct {
		status *fwk.Status
		want   Reason
	}{
		"every node is refused": {fwk.NewStatus(fwk.Unschedulable, "no"), NoFit},
		"a filter fails":        {fwk.AsStatus(errors.New("broken")), Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLateScene(t, 100, &foreign{filter: func(string) *fwk.Status { return test.status }})
			drawn := func(n int, _ func(int) int) int { return rand.IntN(n) }
			if s.decide(drawn); s.attempt.Reason() != test.want {
				t.Errorf("the reason is %q, want %q", s.attempt.Reason(), test.want)
			}
			if n := len(s.foreign.filtered); test.want == NoFit && n != 100 {
				t.Errorf("Filter was called for %d of 100 nodes", n)
			}
			s.expectNobodyAskedAgain()
		})
	}
}

func TestScoresNeedAnswersAboutAllNodes(t *testing.T) {
	s := newRestScene(t, 50, &foreign{score: scores(map[string]int64{"n7": 50})})
	fit, ok := s.decide(first).Fit()
	if !ok || len(s.foreign.filtered) != 50 || !slices.Equal(fit.Names(), []string{"n7"}) {
		t.Errorf("chose %v after %d calls of Filter", fit.Names(), len(s.foreign.filtered))
	}
}

// inCycle is the state of a group's attempt.
type inCycle struct{ fwk.PodGroupCycleState }

func TestDevicesOfAGroupNeedAnswersAboutAllNodes(t *testing.T) {
	for name, test := range map[string]struct {
		group fwk.PodGroupCycleState
		claim bool
		want  int
	}{
		"a claim":                 {nil, true, 1},
		"a claim, in a group":     {inCycle{}, true, 50},
		"another plugin, a group": {inCycle{}, false, 1},
	} {
		s := newLateScene(t, 50, &foreign{})
		s.decide(nil)
		pod := s.pod("a")
		if test.claim {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device"}}
		}
		s.foreign.filtered, s.state = nil, schedframework.NewCycleState()
		s.state.SetPodGroupSchedulingCycle(test.group)
		a := s.engine.Decide(s.ctx, Request{Plan: s.plan, State: s.state, Pod: pod, Draw: first})
		if _, ok := a.Fit(); !ok || len(s.foreign.filtered) != test.want {
			t.Errorf("%s: Filter was called for %d nodes, want %d: %q", name, len(s.foreign.filtered), test.want,
				a.Reason())
		}
	}
}

func TestTopDoesNotAskAboutAllNodes(t *testing.T) {
	const nodes = 300
	s := newLateScene(t, nodes, &foreign{filter: func(node string) *fwk.Status {
		if node == "n9" {
			return nil
		}
		return fwk.NewStatus(fwk.Unschedulable, "no")
	}})
	s.plugin.score = scores(map[string]int64{"n9": 9})
	fit, _ := s.decide(first).Fit()
	if top, err := fit.Top(s.ctx, 5); err != nil || len(top) != 1 || top[0].Name != "n9" || top[0].TotalScore != 18 ||
		len(s.foreign.filtered) != 1+maxMore {
		t.Errorf("the first are %v (%v) after %d calls of Filter", top, err, len(s.foreign.filtered))
	}
}

func TestTopAsksAboutFurtherNodes(t *testing.T) {
	s := newLateScene(t, 40, &foreign{filter: refuse("n9", "n7")})
	s.plugin.score = scores(map[string]int64{"n9": 9, "n8": 8, "n7": 7, "n6": 6, "n5": 5})
	fit, _ := s.decide(first).Fit()
	if _, ok := fit.Take(s.ctx, 0); !ok {
		t.Fatalf("the reason is %q", s.attempt.Reason())
	}
	top, err := fit.Top(s.ctx, 3)
	names := []string{}
	for _, node := range top {
		names = append(names, fmt.Sprint(node.Name, " ", node.TotalScore))
	}
	if want := []string{"n8 16", "n6 12", "n5 10"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the first are %v (%v), want %v", names, err, want)
	}
	if everyone, err := fit.Top(s.ctx, 100); err != nil || len(everyone) != 38 || len(s.foreign.filtered) != 40 {
		t.Errorf("%d nodes are shown (%v) after %d calls of Filter", len(everyone), err, len(s.foreign.filtered))
	}
	s.expectNobodyAskedAgain()
}
