// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package nodelabel_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
)

func plugin(t *testing.T, args string) *nodelabel.NodeLabel {
	t.Helper()
	pl, err := nodelabel.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pl.(*nodelabel.NodeLabel)
}

func node(keys ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
	for _, key := range keys {
		n.Labels[key] = "any"
	}
	return n
}

func info(n *corev1.Node) fwk.NodeInfo {
	i := schedframework.NewNodeInfo()
	i.SetNode(n)
	return i
}

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		node *corev1.Node
		fits bool
	}{
		"without arguments every node is admitted":   {`{}`, node(), true},
		"a node with all present labels is admitted": {`{"presentLabels": ["a", "b"]}`, node("a", "b", "c"), true},
		"a node that lacks a present label is not":   {`{"presentLabels": ["a", "b"]}`, node("a", "c"), false},
		"a node without absent labels is admitted":   {`{"absentLabels": ["a", "b"]}`, node("c"), true},
		"a node with one absent label is not":        {`{"absentLabels": ["a", "b"]}`, node("b"), false},
		"both must hold":                             {`{"presentLabels": ["a"], "absentLabels": ["b"]}`, node("a", "b"), false},
		"preferences reject no node":                 {`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`, node("b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			status := plugin(t, c.args).Filter(t.Context(), nil, nil, info(c.node))
			if status.IsSuccess() != c.fits {
				t.Errorf("got status %v, want fits = %v", status, c.fits)
			}
			if !c.fits && (status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != nodelabel.ErrReason) {
				t.Errorf("got status %v, want an unresolvable one: %s", status, nodelabel.ErrReason)
			}
		})
	}
}

func TestScore(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		node *corev1.Node
		want int64
	}{
		"without preferences it is 0":                   {`{"presentLabels": ["a"]}`, node("a"), 0},
		"it is 100 if all are met":                      {`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`, node("a"), 100},
		"it is the share of those that are met":         {`{"presentLabelsPreference": ["a", "b"], "absentLabelsPreference": ["c"]}`, node("a", "c"), 33},
		"it is 0 if none is met":                        {`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`, node("b"), 0},
		"a preference that is named twice counts twice": {`{"presentLabelsPreference": ["a", "a", "b"]}`, node("a"), 66},
	} {
		t.Run(name, func(t *testing.T) {
			got, status := plugin(t, c.args).Score(t.Context(), nil, nil, info(c.node))
			if !status.IsSuccess() || got != c.want {
				t.Errorf("got %d, %v, want %d", got, status, c.want)
			}
		})
	}
}

func TestContradictoryArgumentsAreRejected(t *testing.T) {
	for args, want := range map[string]string{
		`{"presentLabels": ["a", "b"], "absentLabels": ["b"]}`:                `presentLabels and absentLabels: both have ["b"]`,
		`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["a"]}`: `presentLabelsPreference and absentLabelsPreference: both have ["a"]`,
		`{"absentLabels": [""]}`: "a label must not be empty",
		`{"labels": ["a"]}`:      `unknown field "labels"`,
	} {
		if _, err := nodelabel.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", args, err, want)
		}
	}
}

func TestOnlyNodesThatBecomeAcceptableWakeAPod(t *testing.T) {
	pl := plugin(t, `{"presentLabels": ["a"]}`)
	events, err := pl.EventsToRegister(t.Context())
	if err != nil || len(events) != 1 {
		t.Fatalf("got events %v, %v, want one", events, err)
	}
	for name, c := range map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"an acceptable node comes":         {nil, node("a"), fwk.Queue},
		"another node comes":               {nil, node("b"), fwk.QueueSkip},
		"a node gets the label":            {node("b"), node("a"), fwk.Queue},
		"a node that had it is relabelled": {node("a"), node("a", "b"), fwk.QueueSkip},
		"a node loses the label":           {node("a"), node("b"), fwk.QueueSkip},
	} {
		if got, err := events[0].QueueingHintFn(logr.Discard(), nil, c.before, c.after); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}
