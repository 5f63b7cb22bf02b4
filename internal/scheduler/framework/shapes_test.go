// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// The interfaces that a plugin may implement, one by one. Tests of the expansion combine them into
// plugins of any shape. None of the methods is ever called.
type (
	doesPreEnqueue        struct{}
	doesQueueSort         struct{}
	doesEvents            struct{}
	doesPreFilter         struct{}
	doesFilter            struct{}
	doesPostFilter        struct{}
	doesPreScore          struct{}
	doesScore             struct{}
	doesReserve           struct{}
	doesPermit            struct{}
	doesPreBind           struct{}
	doesBind              struct{}
	doesPostBind          struct{}
	doesPlacementGenerate struct{}
	doesPlacementScore    struct{}
	doesGroupPostFilter   struct{}
)

func (doesPreEnqueue) PreEnqueue(context.Context, *corev1.Pod) *fwk.Status { return nil }

func (doesQueueSort) Less(_, _ fwk.QueuedEntityInfo) bool { return false }

func (doesEvents) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

func (doesPreFilter) PreFilter(
	context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (doesPreFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (doesFilter) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (doesPostFilter) PostFilter(
	context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, nil
}

func (doesPreScore) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (doesScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}
func (doesScore) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (doesReserve) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}
func (doesReserve) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (doesPermit) Permit(
	context.Context, fwk.CycleState, *corev1.Pod, string,
) (*fwk.Status, time.Duration) {
	return nil, 0
}

func (doesPreBind) PreBindPreFlight(
	context.Context, fwk.CycleState, *corev1.Pod, string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}
func (doesPreBind) PreBind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

func (doesBind) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }

func (doesPostBind) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (doesPlacementGenerate) GeneratePlacements(
	context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, *fwk.Placement,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	return nil, nil
}

func (doesPlacementScore) ScorePlacement(
	context.Context, fwk.PlacementCycleState, fwk.PodGroupInfo, *fwk.PodGroupAssignments,
) (int64, *fwk.Status) {
	return 0, nil
}
func (doesPlacementScore) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return nil }

func (doesGroupPostFilter) PodGroupPostFilter(
	context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc,
) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, nil
}

// shapes returns plugins of many shapes by the names under which they are configured.
func shapes() map[string]fwk.Plugin {
	return map[string]fwk.Plugin{
		"Nothing": named("Nothing"),
		"Events": struct {
			named
			doesEvents
		}{named: "Events"},
		"Gate": struct {
			named
			doesPreEnqueue
		}{named: "Gate"},
		"GateHint": struct {
			named
			doesPreEnqueue
			doesEvents
		}{named: "GateHint"},
		"Sort": struct {
			named
			doesQueueSort
		}{named: "Sort"},
		"SortToo": struct {
			named
			doesQueueSort
			doesScore
		}{named: "SortToo"},
		"Filter": struct {
			named
			doesFilter
		}{named: "Filter"},
		"Filters": struct {
			named
			doesPreFilter
			doesFilter
			doesEvents
		}{named: "Filters"},
		"Preempt": struct {
			named
			doesPreEnqueue
			doesPostFilter
		}{named: "Preempt"},
		"Preempts": struct {
			named
			doesPostFilter
			doesGroupPostFilter
			doesEvents
		}{named: "Preempts"},
		"Score": struct {
			named
			doesScore
		}{named: "Score"},
		"Scores": struct {
			named
			doesPreScore
			doesScore
		}{named: "Scores"},
		"Fit": struct {
			named
			doesPreFilter
			doesFilter
			doesPreScore
			doesScore
			doesEvents
			doesPlacementScore
		}{named: "Fit"},
		"Volumes": struct {
			named
			doesPreFilter
			doesFilter
			doesReserve
			doesPreBind
			doesScore
		}{named: "Volumes"},
		"Gang": struct {
			named
			doesPreEnqueue
			doesReserve
			doesPermit
			doesPlacementGenerate
		}{named: "Gang"},
		"Binds": struct {
			named
			doesBind
		}{named: "Binds"},
		"BindsToo": struct {
			named
			doesBind
			doesPostBind
		}{named: "BindsToo"},
		"Post": struct {
			named
			doesPostBind
		}{named: "Post"},
		"Placed": struct {
			named
			doesPlacementGenerate
			doesPlacementScore
			doesGroupPostFilter
		}{named: "Placed"},
		// Its own name differs from that in the configuration.
		"Alias": struct {
			named
			doesFilter
			doesScore
		}{named: "Renamed"},
		"AliasFilt": struct {
			named
			doesFilter
		}{named: "RenamedToo"},
	}
}
