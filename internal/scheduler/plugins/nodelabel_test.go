// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

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

func newNodeLabel(t *testing.T, args string) *nodelabel.NodeLabel {
	t.Helper()
	pl, err := nodelabel.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pl.(*nodelabel.NodeLabel)
}

func nodeWithLabels(keys ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
	for _, key := range keys {
		n.Labels[key] = "any"
	}
	return n
}

func infoOf(n *corev1.Node) fwk.NodeInfo {
	i := schedframework.NewNodeInfo()
	i.SetNode(n)
	return i
}

func TestNodeLabelFilter(t *testing.T) {
	for name, c := range map[string]struct {
		args           string
		nodeWithLabels *corev1.Node
		fits           bool
	}{
		"without arguments every node is admitted": {`{}`, nodeWithLabels(), true},
		"a node with all present labels is admitted": {`{"presentLabels": ["a", "b"]}`, nodeWithLabels("a", "b", "c"),
			true},
		"a node that lacks a present label is not": {`{"presentLabels": ["a", "b"]}`, nodeWithLabels("a", "c"), false},
		"a node without absent labels is admitted": {`{"absentLabels": ["a", "b"]}`, nodeWithLabels("c"), true},
		"a node with one absent label is not":      {`{"absentLabels": ["a", "b"]}`, nodeWithLabels("b"), false},
		"both must hold": {`{"presentLabels": ["a"], "absentLabels": ["b"]}`,
			nodeWithLabels("a", "b"), false},
		"preferences reject no node": {`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`,
			nodeWithLabels("b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			status := newNodeLabel(t, c.args).Filter(t.Context(), nil, nil, infoOf(c.nodeWithLabels))
			if status.IsSuccess() != c.fits {
				t.Errorf("got status %v, want fits = %v", status, c.fits)
			}
			if !c.fits && (status.Code() != fwk.UnschedulableAndUnresolvable ||
				status.Message() != nodelabel.ErrReason) {
				t.Errorf("got status %v, want an unresolvable one: %s", status, nodelabel.ErrReason)
			}
		})
	}
}

func TestNodeLabelScore(t *testing.T) {
	for name, c := range map[string]struct {
		args           string
		nodeWithLabels *corev1.Node
		want           int64
	}{
		"without preferences it is 0": {`{"presentLabels": ["a"]}`, nodeWithLabels("a"), 0},
		"it is 100 if all are met": {
			`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`, nodeWithLabels("a"), 100},
		"it is the share of those that are met": {
			`{"presentLabelsPreference": ["a", "b"], "absentLabelsPreference": ["c"]}`, nodeWithLabels("a", "c"), 33},
		"it is 0 if none is met": {
			`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["b"]}`, nodeWithLabels("b"), 0},
		"a preference that is named twice counts twice": {`{"presentLabelsPreference": ["a", "a", "b"]}`,
			nodeWithLabels("a"), 66},
	} {
		t.Run(name, func(t *testing.T) {
			got, status := newNodeLabel(t, c.args).Score(t.Context(), nil, nil, infoOf(c.nodeWithLabels))
			if !status.IsSuccess() || got != c.want {
				t.Errorf("got %d, %v, want %d", got, status, c.want)
			}
		})
	}
}

func TestNodeLabelRejectsContradictoryArguments(t *testing.T) {
	for args, want := range map[string]string{
		`{"presentLabels": ["a", "b"], "absentLabels": ["b"]}`: `presentLabels and absentLabels: both ` +
			`have ["b"]`,
		`{"presentLabelsPreference": ["a"], "absentLabelsPreference": ["a"]}`: `presentLabelsPreference and ` +
			`absentLabelsPreference: both have ["a"]`,
		`{"absentLabels": [""]}`: "a label must not be empty",
		`{"labels": ["a"]}`:      `unknown field "labels"`,
	} {
		if _, err := nodelabel.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", args, err, want)
		}
	}
}

func TestNodeLabelQueueingHint(t *testing.T) {
	pl := newNodeLabel(t, `{"presentLabels": ["a"]}`)
	events, err := pl.EventsToRegister(t.Context())
	if err != nil || len(events) != 1 {
		t.Fatalf("got events %v, %v, want one", events, err)
	}
	for name, c := range map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"an acceptable node comes":         {nil, nodeWithLabels("a"), fwk.Queue},
		"another node comes":               {nil, nodeWithLabels("b"), fwk.QueueSkip},
		"a node gets the label":            {nodeWithLabels("b"), nodeWithLabels("a"), fwk.Queue},
		"a node that had it is relabelled": {nodeWithLabels("a"), nodeWithLabels("a", "b"), fwk.QueueSkip},
		"a node loses the label":           {nodeWithLabels("a"), nodeWithLabels("b"), fwk.QueueSkip},
	} {
		if got, err := events[0].QueueingHintFn(logr.Discard(), nil, c.before, c.after); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}
