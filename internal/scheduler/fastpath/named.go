// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// namesNodes says whether every term of a pod's required node affinity names nodes, as DaemonSets'
// pods do. NodeAffinity has PreFilter name these then.
func namesNodes(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		named := false
		for j := range terms[i].MatchFields {
			field := &terms[i].MatchFields[j]
			named = named || field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn
		}
		if !named {
			return false
		}
	}
	return len(terms) > 0
}

// onlyNames says whether a pod's required node affinity says nothing else: each term is one name.
func onlyNames(pod *corev1.Pod) bool {
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		t := &terms[i]
		if len(t.MatchExpressions) > 0 || len(t.MatchFields) != 1 || len(t.MatchFields[0].Values) != 1 {
			return false
		}
	}
	return true
}

// withoutNames returns the pod without its required node affinity.
func withoutNames(pod *corev1.Pod) *corev1.Pod {
	own, affinity, nodeAffinity := *pod, *pod.Spec.Affinity, *pod.Spec.Affinity.NodeAffinity
	nodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	affinity.NodeAffinity = &nodeAffinity
	if len(nodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		affinity.NodeAffinity = nil
	}
	own.Spec.Affinity = &affinity
	return &own
}

// decideNamed decides about a pod that names the nodes it may run on. But for the names it is of
// one class with all others of its DaemonSet, and what is known of that class is looked up for the
// nodes it names. If more than one is left, the scalar path chooses; it does so, too, where the
// names matter to more than NodeAffinity: to PodTopologySpread, which counts on the nodes only that
// the pod's node affinity admits.
func (e *Engine) decideNamed(ctx context.Context, g *instance, state fwk.CycleState, pod *corev1.Pod) (Decision, Reason) {
	if !onlyNames(pod) || g.spreadFilters && mayBeSpread(g.topology, pod) {
		return Decision{}, NodeNames
	}
	start := time.Now()
	c, prepared, reason := e.ready(ctx, g, state, pod, withoutNames(pod))
	if reason != None {
		return Decision{}, reason
	}
	e.account(c)
	e.last, e.lastNamed = c, true
	evaluated := e.filterNamed(c, pod)
	if err := e.leaveOutReserved(ctx, c, pod); err != nil {
		return Decision{}, Failed
	}
	if e.rest.active() {
		if _, err := e.filterRest(ctx, g.Plan, 0, pod); err != nil {
			return Decision{}, Failed
		}
	}
	switch {
	case len(e.feasible) == 0:
		return Decision{}, NoFit
	case len(e.feasible) > 1:
		return Decision{}, NodeNames
	case c.local.extended && !g.devicesSkip(ctx, pod):
		e.dropRows(c.local) // as in Decide
		return Decision{}, Devices
	}
	g.preFilterDuration.Observe(prepared.Sub(start).Seconds())
	g.filterDuration.Observe(time.Since(prepared).Seconds())
	e.chosen.reset(e.feasible)
	return Decision{
		Best: &e.chosen, Feasible: 1, Evaluated: evaluated, Class: cache.Class{ID: c.id, Like: c.like}, Rest: e.rest.reason,
	}, None
}

// filterNamed collects those nodes of which a pod names that it fits, and returns how many it names
// that exist and that PreFilter of the rest has left.
func (e *Engine) filterNamed(c *class, pod *corev1.Pod) int {
	e.feasible = e.feasible[:0]
	e.beginMarks()
	named := 0
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		name := terms[i].MatchFields[0].Values[0]
		slot, ok := e.snapshot.SlotOf(name)
		if !ok || !e.mark(slot) || !e.allows(name) {
			continue
		}
		named++
		if c.local.verdict[slot] == fits {
			e.feasible = append(e.feasible, slot)
		}
	}
	e.keep(c)
	return named
}

// mayBeSpread says whether PodTopologySpread may refuse nodes to a pod.
func mayBeSpread(twins *topology.Factory, pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return true
	}
	if twins == nil || twins.SpreadArgs == nil {
		return false // alone asks the plugin
	}
	// The constraints that are built in only score.
	return twins.SpreadArgs.DefaultingType != schedconfig.SystemDefaulting && len(twins.SpreadArgs.DefaultConstraints) > 0
}
