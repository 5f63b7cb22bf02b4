// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
)

const (
	// maxAttempts limits the changes of one kind that are tried, and maxOfType those that are
	// suggested.
	maxAttempts, maxOfType = 6, 2
	// maxPools limits the pools of which another node is tried.
	maxPools = 6
	// DefaultSuggestFor is how long changes are tried.
	DefaultSuggestFor = 100 * time.Millisecond
)

// suggestion is a change that was tried: with it, the pod fits on a node.
type suggestion struct {
	v1alpha1.Suggestion
	change Change
	// like is the node that the one to add is like, nil if none is added.
	like fwk.NodeInfo
}

// Change is what was changed for a suggestion: one of the fields is set.
type Change struct {
	// Removed are pods that left their node.
	Removed []*corev1.Pod
	// Node is the node that was added or changed, as it was then.
	Node *corev1.Node
	// Pod is the pod as it was decided then.
	Pod *corev1.Pod
}

// suggest tries changes that may help, and returns those that do. For a group that does not fit, it
// tries what may help its pods one by one, with all of them, and more nodes of each pool. It stops
// when the time is up, which is no error.
func (e *explainer) suggest(ctx context.Context) (found []suggestion, _ error) {
	limited, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	tries := []func(context.Context) ([]suggestion, error){
		e.createClaims, e.free, e.uncordon, e.removeTaints, e.tolerate, e.relaxNodeAffinity, e.relaxPodAffinity,
		e.relaxSpread, e.reduceRequests, e.addNodes,
	}
	forGroup := e.podGroup.lacksRoom()
	switch {
	case forGroup && e.Feasible > 0:
		tries = append(tries[:0], e.addNodesForGroup)
	case forGroup:
		tries = append(tries[:0], e.createClaims, e.tolerate, e.relaxNodeAffinity, e.relaxPodAffinity, e.relaxSpread,
			e.reduceRequests, e.addNodesForGroup)
	}
	for _, try := range tries {
		some, err := try(limited)
		for _, s := range some {
			if !forGroup || s.change.Pod == nil || err == nil && e.helpsGroup(limited, s.change.Pod) {
				found = append(found, s)
			}
		}
		switch {
		case ctx.Err() != nil:
			return found, context.Cause(ctx)
		case limited.Err() != nil:
			return found, nil
		case err != nil:
			return found, err
		}
	}
	return found, nil
}

// suggested returns a suggestion that was tried.
func suggested(of v1alpha1.SuggestionType, description, pool, node string, nodes int, change Change) *suggestion {
	if pool == nodepool.None {
		pool = ""
	}
	return &suggestion{Suggestion: v1alpha1.Suggestion{
		Type: of, Description: description, Pool: pool, Node: node, Nodes: int32(nodes), Verified: true,
	}, change: change}
}

// tryEach tries some of the candidates, and returns up to enough suggestions, also with an error.
func tryEach[C any](candidates []C, most, enough int,
	try func(C) (*suggestion, error)) (found []suggestion, err error) {
	for i := 0; i < min(len(candidates), most) && len(found) < enough && err == nil; i++ {
		var s *suggestion
		if s, err = try(candidates[i]); s != nil {
			found = append(found, *s)
		}
	}
	return found, err
}

// fitsWithout reports whether the pod fits on a node without some of the pods on it, which are put
// back.
func (e *explainer) fitsWithout(ctx context.Context, node string, pods []*corev1.Pod) (fits bool, err error) {
	undo, err := e.remove(pods)
	defer func() { err = e.undone(undo, err) }()
	if err != nil {
		return false, err
	}
	fit, err := e.fork.FirstFit(ctx, e.instance, e.pod, node)
	return fit != "", err
}

// fitsOnChanged reports whether the pod fits on a node that is changed, and changes it back.
func (e *explainer) fitsOnChanged(ctx context.Context, original, changed *corev1.Node) (fits bool, err error) {
	undo := e.replace(original, changed)
	defer func() { err = e.undone(undo, err) }()
	fit, err := e.fork.FirstFit(ctx, e.instance, e.pod, changed.Name)
	return fit != "", err
}

// remove takes pods off their nodes until undo is called, which must be called after an error, too.
func (e *explainer) remove(pods []*corev1.Pod) (undo func() error, err error) {
	var removed []*corev1.Pod
	allocateAgain, err := e.fork.FreeDevices(pods)
	if err != nil {
		return func() error { return nil }, err
	}
	undo = func() (err error) {
		allocateAgain()
		for _, pod := range removed {
			err = errors.Join(err, e.fork.SetPod(pod))
		}
		return err
	}
	for _, pod := range pods {
		if err := e.fork.RemovePod(pod); err != nil {
			return undo, err
		}
		removed = append(removed, pod)
	}
	return undo, nil
}

// replace replaces a node until undo is called.
func (e *explainer) replace(original, changed *corev1.Node) (undo func() error) {
	e.fork.SetNode(changed)
	return func() error {
		e.fork.SetNode(original)
		return nil
	}
}

// undone takes a change back. It returns the error before, if there was one.
func (e *explainer) undone(undo func() error, before error) error {
	return e.restored(cmp.Or(before, undo()))
}

// restored makes the nodes, which belong to the fork's snapshot, show what was changed back. It
// returns the error before, if there was one.
func (e *explainer) restored(before error) error {
	if _, err := e.fork.Snapshot(); err != nil && before == nil {
		return err
	}
	return before
}

// pods returns the pods on a node.
func (n *refusedNode) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, len(n.GetPods()))
	for i, info := range n.GetPods() {
		pods[i] = info.GetPod()
	}
	return pods
}

// only returns the nodes that only these plugins refuse. There are none if others refuse the pod
// itself.
func (e *explainer) only(plugins ...string) []*refusedNode {
	if slices.ContainsFunc(e.everywhere, func(s *fwk.Status) bool { return !slices.Contains(plugins, s.Plugin()) }) {
		return nil
	}
	var nodes []*refusedNode
	for i := range e.nodes {
		if e.nodes[i].onlyRefusedBy(plugins...) {
			nodes = append(nodes, &e.nodes[i])
		}
	}
	return nodes
}

func namesOf(nodes []*refusedNode) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.name()
	}
	return all
}
