// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodelabel is the plugin NodeLabel, which kube-scheduler had up to 1.22: it filters and
// scores nodes by the presence of labels, regardless of their values. It implements the predicate
// CheckNodeLabelPresence and the priorities with a labelPreference of the legacy Policy API.
package nodelabel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// Name of the plugin.
const Name = "NodeLabel"

// ErrReason is the reason for refusing a node, in kube-scheduler's words.
const ErrReason = "node(s) didn't have the requested labels"

// Args are the arguments of the plugin. All lists are of keys of labels.
type Args struct {
	args.TypeMeta `json:",inline"`
	// PresentLabels are the labels that a node must have.
	PresentLabels []string `json:"presentLabels,omitempty"`
	// AbsentLabels are the labels that a node must not have.
	AbsentLabels []string `json:"absentLabels,omitempty"`
	// PresentLabelsPreference are the labels that a node should have.
	PresentLabelsPreference []string `json:"presentLabelsPreference,omitempty"`
	// AbsentLabelsPreference are the labels that a node should not have.
	AbsentLabelsPreference []string `json:"absentLabelsPreference,omitempty"`
}

// ParseArgs reads and checks the arguments of the plugin. A label must not be wanted both present
// and absent.
func ParseArgs(object runtime.Object) (Args, error) {
	var a Args
	if err := args.Decode(object, &a); err != nil {
		return Args{}, err
	}
	if err := a.Check(Name); err != nil {
		return Args{}, err
	}
	return a, a.validate()
}

func (a *Args) validate() error {
	for _, list := range [][]string{a.PresentLabels, a.AbsentLabels, a.PresentLabelsPreference,
		a.AbsentLabelsPreference} {
		if slices.Contains(list, "") {
			return errors.New("a label must not be empty")
		}
	}
	if both := sets.New(a.PresentLabels...).Intersection(sets.New(a.AbsentLabels...)); both.Len() > 0 {
		return fmt.Errorf("presentLabels and absentLabels: both have %q", sets.List(both))
	}
	if both := sets.New(a.PresentLabelsPreference...).
		Intersection(sets.New(a.AbsentLabelsPreference...)); both.Len() > 0 {
		return fmt.Errorf("presentLabelsPreference and absentLabelsPreference: both have %q", sets.List(both))
	}
	return nil
}

// NodeLabel is the plugin. It has no state.
type NodeLabel struct{ args Args }

var (
	_ fwk.FilterPlugin      = &NodeLabel{}
	_ fwk.ScorePlugin       = &NodeLabel{}
	_ fwk.EnqueueExtensions = &NodeLabel{}
)

// New is the plugin's factory.
func New(_ context.Context, object runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	a, err := ParseArgs(object)
	if err != nil {
		return nil, err
	}
	return &NodeLabel{args: a}, nil
}

// Name implements fwk.Plugin.
func (pl *NodeLabel) Name() string { return Name }

// ReadsNodeObjectOnly implements fastpath.NodeObjectOnly: the plugin reads the node's labels.
func (*NodeLabel) ReadsNodeObjectOnly() {}

// Filter refuses nodes that lack a required label, or that have a label that must be absent.
func (pl *NodeLabel) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	if !pl.admits(nodeInfo.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

func (pl *NodeLabel) admits(node *corev1.Node) bool {
	for _, key := range pl.args.PresentLabels {
		if !has(node, key) {
			return false
		}
	}
	for _, key := range pl.args.AbsentLabels {
		if has(node, key) {
			return false
		}
	}
	return true
}

// Score returns the share of the preferences that the node meets, from 0 to fwk.MaxScore.
func (pl *NodeLabel) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	preferences := len(pl.args.PresentLabelsPreference) + len(pl.args.AbsentLabelsPreference)
	if preferences == 0 {
		return 0, nil
	}
	met := 0
	for _, key := range pl.args.PresentLabelsPreference {
		if has(nodeInfo.Node(), key) {
			met++
		}
	}
	for _, key := range pl.args.AbsentLabelsPreference {
		if !has(nodeInfo.Node(), key) {
			met++
		}
	}
	return int64(met) * fwk.MaxScore / int64(preferences), nil
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (pl *NodeLabel) ScoreExtensions() fwk.ScoreExtensions { return nil }

// EventsToRegister returns the events that can make a node acceptable: new nodes, and changes of
// node labels.
func (pl *NodeLabel) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: pl.afterNodeChange,
	}}, nil
}

func (pl *NodeLabel) afterNodeChange(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if !pl.admits(after) || before != nil && pl.admits(before) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

func has(node *corev1.Node, key string) bool {
	_, ok := node.Labels[key]
	return ok
}
