// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// disruptions show the budgets of the cluster to a finder: what they allow after evictions that are
// planned but not begun, which their status does not show. Dry runs read them concurrently.
type disruptions struct {
	*Budgets
	// planned counts the evictions by the UIDs of the budgets that they count against. changed
	// names these budgets in the order of the plans.
	planned map[types.UID]int32
	changed []types.NamespacedName
}

// plan counts the eviction of pods.
func (d *disruptions) plan(pods []*corev1.Pod) {
	for _, pod := range pods {
		for _, b := range d.of(pod.Namespace) {
			if _, counted := b.object.Status.DisruptedPods[pod.Name]; counted ||
				!b.selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if d.planned == nil {
				d.planned = map[types.UID]int32{}
			}
			d.planned[b.object.UID]++
			d.changed = append(d.changed, types.NamespacedName{Namespace: b.object.Namespace, Name: b.object.Name})
		}
	}
}

// remaining returns a budget that allows what the planned evictions leave of it.
func (d *disruptions) remaining(b *budget) *policyv1.PodDisruptionBudget {
	n := d.planned[b.object.UID]
	if n == 0 {
		return b.object
	}
	left := *b.object // shallow: nothing below its status is changed
	left.Status.DisruptionsAllowed -= n
	return &left
}

// budgetRead is what a dry run reads of a budget: of its possible victims, those that the budget
// selects. With an empty name, it is what the dry run reads of the list of a namespace's budgets:
// that no others select its victims.
type budgetRead struct {
	name types.NamespacedName
	// pods are the names of the victims.
	pods []string
	seen seen
}

// seen is what upstream finds out about a budget: for how many of the pods it allows the
// disruption, and which pods it does not count. Upstream counts the others down from what the
// budget allows, and notices only when that falls below zero. So with an equal seen, it takes the
// same pods for ones that violate the budget.
type seen struct {
	allowed int32
	// disrupted has a bit for each pod that is not counted. There may be too many pods for that; if
	// one of them is not counted, allowed is negative, and nothing is known.
	disrupted uint64
}

// enough is seen of a budget that none of the pods violates.
var enough = seen{allowed: math.MaxInt32}

func see(b *policyv1.PodDisruptionBudget, pods []string) seen {
	var disrupted uint64
	counted := len(pods)
	for i, name := range pods {
		if _, ok := b.Status.DisruptedPods[name]; ok {
			counted--
			disrupted |= 1 << (i % 64)
		}
	}
	switch allowed := max(b.Status.DisruptionsAllowed, 0); {
	case int(allowed) >= counted:
		return enough
	case disrupted != 0 && len(pods) > 64:
		return seen{allowed: -1}
	default:
		return seen{allowed: allowed, disrupted: disrupted}
	}
}

// differs reports whether a dry run with this state of the budget may come to another result.
func (r *budgetRead) differs(now *policyv1.PodDisruptionBudget) bool {
	s := see(now, r.pods)
	return s != r.seen || s.allowed < 0
}

// matching returns the budgets that select a possible victim of a pod with this priority, and what
// a dry run with them reads. All others are nothing to upstream, which would parse the selectors of
// all budgets of a namespace for each of its pods.
func (d *disruptions) matching(victims []*schedpreemption.DomainVictim, priority int32,
) (budgets []*policyv1.PodDisruptionBudget, reads []budgetRead) {
	budgets = []*policyv1.PodDisruptionBudget{} // not nil, even if there are none
	var namespaces []string
	var pods []*corev1.Pod
	for _, victim := range victims {
		if victim.Priority() >= priority {
			continue
		}
		for _, info := range victim.Pods() {
			pod := info.GetPod()
			if len(pod.Labels) == 0 { // budgets do not count for it in upstream
				continue
			}
			pods = append(pods, pod)
			if !slices.Contains(namespaces, pod.Namespace) {
				namespaces = append(namespaces, pod.Namespace)
			}
		}
	}
	for _, namespace := range namespaces {
		reads = append(reads, budgetRead{name: types.NamespacedName{Namespace: namespace}})
		for _, b := range d.of(namespace) {
			read := budgetRead{name: types.NamespacedName{Namespace: namespace, Name: b.object.Name}}
			for _, pod := range pods {
				if pod.Namespace == namespace && b.selector.Matches(labels.Set(pod.Labels)) {
					read.pods = append(read.pods, pod.Name)
				}
			}
			if len(read.pods) == 0 {
				continue
			}
			object := d.remaining(b)
			read.seen = see(object, read.pods)
			budgets, reads = append(budgets, object), append(reads, read)
		}
	}
	return budgets, reads
}

// rules are the rules of upstream's plugin. Upstream's evaluator gives them no budgets, as it has
// no lister of these; they take the ones that matter on the node.
type rules struct {
	schedpreemption.Interface
	disruptions *disruptions
}

// SelectVictimsOnNode implements schedpreemption.Interface.
func (r rules) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, preemptor *corev1.Pod,
	node fwk.NodeInfo, possible []*schedpreemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget,
) ([]*corev1.Pod, int, *fwk.Status) {
	if budgets == nil {
		budgets, _ = r.disruptions.matching(possible, corev1helpers.PodPriority(preemptor))
	}
	return r.Interface.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
}
