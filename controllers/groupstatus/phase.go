// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The phases of a PodGroup that are written. The API has more, which scheduler-plugins does not
// write either.
const (
	pending    = "Pending"    // it has fewer pods than it needs
	scheduling = "Scheduling" // it has enough pods, but not enough of them run or have succeeded
	running    = "Running"
	failed     = "Failed"
	finished   = "Finished" // enough pods have succeeded
)

// group is the part of a PodGroup that is read.
type group struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		MinMember int32 `json:"minMember"`
	} `json:"spec"`
	Status status `json:"status"`
}

// status is the part of a PodGroup's status that is kept.
type status struct {
	Phase      string `json:"phase,omitempty"`
	OccupiedBy string `json:"occupiedBy,omitempty"`
	Running    int32  `json:"running"`
	Succeeded  int32  `json:"succeeded"`
	Failed     int32  `json:"failed"`
}

// next returns the status that follows from the pods of a group. A group that has finished keeps
// its status, although its pods may be deleted. One that has failed stays so, but its pods are
// counted: their owner may replace them, and the scheduler reads how many have succeeded.
func (s status) next(minMember int32, pods []*member) status {
	if s.Phase == finished {
		return s
	}
	// The schema of the CRD allows no minimum below 1, but the field may be missing.
	minMember = max(1, minMember)
	next := status{Phase: s.Phase, OccupiedBy: s.OccupiedBy}
	for _, pod := range pods {
		switch pod.phase {
		case corev1.PodRunning:
			next.Running++
		case corev1.PodSucceeded:
			next.Succeeded++
		case corev1.PodFailed:
			next.Failed++
		}
	}
	complete := len(pods) >= int(minMember)
	if complete && (s.Phase == "" || s.Phase == pending) {
		if owners := ownersOf(pods); owners != "" {
			next.OccupiedBy = owners
		}
	}
	switch done := next.Running + next.Succeeded; {
	case s.Phase == failed:
	case !complete:
		next.Phase = pending
	case next.Succeeded >= minMember:
		next.Phase = finished
	case next.Failed > 0 && done+next.Failed >= minMember:
		next.Phase = failed
	case done >= minMember:
		next.Phase = running
	default:
		next.Phase = scheduling
	}
	return next
}

// ownersOf returns the owners of the first pod by name, each as namespace/name.
func ownersOf(pods []*member) string {
	first := slices.MinFunc(pods, func(a, b *member) int { return strings.Compare(a.Name, b.Name) })
	owners := make([]string, 0, len(first.owners))
	for _, name := range first.owners {
		owners = append(owners, first.Namespace+"/"+name)
	}
	slices.Sort(owners)
	return strings.Join(owners, ",")
}
