// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// createClaims suggests the claims that the pod names and that do not exist. That is not tried: the
// claims could be of any kind.
func (e *explainer) createClaims(context.Context) (found []suggestion, err error) {
	seen := map[string]bool{}
	for _, r := range e.Pending.PodRefusals {
		claim, ok := strings.CutSuffix(r.Detail, notThere)
		if r.Reason != v1alpha1.ReasonClaimNotFound || !ok || seen[claim] {
			continue
		}
		seen[claim] = true
		s := suggested(v1alpha1.SuggestionCreateClaim, fmt.Sprintf("Create %s.", claim), "", "", 0, Change{})
		s.Verified = false
		found = append(found, *s)
	}
	return found, nil
}

// tolerate tries nodes that only taints keep from the pod.
func (e *explainer) tolerate(ctx context.Context) ([]suggestion, error) {
	return tryEach(e.tainted(), maxAttempts, maxOfType, func(n *taintedNodes) (*suggestion, error) {
		pod := e.pod.DeepCopy()
		for _, taint := range n.taints {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
			})
		}
		fit, err := e.fork.FirstFit(ctx, e.instance, pod, n.name())
		if err != nil || fit == "" {
			return nil, err
		}
		description := fmt.Sprintf("Let the pod tolerate the %s of %s%s.", taintsText(n.taints), count(n.nodes),
			ofPool(n.pool))
		return suggested(v1alpha1.SuggestionTolerate, description, n.pool, fit, n.nodes, Change{Pod: pod}), nil
	})
}

func count(nodes int) string {
	if nodes == 1 {
		return "one node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}

// relaxNodeAffinity tries the pod without its demands on labels of nodes.
func (e *explainer) relaxNodeAffinity(ctx context.Context) ([]suggestion, error) {
	pod := e.pod.DeepCopy()
	required := podfields.RequiredNodeSelector(pod)
	if isForOneNode(pod) != "" || len(pod.Spec.NodeSelector) == 0 && required == nil {
		return nil, nil
	}
	pod.Spec.NodeSelector = nil
	if required != nil {
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	return e.relax(ctx, v1alpha1.SuggestionRelaxNodeAffinity, pod,
		"Relax the node selector or the required node affinity of the pod.", names.NodeAffinity)
}

// relaxPodAffinity tries the pod without its demands on other pods.
func (e *explainer) relaxPodAffinity(ctx context.Context) ([]suggestion, error) {
	pod := e.pod.DeepCopy()
	demands := false
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			demands, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = true, nil
		}
		if affinity.PodAntiAffinity != nil &&
			len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			demands, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = true, nil
		}
	}
	if !demands {
		return nil, nil
	}
	return e.relax(ctx, v1alpha1.SuggestionRelaxPodAffinity, pod,
		"Relax the required pod affinity or anti-affinity of the pod.", names.InterPodAffinity)
}

// relaxSpread tries the pod with constraints that are preferences.
func (e *explainer) relaxSpread(ctx context.Context) ([]suggestion, error) {
	pod := e.pod.DeepCopy()
	demands := false
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		demands = demands || constraint.WhenUnsatisfiable == corev1.DoNotSchedule
		constraint.WhenUnsatisfiable = corev1.ScheduleAnyway
		constraint.MinDomains = nil
	}
	if !demands {
		return nil, nil
	}
	return e.relax(ctx, v1alpha1.SuggestionRelaxTopologySpread, pod,
		"Let the pod be placed although its topology spread constraints are not satisfied (ScheduleAnyway).",
		names.PodTopologySpread)
}

// relax tries a pod that demands less on the nodes that only this plugin refuses.
func (e *explainer) relax(ctx context.Context, of v1alpha1.SuggestionType, pod *corev1.Pod,
	description, plugin string) ([]suggestion, error) {
	nodes := e.only(plugin)
	if len(nodes) == 0 {
		return nil, nil
	}
	fit, err := e.fork.FirstFit(ctx, e.instance, pod, namesOf(nodes[:min(len(nodes), maxAttempts)])...)
	if err != nil || fit == "" {
		return nil, err
	}
	return []suggestion{*suggested(of, description, "", fit, len(nodes), Change{Pod: pod})}, nil
}
