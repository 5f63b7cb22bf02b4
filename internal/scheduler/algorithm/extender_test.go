// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

func TestExtenderPanicFailsThePod(t *testing.T) {
	snapshot := cluster(t, 3)
	p := profileOf(snapshot, &fake{name: "a"})
	p.Extenders = []fwk.Extender{&tf.FakeExtender{ExtenderName: "bad", Predicates: []tf.FitPredicate{
		func(*corev1.Pod, fwk.NodeInfo) *fwk.Status { panic("boom") },
	}}}
	_, err := schedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if err == nil || err.Error() != `extender "bad" panicked at filter: boom` {
		t.Errorf("got %v", err)
	}
}

func TestExtenders(t *testing.T) {
	snapshot := cluster(t, 3)
	node := func(name string, s *fwk.Status) tf.FitPredicate {
		return func(_ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == name {
				return s
			}
			return nil
		}
	}
	run := func(t *testing.T, extenders ...fwk.Extender) (Result, error) {
		p := profileOf(snapshot,
			&fake{name: "a", score: func(node string) int64 { return map[string]int64{"n0": 30}[node] }})
		p.Extenders = extenders
		return schedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	}
	t.Run("reject nodes one after the other", func(t *testing.T) {
		got, err := run(t,
			&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n0", refuse("no"))}},
			&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n1", refuse("no"))}})
		if want := (Result{SuggestedHost: "n2", EvaluatedNodes: 3, FeasibleNodes: 1, TiedNodes: 1}); err != nil ||
			got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
	t.Run("that reject all nodes are named", func(t *testing.T) {
		all := func(_ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == "n0" {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
			}
			return fwk.NewStatus(fwk.Unschedulable)
		}
		_, err := run(t, &tf.FakeExtender{Predicates: []tf.FitPredicate{all}})
		var fit *schedframework.FitError
		if !errors.As(err, &fit) || !fit.Diagnosis.UnschedulablePlugins.Equal(sets.New(schedframework.ExtenderName)) {
			t.Fatalf("got %v", err)
		}
		const want = `0/3 nodes are available: 1 FakeExtender: node "n0" failed and unresolvable, ` +
			`1 FakeExtender: node "n1" failed, 1 FakeExtender: node "n2" failed.`
		if fit.Error() != want {
			t.Errorf("got  %s\nwant %s", fit, want)
		}
		if code := fit.Diagnosis.NodeToStatus.Get("n0").Code(); code != fwk.UnschedulableAndUnresolvable {
			t.Errorf("n0 is %s", code)
		}
	})
	t.Run("that fail fail the pod, unless they may be ignored", func(t *testing.T) {
		_, err := run(t, &tf.FakeExtender{Predicates: []tf.FitPredicate{tf.ErrorPredicateExtender}})
		if err == nil || !strings.Contains(err.Error(), "some error") {
			t.Errorf("got %v", err)
		}
		got, err := run(t, &tf.FakeExtender{Ignorable: true, Predicates: []tf.FitPredicate{tf.ErrorPredicateExtender}})
		if err != nil || got.SuggestedHost != "n0" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("add weighted scores that are scaled to those of plugins", func(t *testing.T) {
		prefer := func(name string, weight int64) fwk.Extender {
			return &tf.FakeExtender{Weight: weight, Prioritizers: []tf.PriorityConfig{{Weight: 1,
				Function: func(*corev1.Pod, []fwk.NodeInfo) (*fwk.NodeScoreList, error) {
					return &fwk.NodeScoreList{{Name: name, Score: 1}, {Name: "gone", Score: 10}}, nil
				}}}}
		}
		// 30 from the plugin; 1 * weight * 10 from the extender.
		for weight, want := range map[int64]string{2: "n0", 4: "n1"} {
			got, err := run(t, prefer("n1", weight))
			if err != nil || got.SuggestedHost != want {
				t.Errorf("weight %d: got %+v, %v", weight, got, err)
			}
		}
		got, err := run(t, prefer("n1", 2), prefer("n1", 2), prefer("n2", 3))
		if err != nil || got.SuggestedHost != "n1" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("that fail to score give no score", func(t *testing.T) {
		for name, function := range map[string]tf.PriorityFunc{
			"error": tf.ErrorPrioritizerExtender,
			"panic": func(*corev1.Pod, []fwk.NodeInfo) (*fwk.NodeScoreList, error) { panic("boom") },
		} {
			got, err := run(t,
				&tf.FakeExtender{Weight: 9, Prioritizers: []tf.PriorityConfig{{Function: function, Weight: 1}}})
			if err != nil || got.SuggestedHost != "n0" {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	})
	t.Run("are called for the nominated node, too", func(t *testing.T) {
		p := profileOf(snapshot,
			&fake{name: "a", score: func(node string) int64 { return map[string]int64{"n0": 30}[node] }})
		p.Extenders = []fwk.Extender{&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n1", refuse("no"))}}}
		got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod("n1"))
		if want := (Result{SuggestedHost: "n0", EvaluatedNodes: 3, FeasibleNodes: 2, Total: 30, TiedNodes: 1}); got !=
			want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
