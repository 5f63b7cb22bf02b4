// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// ErrNoDecisionLog means that this replica records no decisions.
var ErrNoDecisionLog = errors.New("decisions are not recorded: --decision-log-size is 0")

// LatestDecisions returns at most limit decisions, the latest first: those about pods of a
// namespace, or all if it is "". Pods that are gone are in no namespace. Only the leader has
// decisions. Ready must be closed. The error is ErrNoDecisionLog, or that of a lister.
func (s *Scheduler) LatestDecisions(namespace string, limit int) ([]v1alpha1.Decision, error) {
	log := s.Decisions()
	if log == nil {
		return nil, ErrNoDecisionLog
	}
	pods, err := s.parts.pods.Pods(namespace).List(labels.Everything()) // "" means all of them
	if err != nil {
		return nil, err
	}
	byUID := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byUID[pod.UID] = pod
	}
	read := limit
	if namespace != "" {
		read = log.Size()
	}
	recorded, decisions := log.Last(read), []v1alpha1.Decision{}
	for i := len(recorded) - 1; i >= 0 && len(decisions) < limit; i-- {
		pod := byUID[recorded[i].Pod]
		if pod == nil && namespace != "" {
			continue
		}
		decisions = append(decisions, decisionOf(&recorded[i], pod))
	}
	return decisions, nil
}

// decisionOf describes a decision about a pod, which is nil if the pod is gone.
func decisionOf(d *decisionlog.Decision, pod *corev1.Pod) v1alpha1.Decision {
	out := v1alpha1.Decision{
		Time: metav1.NewMicroTime(d.Time), PodUID: d.Pod, Attempt: int32(d.Attempt), Profile: d.Profile, Revision: d.Revision,
		Result: v1alpha1.DecisionResult(d.Result.String()), Node: d.Node, Domain: d.Domain.String(),
		Nodes: int32(d.Nodes), Feasible: int32(d.Feasible), Total: d.Total, Tied: int32(d.Tied),
	}
	if pod != nil {
		out.Namespace, out.Pod = pod.Namespace, pod.Name
	}
	return out
}
