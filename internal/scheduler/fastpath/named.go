// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// namesNodes reports whether every term of a pod's required node affinity names nodes, as in
// DaemonSet pods. PreFilter of NodeAffinity then returns these names.
func namesNodes(pod *corev1.Pod) bool {
	required := podfields.RequiredNodeSelector(pod)
	if required == nil {
		return false
	}
	terms := required.NodeSelectorTerms
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

// onlyNames reports whether a pod's required node affinity consists of names only: each term is one
// name.
func onlyNames(pod *corev1.Pod) bool {
	terms := podfields.RequiredNodeSelector(pod).NodeSelectorTerms
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

// decideNamed decides about a pod that names the nodes it may run on. Without the names, all pods
// of its DaemonSet form one class, and decideNamed looks up the rows of that class for the named
// nodes. If more than one node remains, the scalar path chooses. The scalar path also decides if
// the names affect more than NodeAffinity: PodTopologySpread counts only on nodes that the pod's
// node affinity admits, and out-of-tree plugins may read the names. like is the pod, or the part of
// it that determines its class apart from the names.
func (d *decision) decideNamed(ctx context.Context, like *corev1.Pod) Reason {
	if !onlyNames(d.Pod) || d.Plan.spreadFilters && mayBeSpread(d.Plan.topology, d.Pod) {
		return NodeNames
	}
	like = withoutNames(like)
	if !d.Plan.sameOwnKeys(d.Pod, like) {
		return NodeNames
	}
	if reason := d.ready(ctx, like); reason != None {
		return reason
	}
	d.engine.classes.account(d.class)
	d.named = true
	if isNamed(d.Pod, d.Pod.Status.NominatedNodeName) {
		if fit, err := d.decideNominated(ctx); err != nil || fit {
			return d.afterNominated(ctx, err)
		}
	}
	d.filterNamed()
	if d.uncached.active() {
		if _, err := d.keepUncached(ctx, 0); err != nil {
			return Failed
		}
	}
	switch len(d.pass.feasible) {
	case 0:
		return NoFit
	case 1:
		d.laps.filtered = time.Now()
		d.feasible = 1
		d.best.add(d.pass.feasible)
		return d.checkDevices(ctx)
	}
	return NodeNames
}

// afterNominated follows decideNominated, which has failed or has placed the pod.
func (d *decision) afterNominated(ctx context.Context, err error) Reason {
	if err != nil {
		return Failed
	}
	return d.checkDevices(ctx)
}

// isNamed reports whether a pod that names nodes names this one.
func isNamed(pod *corev1.Pod, node string) bool {
	terms := podfields.RequiredNodeSelector(pod).NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return t.MatchFields[0].Values[0] == node
	})
}

// filterNamed collects the named nodes that the pod fits. The nodes that exist and that PreFilter
// of the uncached plugins allows count as evaluated.
func (d *decision) filterNamed() {
	if own := d.Pod.Status.NominatedNodeName; !isNamed(d.Pod, own) && d.exists(own) {
		d.evaluated++ // in kube-scheduler's way, it is the first to be evaluated
	}
	p, snapshot, seen := d.pass, d.engine.snapshot, &d.refresher.seen
	p.feasible, p.sizes = p.feasible[:0], nil
	seen.reset(snapshot.Slots())
	terms := podfields.RequiredNodeSelector(d.Pod).NodeSelectorTerms
	for i := range terms {
		name := terms[i].MatchFields[0].Values[0]
		slot, ok := snapshot.SlotOf(name)
		if !ok || !seen.add(slot) || !d.uncached.allows(name) {
			continue
		}
		d.evaluated++
		if d.class.local.verdict[slot] == fits {
			p.feasible = append(p.feasible, slot)
		}
	}
	d.keep()
}

// mayBeSpread reports whether PodTopologySpread may refuse nodes to a pod.
func mayBeSpread(trackers *topology.Factory, pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return true
	}
	if trackers == nil || trackers.SpreadArgs == nil {
		return false // standsAlone asks the plugin
	}
	// The system's default constraints only score.
	return trackers.SpreadArgs.DefaultingType != schedconfig.SystemDefaulting &&
		len(trackers.SpreadArgs.DefaultConstraints) > 0
}
