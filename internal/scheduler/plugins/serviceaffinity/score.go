// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaffinity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/scheduler/plugins/siblings"
)

const selectorKey fwk.StateKey = "PreScore" + Name

var _ fwk.PreScorePlugin = &ServiceAffinity{}

// PreScore finds the first service of the pod. A pod without a service is not spread. It skips if
// there are no labels to spread over.
func (pl *ServiceAffinity) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) *fwk.Status {
	if len(pl.args.AntiAffinityLabelsPreference) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	services, err := helper.GetPodServices(pl.services, pod)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing the services of the pod: %w", err))
	}
	selector := labels.Nothing()
	if len(services) > 0 && len(services[0].Spec.Selector) > 0 {
		selector = labels.SelectorFromSet(services[0].Spec.Selector)
	}
	siblings.Remember(state, selectorKey, selector)
	return nil
}

// Score counts the pods of the service on the node.
func (pl *ServiceAffinity) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	return siblings.Count(state, selectorKey, pod, nodeInfo)
}

// ScoreExtensions implements fwk.ScorePlugin.
func (pl *ServiceAffinity) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore turns the counts into scores: for each label, the share of the service's pods that
// are on nodes with another value, averaged over the labels. A node without a label scores 0 for
// it.
func (pl *ServiceAffinity) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	nodes := make([]*corev1.Node, len(scores))
	var total int64
	for i, score := range scores {
		nodeInfo, err := pl.nodes.Get(score.Name)
		if err != nil {
			return fwk.AsStatus(fmt.Errorf("looking up node %q: %w", score.Name, err))
		}
		nodes[i] = nodeInfo.Node()
		total += score.Score
	}
	sums := make([]float64, len(scores))
	for _, key := range pl.args.AntiAffinityLabelsPreference {
		perValue := map[string]int64{}
		for i, node := range nodes {
			if value, ok := node.Labels[key]; ok {
				perValue[value] += scores[i].Score
			}
		}
		for i, node := range nodes {
			if value, ok := node.Labels[key]; ok {
				sums[i] += siblings.Score(perValue[value], total) / float64(len(pl.args.AntiAffinityLabelsPreference))
			}
		}
	}
	for i, sum := range sums {
		scores[i].Score = int64(sum)
	}
	return nil
}
