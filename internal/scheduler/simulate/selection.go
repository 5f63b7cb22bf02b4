// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// The limits of a selection.
const (
	DefaultPods = 2000
	MaxPods     = 5000
)

// Selection selects pods. The zero value of Namespace means all namespaces.
type Selection struct {
	Type      v1alpha1.PodSelectionType
	Limit     int
	Namespace string
	Labels    labels.Selector
}

// subject is a pod that is decided.
type subject struct {
	// pod is the pod without a node.
	pod *corev1.Pod
	// placed is the pod on its node, nil if it is pending.
	placed *corev1.Pod
	owner  owner
}

// node returns the node that the pod is on, or "".
func (s *subject) node() string {
	if s.placed == nil {
		return ""
	}
	return s.placed.Spec.NodeName
}

// selected are the pods of a selection.
type selected struct {
	// subjects are in the order in which they are decided: bound pods as they were scheduled, and
	// then pending pods as they would be.
	subjects []subject
	// matching is the number of pods without the limit, and displaced that of pods on removed nodes
	// that cannot be decided.
	matching, displaced int
}

// choose selects pods. It selects those on removed nodes regardless of the type and the limit. If
// it selects a pending pod of a group, it selects all of them, whatever their labels and the limit:
// none can be placed without the others.
func choose(k *fork.Fork, snapshot *cache.Snapshot, of controllers, pending []*corev1.Pod, s Selection, removed map[string]bool) selected {
	decidable := func(pod *corev1.Pod) bool {
		_, err := k.Profile(pod.Spec.SchedulerName)
		return err == nil && pod.DeletionTimestamp == nil && (s.Namespace == "" || pod.Namespace == s.Namespace)
	}
	matches := func(pod *corev1.Pod) bool { return decidable(pod) && s.Labels.Matches(labels.Set(pod.Labels)) }
	var out selected
	var bound, evicted []boundPod
	var waiting, others []subject
	for _, node := range nodesOf(snapshot) {
		for _, info := range node.GetPods() {
			pod := info.GetPod()
			switch {
			case of.of(pod).stays || k.IsAssumed(pod):
			case !matches(pod):
				if removed[node.Node().Name] {
					out.displaced++
				}
			case removed[node.Node().Name]:
				evicted = append(evicted, boundPod{pod, scheduled(pod)})
			case s.Type != v1alpha1.PodsPending:
				bound = append(bound, boundPod{pod, scheduled(pod)})
			}
		}
	}
	for _, pod := range pending {
		if s.Type == v1alpha1.PodsLast || pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 || k.Pod(pod) != nil || !decidable(pod) {
			continue
		}
		if next := (subject{pod: pod, owner: of.of(pod).owner}); matches(pod) {
			waiting = append(waiting, next)
		} else {
			others = append(others, next)
		}
	}
	out.matching = len(bound) + len(waiting) + len(evicted)
	slices.SortFunc(waiting, byTurn)
	limit := min(len(waiting), s.Limit)
	waiting = withGroups(waiting[:limit], slices.Concat(waiting[limit:], others), k.Groups())
	slices.SortFunc(bound, byScheduling)
	bound = append(bound[min(len(bound), max(0, len(bound)+len(waiting)-s.Limit)):], evicted...)
	slices.SortFunc(bound, byScheduling)
	for i := range bound {
		out.subjects = append(out.subjects, placedSubject(bound[i].pod, of))
	}
	out.subjects = append(out.subjects, waiting...)
	return out
}

// withGroups adds to pending pods the other ones of their groups.
func withGroups(chosen, others []subject, groups *podgroup.Registry) []subject {
	found := sets.New[groupKey]()
	for i := range chosen {
		if key := groupOf(chosen[i].pod, groups); key != (groupKey{}) {
			found.Insert(key)
		}
	}
	if found.Len() == 0 {
		return chosen
	}
	slices.SortFunc(others, byTurn)
	chosen = slices.Clip(chosen)
	for i := range others {
		if found.Has(groupOf(others[i].pod, groups)) {
			chosen = append(chosen, others[i])
		}
	}
	return chosen
}

func placedSubject(pod *corev1.Pod, of controllers) subject {
	unplaced := *pod // shallow: nothing below the spec is changed
	unplaced.Spec.NodeName = ""
	unplaced.Status.NominatedNodeName = ""
	return subject{pod: &unplaced, placed: pod, owner: of.of(pod).owner}
}

// boundPod is a pod and when it was scheduled.
type boundPod struct {
	pod *corev1.Pod
	at  time.Time
}

// byScheduling orders bound pods by the time at which they were scheduled.
func byScheduling(a, b boundPod) int { return cmp.Or(a.at.Compare(b.at), byName(a.pod, b.pod)) }

// byTurn orders pending pods as the queue sort PrioritySort does.
func byTurn(a, b subject) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod)),
		a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), byName(a.pod, b.pod),
	)
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func scheduled(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
