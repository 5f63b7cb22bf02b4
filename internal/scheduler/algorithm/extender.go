// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// extenderScoreScale scales the scores of extenders, which are at most MaxExtenderPriority, to the
// range of plugin scores.
const extenderScoreScale = fwk.MaxScore / extenderv1.MaxExtenderPriority

// findNodesThatPassExtenders passes the nodes from one extender to the next; each gets the nodes
// that the previous one has accepted. It records refusals in the diagnosis. It logs the error of an
// ignorable extender, which has no other effect.
func (s *scalarAttempt) findNodesThatPassExtenders(ctx context.Context, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, error) {
	for _, extender := range s.Extenders {
		if len(nodes) == 0 {
			break
		}
		if !extender.IsFilter() || !extender.IsInterested(s.pod) {
			continue
		}
		passed, failed, unresolvable, err := s.filterByExtender(ctx, extender, nodes)
		if err != nil {
			if extender.IsIgnorable() {
				klog.FromContext(ctx).Info("Skipping extender as it returned error and has ignorable flag set",
					"extender", extender.Name(), "pod", klog.KObj(s.pod), "err", err)
				continue
			}
			return nil, err
		}
		for node, reason := range failed {
			s.diagnosis.NodeToStatus.Set(node, fwk.NewStatus(fwk.Unschedulable, reason))
		}
		// These come last, so that they win for nodes that are in both maps.
		for node, reason := range unresolvable {
			s.diagnosis.NodeToStatus.Set(node, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason))
		}
		nodes = passed
	}
	return nodes, nil
}

func (s *scalarAttempt) filterByExtender(ctx context.Context, extender fwk.Extender, nodes []fwk.NodeInfo) (
	passed []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error,
) {
	defer func() {
		if value := recover(); value != nil {
			err = extenderPanic(ctx, extender, "filter", value)
		}
	}()
	return extender.Filter(s.pod, nodes)
}

// addExtenderScores calls the extenders that prioritize, all at the same time, and adds their
// weighted scores to the scores of the plugins. If an extender fails, the pod is scheduled without
// its scores.
func (s *scalarAttempt) addExtenderScores(ctx context.Context, nodes []fwk.NodeInfo, scores []fwk.NodePluginScores) {
	answers := make([]map[string]int64, len(s.Extenders))
	var wg sync.WaitGroup
	for i, extender := range s.Extenders {
		if !extender.IsPrioritizer() || !extender.IsInterested(s.pod) {
			continue
		}
		wg.Go(func() {
			goroutines := schedmetrics.Goroutines.WithLabelValues(schedmetrics.PrioritizingExtender)
			goroutines.Inc()
			defer goroutines.Dec()
			answer, err := s.prioritizeByExtender(ctx, extender, nodes)
			if err != nil {
				klog.FromContext(ctx).V(5).
					Info("Failed to run extender's priority function. No score given by this extender.",
						"error", err, "pod", klog.KObj(s.pod), "extender", extender.Name())
				return
			}
			answers[i] = answer
		})
	}
	wg.Wait()
	for i, answer := range answers {
		name := s.Extenders[i].Name()
		for n := range scores {
			if score, ok := answer[scores[n].Name]; ok {
				scores[n].Scores = append(scores[n].Scores, fwk.PluginScore{Name: name, Score: score})
				scores[n].TotalScore += score
			}
		}
	}
}

// prioritizeByExtender returns one extender's weighted scores by node.
func (s *scalarAttempt) prioritizeByExtender(
	ctx context.Context, extender fwk.Extender, nodes []fwk.NodeInfo,
) (scores map[string]int64, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = extenderPanic(ctx, extender, "prioritize", value)
		}
	}()
	list, weight, err := extender.Prioritize(s.pod, nodes)
	if err != nil || list == nil {
		return nil, err
	}
	scores = make(map[string]int64, len(*list))
	for _, entry := range *list {
		scores[entry.Host] += entry.Score * weight * extenderScoreScale
	}
	return scores, nil
}

// extenderPanic returns the error for a panic in an extender's code. Only the one pod fails.
func extenderPanic(ctx context.Context, extender fwk.Extender, verb string, value any) error {
	err := fmt.Errorf("extender %q panicked at %s: %v", extender.Name(), verb, value)
	klog.FromContext(ctx).Error(err, "Extender panicked", "extender", extender.Name(), "stack", string(debug.Stack()))
	return err
}
