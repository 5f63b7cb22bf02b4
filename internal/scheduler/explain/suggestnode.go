// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// free tries whether the pod fits if pods leave the nodes that lack the least.
func (e *explainer) free(ctx context.Context) (found []suggestion, err error) {
	nodes := slices.DeleteFunc(e.only(names.NodeResourcesFit),
		func(n *refusedNode) bool { return !n.resolvable() || len(n.short) == 0 })
	slices.SortStableFunc(nodes, func(a, b *refusedNode) int { return cmp.Compare(a.short.weight(), b.short.weight()) })
	for attempt := 0; len(nodes) > 0 && attempt < maxAttempts && len(found) < maxOfType; attempt++ {
		n := nodes[0]
		alike := func(other *refusedNode) bool { return other.short.equal(n.short) && other.pool == n.pool }
		pods := n.toFree()
		if pods == nil {
			nodes = nodes[1:]
			continue
		}
		fits, err := e.fitsWithout(ctx, n.name(), pods)
		if err != nil {
			return found, err
		}
		if !fits {
			nodes = nodes[1:]
			continue
		}
		all := len(nodes)
		nodes = slices.DeleteFunc(nodes, alike)
		count := all - len(nodes)
		s := suggested(v1alpha1.SuggestionFree, describeFree(n, count, pods), n.pool, n.name(), count,
			Change{Removed: pods})
		for _, pod := range pods {
			s.Pods = append(s.Pods, referenceTo(pod))
		}
		found = append(found, *s)
	}
	return found, nil
}

// describeFree describes what to free, and warns that controllers create pods again, which may take
// the room.
func describeFree(n *refusedNode, nodes int, pods []*corev1.Pod) string {
	text := fmt.Sprintf("Free %s on %s%s.", n.short, oneOf(nodes), ofPool(n.pool))
	var kinds []string
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil && !slices.Contains(kinds, owner.Kind+"s") {
			kinds = append(kinds, owner.Kind+"s")
		}
	}
	if len(kinds) == 0 {
		return text
	}
	slices.Sort(kinds)
	return text + fmt.Sprintf(" Scale down %s there: pods that they create again may take the room.",
		enumerate(kinds, "and"))
}

func oneOf(nodes int) string {
	if nodes == 1 {
		return "one node"
	}
	return fmt.Sprintf("one of %d nodes", nodes)
}

func ofPool(pool string) string {
	if pool == nodepool.None {
		return ""
	}
	return " of the pool " + pool
}

func inParentheses(pool string) string {
	if pool == nodepool.None {
		return ""
	}
	return " (pool " + pool + ")"
}

// toFree returns pods whose end frees what the node lacks, in ascending order of priority. It is
// nil if that takes pods that must run.
func (n *refusedNode) toFree() []*corev1.Pod {
	left := slices.Clone(n.short)
	pods := slices.DeleteFunc(n.pods(), mustRun)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var chosen []*corev1.Pod
	for _, pod := range pods {
		if !reduce(left, pod) {
			continue
		}
		chosen = append(chosen, pod)
		left = slices.DeleteFunc(left, func(l lack) bool { return l.amount <= 0 })
		if len(left) == 0 {
			return chosen
		}
	}
	return nil
}

// reduce subtracts what the end of a pod frees, and reports whether that is anything.
func reduce(left shortage, pod *corev1.Pod) (helps bool) {
	resources := (&schedframework.PodInfo{Pod: pod}).CalculateResource().Resource
	for i := range left {
		freed := amountOf(resources, left[i].resource)
		if left[i].resource == corev1.ResourcePods {
			freed = 1
		}
		left[i].amount -= freed
		helps = helps || freed > 0
	}
	return helps
}

// mustRun reports whether a pod would come back to its node, or is critical for the cluster or for
// the node.
func mustRun(pod *corev1.Pod) bool {
	return podfields.StaysWithNode(pod) || strings.HasPrefix(pod.Spec.PriorityClassName, "system-")
}

// uncordon tries nodes that only their being unschedulable keeps from the pod.
func (e *explainer) uncordon(ctx context.Context) ([]suggestion, error) {
	cordoned := slices.DeleteFunc(e.only(names.NodeUnschedulable, names.TaintToleration),
		func(n *refusedNode) bool { return !n.Node().Spec.Unschedulable })
	return tryEach(cordoned, maxAttempts, 1, func(n *refusedNode) (*suggestion, error) {
		changed := n.Node().DeepCopy()
		changed.Spec.Unschedulable = false
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		if fits, err := e.fitsOnChanged(ctx, n.Node(), changed); err != nil || !fits {
			return nil, err
		}
		return suggested(v1alpha1.SuggestionUncordon, "Make a cordoned node"+ofPool(n.pool)+" schedulable.", n.pool,
			n.name(), 1, Change{Node: changed}), nil
	})
}

// untolerated returns the taints of a node that keep the pod away.
func untolerated(pod *corev1.Pod, node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!corev1helpers.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, &taint, true) {
			taints = append(taints, taint)
		}
	}
	return taints
}

// taintedNodes are nodes that the same taints alone keep from the pod.
type taintedNodes struct {
	*refusedNode
	taints []corev1.Taint
	nodes  int
	// pool is the pool of all of them, or nodepool.None.
	pool string
}

// tainted returns the nodes for each set of taints that alone keeps the pod away. Taints that
// Kubernetes sets by the state of a node are left to it.
func (e *explainer) tainted() []*taintedNodes {
	index := map[string]*taintedNodes{}
	var all []*taintedNodes
	for _, n := range e.only(names.TaintToleration) {
		taints := untolerated(e.pod, n.Node())
		if slices.ContainsFunc(taints, isOfState) {
			continue
		}
		key := taintsText(taints)
		t := index[key]
		if t == nil {
			t = &taintedNodes{refusedNode: n, taints: taints, pool: n.pool}
			index[key] = t
			all = append(all, t)
		}
		if t.nodes++; t.pool != n.pool {
			t.pool = nodepool.None
		}
	}
	return all
}

// removeTaints tries nodes that only taints keep from the pod.
func (e *explainer) removeTaints(ctx context.Context) ([]suggestion, error) {
	return tryEach(e.tainted(), maxAttempts, maxOfType, func(n *taintedNodes) (*suggestion, error) {
		changed := n.Node().DeepCopy()
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints,
			func(t corev1.Taint) bool { return slices.Contains(n.taints, t) })
		if fits, err := e.fitsOnChanged(ctx, n.Node(), changed); err != nil || !fits {
			return nil, err
		}
		description := fmt.Sprintf("Remove the %s from %s%s.", taintsText(n.taints), oneOf(n.nodes), ofPool(n.pool))
		return suggested(v1alpha1.SuggestionRemoveTaint, description, n.pool, n.name(), n.nodes, Change{Node: changed}),
			nil
	})
}

// addNodes tries another node of each pool.
func (e *explainer) addNodes(ctx context.Context) ([]suggestion, error) {
	if len(e.everywhere) > 0 {
		return nil, nil
	}
	models := e.models(func(*corev1.Node) bool { return true })
	return tryEach(models, maxPools, maxOfType, func(m *model) (*suggestion, error) {
		added, err := e.addNode(ctx, m)
		if err != nil || added == nil {
			return nil, err
		}
		return m.suggestion(1, added), nil
	})
}

// suggestion returns the suggestion to add nodes, of which one is given.
func (m *model) suggestion(count int, added *corev1.Node) *suggestion {
	s := suggested(v1alpha1.SuggestionAddNode, m.text(count), m.pool, "", 0, Change{Node: added})
	s.Count, s.like = int32(count), m.NodeInfo
	if m.pool == nodepool.None {
		s.Node = m.Node().Name // the description names it
	}
	return s
}

// addNode returns a node like another one, if the pod fits on it beside the pods that stay
// with such a node.
func (e *explainer) addNode(ctx context.Context, like *model) (added *corev1.Node, err error) {
	node, remove, err := e.fork.AddNodeLike(like.NodeInfo, "another-")
	defer func() {
		remove()
		err = e.restored(err)
	}()
	if err != nil {
		return nil, err
	}
	fit, err := e.fork.FirstFit(ctx, e.instance, e.pod, node.Name)
	if err != nil || fit == "" {
		return nil, err
	}
	return node, nil
}
