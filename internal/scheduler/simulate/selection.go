// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podfields"
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
	// Names are the names of the pods. nil: all.
	Names sets.Set[string]
	// Of is the scheduler name of the pods. "": any that has a profile.
	Of string
	// SchedulerName is the scheduler name that the pods get. "": they keep theirs.
	SchedulerName string
}

// decidable reports whether livesched decides a pod, and the pod is in the namespace.
func (s *Selection) decidable(k *fork.Fork, pod *corev1.Pod) bool {
	if s.Of != "" && s.Of != pod.Spec.SchedulerName {
		return false
	}
	var err error
	if s.SchedulerName == "" {
		_, err = k.Profile(pod.Spec.SchedulerName)
	}
	return err == nil && pod.DeletionTimestamp == nil && (s.Namespace == "" || pod.Namespace == s.Namespace)
}

// matches reports whether the selection selects the labels and the name of a pod.
func (s *Selection) matches(pod *corev1.Pod) bool {
	return s.Labels.Matches(labels.Set(pod.Labels)) && (s.Names == nil || s.Names.Has(pod.Name))
}

// pending returns a pending pod as it is decided.
func (s *Selection) pending(pod *corev1.Pod, of *controller) subject {
	if s.SchedulerName != "" && s.SchedulerName != pod.Spec.SchedulerName {
		changed := *pod // shallow: nothing below the spec is changed
		changed.Spec.SchedulerName = s.SchedulerName
		pod = &changed
	}
	return subject{pod: pod, controller: of}
}

// subject is a pod that is decided.
type subject struct {
	// pod is the pod without a node.
	pod *corev1.Pod
	// placed is the pod on its node, nil if it is pending.
	placed     *corev1.Pod
	controller *controller
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
	// matching is the number of pods without the limit, and displaced the number of pods on removed
	// nodes that cannot be decided.
	matching, displaced int
}

// choose selects pods. It selects those on removed nodes regardless of the type and the limit. If
// it selects a pending pod of a group, it selects all of them, whatever their labels and the limit:
// none can be placed without the others. It adds all nodes and pods of the snapshot to the census.
func choose(k *fork.Fork, snapshot *cache.Snapshot, c *census, pending []*corev1.Pod, s Selection,
	removed map[string]bool) selected {
	var out selected
	var others []subject
	waiting := make([]subject, 0, len(pending))
	for _, pod := range pending {
		if s.Type == v1alpha1.PodsLast || pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 ||
			k.Pod(pod) != nil || !s.decidable(k, pod) {
			continue
		}
		if next := s.pending(pod, c.of(pod)); s.matches(pod) {
			waiting = append(waiting, next)
		} else {
			others = append(others, next)
		}
	}
	out.matching = len(waiting)
	waiting, rest := first(waiting, s.Limit, byTurn)
	waiting = withGroups(waiting, rest, others, k.Groups())
	room := max(0, s.Limit-len(waiting))

	var bound, evicted []boundPod
	assumed := k.Assumed()
	for _, node := range nodesOf(snapshot) {
		n, isRemoved := c.addNode(node.Node()), removed[node.Node().Name]
		for _, info := range node.GetPods() {
			pod := info.GetPod()
			of := c.of(pod)
			c.add(n, of, 1)
			switch {
			case of.stays || assumed.Has(pod.UID):
			case !s.decidable(k, pod), !s.matches(pod):
				if isRemoved {
					out.displaced++
				}
			case isRemoved:
				out.matching++
				evicted = append(evicted, boundPod{pod, of, scheduled(pod)})
			case s.Type != v1alpha1.PodsPending:
				out.matching++
				if room > 0 {
					bound = append(bound, boundPod{pod, of, scheduled(pod)})
				}
			}
		}
	}
	latest, _ := first(bound, room, func(a, b boundPod) int { return byScheduling(b, a) })
	bound = append(latest, evicted...)
	slices.SortFunc(bound, byScheduling)
	out.subjects = make([]subject, 0, len(bound)+len(waiting))
	for i := range bound {
		out.subjects = append(out.subjects, bound[i].subject(s.SchedulerName))
	}
	out.subjects = append(out.subjects, waiting...)
	return out
}

// first returns the first n pods in an order, and the rest in any order. There may be many: it
// sorts only pods that may be among the first, at most 2n at a time.
func first[P any](pods []P, n int, order func(a, b P) int) (first, rest []P) {
	switch {
	case n == 0:
		return nil, pods
	case len(pods) <= n:
		slices.SortFunc(pods, order)
		return pods, nil
	}
	first, rest = make([]P, 0, min(2*n, len(pods))), make([]P, 0, len(pods)-n)
	trim := func() {
		slices.SortFunc(first, order)
		rest = append(rest, first[n:]...)
		first = first[:n]
	}
	trimmed := false
	for i := range pods {
		if trimmed && order(pods[i], first[n-1]) > 0 {
			rest = append(rest, pods[i])
			continue
		}
		if first = append(first, pods[i]); len(first) == 2*n {
			trim()
			trimmed = true
		}
	}
	trim()
	return first, rest
}

// withGroups adds to pending pods the other ones of their groups, which are in rest and in others.
func withGroups(chosen, rest, others []subject, groups *podgroup.Registry) []subject {
	found := sets.New[groupKey]()
	for i := range chosen {
		if key := groupOf(chosen[i].pod, groups); key != (groupKey{}) {
			found.Insert(key)
		}
	}
	if found.Len() == 0 {
		return chosen
	}
	others = append(rest, others...)
	slices.SortFunc(others, byTurn)
	for i := range others {
		if found.Has(groupOf(others[i].pod, groups)) {
			chosen = append(chosen, others[i])
		}
	}
	return chosen
}

// boundPod is a pod and when it was scheduled, in nanoseconds since 1970.
type boundPod struct {
	pod        *corev1.Pod
	controller *controller
	at         int64
}

// subject returns the pod as it is decided, with a scheduler name unless that is "".
func (b *boundPod) subject(schedulerName string) subject {
	unplaced := *b.pod // shallow: nothing below the spec is changed
	unplaced.Spec.SchedulerName = cmp.Or(schedulerName, unplaced.Spec.SchedulerName)
	podfields.Unassign(&unplaced)
	unplaced.Status.NominatedNodeName = ""
	return subject{pod: &unplaced, placed: b.pod, controller: b.controller}
}

// byScheduling orders bound pods by the time at which they were scheduled.
func byScheduling(a, b boundPod) int {
	return cmp.Or(cmp.Compare(a.at, b.at), byName(a.pod, b.pod))
}

// byTurn orders pending pods as the queue sort PrioritySort does.
func byTurn(a, b subject) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod)),
		a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
		byName(a.pod, b.pod),
	)
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func scheduled(pod *corev1.Pod) int64 {
	if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.UnixNano()
	}
	return pod.CreationTimestamp.UnixNano()
}
