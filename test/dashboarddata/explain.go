// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboarddata

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Pods that are special: one does not exist, one is bound, and one preempts others.
const (
	Missing    = "missing"
	BoundPod   = "web-7d4f9c6b5d-bound"
	Preemptor  = "urgent-0"
	chosenNode = "ip-10-21-0-7.eu-west-1.compute.internal"
	otherNode  = "ip-10-21-0-9.eu-west-1.compute.internal"
)

// Explain explains a pod.
func (s *Source) Explain(_ context.Context, pod types.NamespacedName, node string,
	_ time.Duration) (*v1alpha1.PodExplanation, error) {
	if err := s.Errors["Explain"]; err != nil {
		return nil, err
	}
	if pod.Name == Missing {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod.Name)
	}
	e := &v1alpha1.PodExplanation{Metadata: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Time: metav1.Now(), SchedulerName: "gpu", Profile: "gpu", Revision: "b47874bsgc", Nodes: int32(s.Nodes)}
	switch {
	case strings.HasPrefix(pod.Name, BoundPod):
		s.explainBound(e)
	case pod.Name == Preemptor:
		e.Verdict = v1alpha1.VerdictWaitingForVictims
		e.Pending = &v1alpha1.PendingExplanation{
			Since: ago(40 * time.Second), Place: "Unschedulable", Attempts: 1, NominatedNode: chosenNode,
			Victims: []v1alpha1.PodReference{{
				Namespace: "batch", Name: "low-0", Controller: "job/low", TerminatingSince: ago(25 * time.Second),
				Finalizers: []string{"example.com/hold"},
			}},
		}
	case pod.Namespace == "ci":
		e.Verdict, e.Profile, e.Feasible = v1alpha1.VerdictWaitingForTurn, "default", 31
		e.Pending = &v1alpha1.PendingExplanation{Since: ago(9 * time.Second), Place: "Active"}
	case pod.Namespace == "shop":
		e.Profile = "default"
		s.explainSpread(e)
	case pod.Namespace == "batch":
		e.Profile = "binpack"
		s.explainRequests(e)
	default:
		s.explainPending(e)
	}
	if node != "" {
		e.Node = compared(node)
	}
	return e, nil
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

func (s *Source) explainPending(e *v1alpha1.PodExplanation) {
	e.Verdict = v1alpha1.VerdictFitsWhenFreed
	e.Message = "It requests 8 nvidia.com/gpu. The node with the most has 6 free." + s.Hostile
	most := resource.MustParse("7")
	short := func(least string, most *resource.Quantity) v1alpha1.Refusal {
		return v1alpha1.Refusal{
			Plugin: "NodeResourcesFit", Reason: v1alpha1.ReasonInsufficientResource, Resolvable: true,
			ShortBy: []v1alpha1.Shortage{{Resource: "nvidia.com/gpu", Quantity: resource.MustParse(least), Nodes: 9,
				Most: most, Node: chosenNode}},
		}
	}
	affinity := v1alpha1.Refusal{Plugin: "NodeAffinity", Reason: v1alpha1.ReasonNodeAffinityMismatch,
		Detail: "does not have gpu-model=a100"}
	e.Pending = &v1alpha1.PendingExplanation{
		Reason: "Unschedulable", Message: "0/400 nodes are available", Since: ago(14 * time.Minute),
		Place: "Unschedulable", Attempts: 14, NextTry: metav1.NewTime(time.Now().Add(170 * time.Second)), Alike: 155,
		Groups: []v1alpha1.NodeGroup{
			{Nodes: 56, Pools: []string{"a100"}, Example: chosenNode, Refusals: []v1alpha1.Refusal{short("2", &most)}},
			{Nodes: 32, Pools: []string{"l4"}, Example: otherNode,
				Refusals: []v1alpha1.Refusal{short("4", nil), affinity}},
			{Nodes: 312, Pools: []string{"general", "highmem"}, Partial: true, Example: otherNode,
				Refusals: []v1alpha1.Refusal{affinity}},
		},
		Suggestions: []v1alpha1.Suggestion{
			{Type: v1alpha1.SuggestionFree, Verified: true, Nodes: 9, Pool: "a100",
				Description: "Free 2 nvidia.com/gpu on one of 9 nodes of the pool a100. Scale down Jobs there: pods " +
					"that they create again may take the room." + s.Hostile},
			{Type: v1alpha1.SuggestionAddNode, Verified: true, Count: 1, Pool: "a100",
				Description: "Add 1 node like those of the pool a100."},
			{Type: v1alpha1.SuggestionReduceRequests, Description: "Request at most 6 nvidia.com/gpu: so much is free on a node."},
		},
		WaitsFor: []v1alpha1.EventAwaited{{Event: "AssignedPod/Delete", Plugins: []string{"NodeResourcesFit"}},
			{Event: "Node/Add", Plugins: []string{"NodeResourcesFit", "NodeAffinity"}}},
		PodGroup: &v1alpha1.PodGroupFit{Name: "llama-train", Needed: 16, Ready: 16, Fit: 11,
			Domain: "example.com/rack=r7", Tried: []v1alpha1.DomainFit{
				{Domain: "example.com/rack=r7", Fit: 11}, {Domain: "example.com/rack=r2", Fit: 9}}},
	}
}

func (s *Source) explainSpread(e *v1alpha1.PodExplanation) {
	e.Verdict = v1alpha1.VerdictFitsWhenFreed
	e.Pending = &v1alpha1.PendingExplanation{Since: ago(10 * time.Minute), Place: "Backoff", Attempts: 2, Alike: 38,
		Groups: []v1alpha1.NodeGroup{{Nodes: 133, Pools: []string{"general"}, Example: otherNode,
			Refusals: []v1alpha1.Refusal{{Plugin: "PodTopologySpread", Reason: v1alpha1.ReasonTopologySpread,
				Detail: "would exceed the maximum skew 1 of topology.kubernetes.io/zone"}}}},
		Suggestions: []v1alpha1.Suggestion{{Type: v1alpha1.SuggestionUncordon, Verified: true, Node: otherNode, Fits: 12,
			Description: "Make one of 3 nodes of the pool general schedulable."}}}
}

func (s *Source) explainRequests(e *v1alpha1.PodExplanation) {
	e.Verdict = v1alpha1.VerdictNeverFits
	e.Message = "It requests 1600Gi memory, and the largest node that it may be on has 1152Gi."
	e.Pending = &v1alpha1.PendingExplanation{Since: ago(12 * time.Minute), Place: "Unschedulable", Attempts: 3,
		Groups: []v1alpha1.NodeGroup{{Nodes: int32(s.Nodes), Pools: []string{"general", "highmem", "a100", "l4"},
			Example: otherNode, Refusals: []v1alpha1.Refusal{{Plugin: "NodeResourcesFit",
				Reason:  v1alpha1.ReasonInsufficientResource,
				ShortBy: []v1alpha1.Shortage{{Resource: "memory", Quantity: resource.MustParse("448Gi")}}}}}},
		Suggestions: []v1alpha1.Suggestion{{Type: v1alpha1.SuggestionReduceRequests,
			Description: "Request at most 611Gi memory: so much is free on a node."}}}
}

func (s *Source) explainBound(e *v1alpha1.PodExplanation) {
	e.Verdict, e.Feasible = v1alpha1.VerdictBound, 112
	e.Bound = &v1alpha1.BoundExplanation{Node: chosenNode, Basis: v1alpha1.BasisRecorded, Changes: 42,
		Decided: ago(7 * time.Minute), Tied: 2, Top: []v1alpha1.NodeScore{
			score(chosenNode, 91, 88), score(otherNode, 90, 88),
			score("ip-10-22-0-3.eu-west-1.compute.internal", 71, 88)}}
}

func score(node string, fit, spread int64) v1alpha1.NodeScore {
	return v1alpha1.NodeScore{Node: node, Total: fit + 2*spread + 100, Scores: map[string]int64{
		"NodeResourcesFit": fit, "PodTopologySpread": 2 * spread, "TaintToleration": 100}}
}

func compared(node string) *v1alpha1.NodeExplanation {
	n := &v1alpha1.NodeExplanation{Name: node}
	if strings.Contains(node, "-22-") {
		best, own := score(chosenNode, 91, 88), score(node, 71, 88)
		n.Fits, n.Rank, n.Best, n.Score = true, 3, &best, &own
		return n
	}
	n.Refusals = []v1alpha1.Refusal{{Plugin: "NodeResourcesFit", Reason: v1alpha1.ReasonInsufficientResource,
		ShortBy: []v1alpha1.Shortage{{Resource: "nvidia.com/gpu", Quantity: resource.MustParse("2"), Nodes: 1}}}}
	return n
}

// Profiles returns a profile in each of the states that users meet.
func (s *Source) Profiles(context.Context) ([]v1alpha1.SchedulerProfile, error) {
	if err := s.Errors["Profiles"]; err != nil {
		return nil, err
	}
	ready := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		programmed := v1alpha1.ReasonProgrammed
		if status != metav1.ConditionTrue {
			programmed = v1alpha1.ReasonKeptLastGood
		}
		return []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message},
			{Type: v1alpha1.ConditionProgrammed, Status: status, Reason: programmed, Message: message},
		}
	}
	profile := func(name, revision string, since time.Duration,
		conditions []metav1.Condition) v1alpha1.SchedulerProfile {
		p := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.SchedulerName, p.Status.Conditions = name, conditions
		p.Status.Active = &v1alpha1.ActiveProfile{Revision: revision, Since: ago(since)}
		return p
	}
	canary := profile("default", "m2xk9qpz7f", 26*time.Hour, ready(metav1.ConditionTrue, "Ready", ""))
	canary.Status.SchedulerName = "default-scheduler"
	canary.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutProgressing, Stage: "Canary", Weight: 5,
		CanaryRevision: "c8d2f6h4kl", Message: "2 of 3 owners decided"}
	if rollout := s.Rollout.Load(); rollout != nil {
		canary.Status.Rollout = rollout
	}
	shadow := profile("default-next", "t5r7w2nbvc", 3*time.Hour, ready(metav1.ConditionTrue, "Ready", ""))
	shadow.Status.SchedulerName = ""
	shadow.Spec.Mode, shadow.Spec.Shadow = v1alpha1.ProfileShadow, &v1alpha1.ShadowSpec{
		ProfileRef: v1alpha1.ProfileReference{Name: "default"}}
	shadow.Status.Shadow = &v1alpha1.ShadowStatus{Profile: "default", Decisions: 18233, Agreed: 17904}
	return []v1alpha1.SchedulerProfile{
		profile("binpack", "pdh8zspwhj", 4*time.Minute, ready(metav1.ConditionTrue, "Ready", "")), canary, shadow,
		profile("gpu", "b47874bsgc", 11*time.Minute, ready(metav1.ConditionFalse, "Invalid",
			`spec.plugins: unknown plugin "NodeResourceFit": did you mean NodeResourcesFit?`+s.Hostile)),
	}, nil
}
