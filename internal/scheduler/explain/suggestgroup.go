// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/livesched/livesched/internal/scheduler/gang"
)

// maxAdded limits the nodes that are added for a group.
const maxAdded = 256

// helpsGroup reports whether enough pods of the group fit if all of them are changed as one was.
// Pods that differ in what they demand are not changed.
func (e *explainer) helpsGroup(ctx context.Context, changed *corev1.Pod) bool {
	pods := make([]*corev1.Pod, len(e.podGroup.pods))
	for i, pod := range e.podGroup.pods {
		if !alike(pod, e.pod) {
			return false
		}
		like := *pod
		like.Spec = changed.Spec
		pods[i] = &like
	}
	fits, err := e.groupFits(ctx, pods)
	return err == nil && fits
}

// alike reports whether two pods demand the same.
func alike(a, b *corev1.Pod) bool {
	of := func(pod *corev1.Pod) corev1.PodSpec {
		return corev1.PodSpec{
			NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations,
			TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints,
		}
	}
	return equality.Semantic.DeepEqual(of(a), of(b)) &&
		slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(x, y corev1.Container) bool {
			return equality.Semantic.DeepEqual(x.Resources, y.Resources) &&
				equality.Semantic.DeepEqual(x.Ports, y.Ports)
		})
}

// groupFits reports whether enough of the pods fit together in some domain.
func (e *explainer) groupFits(ctx context.Context, pods []*corev1.Pod) (bool, error) {
	attempt, err := e.attempt(pods)
	if err != nil {
		return false, err
	}
	defer attempt.End(ctx)
	for _, domain := range attempt.DomainsWithRoom(1) {
		if found, err := e.podGroup.placeIn(ctx, attempt, domain); err != nil || found.Enough() {
			return err == nil, err
		}
	}
	return false, nil
}

// addNodesForGroup tries how many nodes of each pool make the group fit. The nodes are in the
// domain where the most pods fit already.
func (e *explainer) addNodesForGroup(ctx context.Context) ([]suggestion, error) {
	if len(e.everywhere) > 0 || len(e.podGroup.fit.Tried) == 0 {
		return nil, nil
	}
	return tryEach(e.models(e.podGroup.bestIn.Contains), maxPools, maxOfType, func(m *model) (*suggestion, error) {
		count, added, err := e.countToAdd(ctx, m)
		if count == 0 {
			return nil, err
		}
		s := m.suggestion(count, added)
		if len(e.podGroup.bestIn) > 0 {
			s.Description += " They need the labels of the domain where most pods of the group fit."
		}
		return s, err
	})
}

// countToAdd returns how many nodes like a model make the group fit, and one of them, or 0 if that
// does not help. It tries one node, then as many as are needed if each takes as many pods as the
// first, and then more or fewer. If the time is up, it is the least number that was tried.
func (e *explainer) countToAdd(ctx context.Context, m *model) (count int, added *corev1.Node, err error) {
	before, short := e.podGroup.best, 0 // short does not make the group fit
	missing := before.Needed - before.Fit
	for n := 1; n <= maxAdded; {
		found, node, err := e.placeWithAdded(ctx, m, n)
		gained := 0
		if found.Key == before.Key {
			gained = found.Fit - before.Fit
		}
		switch {
		case err != nil, gained <= 0 && e.podGroup.Tree == nil:
			return 0, nil, err
		case found.Enough():
			count, added = n, node
		}
		if count > 0 {
			break
		}
		short, n = n, 2*n // a group of a tree may need many nodes
		if gained > 0 {
			n = max(n, (missing*short+gained-1)/gained)
		}
	}
	for n := count - 1; n > short; n = (short + count) / 2 {
		found, node, err := e.placeWithAdded(ctx, m, n)
		switch {
		case err != nil:
			return count, added, err
		case found.Enough():
			count, added = n, node
		default:
			short = n
		}
	}
	return count, added, nil
}

// placeWithAdded returns how many pods of the group fit in its best domain after nodes were added,
// and one of these nodes.
func (e *explainer) placeWithAdded(ctx context.Context, m *model,
	nodes int) (found gang.Fit, added *corev1.Node, err error) {
	var undo []func()
	defer func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
		err = e.restored(err)
	}()
	for i := range nodes {
		node, remove, err := e.fork.AddNodeLike(m.NodeInfo, fmt.Sprintf("another-%d-", i))
		undo = append(undo, remove)
		if err != nil {
			return found, nil, err
		}
		added = node
	}
	attempt, err := e.attempt(e.podGroup.pods)
	if err != nil {
		return found, nil, err
	}
	defer attempt.End(ctx)
	found, err = e.podGroup.placeIn(ctx, attempt, e.podGroup.bestIn)
	return found, added, err
}
