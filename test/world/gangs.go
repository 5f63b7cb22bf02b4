// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// gangs are what the world knows of the groups of both kinds beyond their objects, by name. Names
// belong to one kind.
type gangs struct {
	// templates are pods like those of a group.
	templates map[string]*corev1.Pod
	// plain are the groups whose pods only need resources.
	plain map[string]bool
	// broken are the groups that have lost a pod with a node, or whose minimum has changed, and
	// that have not had enough pods since. They may rest with fewer pods than they need.
	broken map[string]bool
	// disturbed is when a process may last have been unable to bind a group as a whole: a binding
	// failed or was late, or the process ended or had no API server at that time. Bindings that
	// fail are tried again one by one, when others may have taken the room.
	disturbed map[string]time.Time
	// unwritten is when a write of the status of a PodGroup of Kubernetes failed last, was late, or
	// may have been lost with its process. One that was sent later and has succeeded ends that.
	unwritten map[string]time.Time
	// adopted are the PodGroups of Kubernetes that were created when pods of the group may have had
	// nodes, and that have not been without them for a while.
	adopted map[string]bool
	// scheduled is when PodGroups of Kubernetes have said last that they were scheduled, and
	// doubtful are those that were disturbed around that time: they may never have been complete.
	scheduled map[string]time.Time
	doubtful  map[string]bool
	// bound is when a pod of a group was bound last, and complete are the groups that had enough of
	// them.
	bound    map[string]time.Time
	complete map[string]bool
	// former are the minimums that PodGroups of Kubernetes had before they were changed last.
	former map[string]formerMinimum
}

// formerMinimum is how many pods a group needed until a time.
type formerMinimum struct {
	least int
	until time.Time
}

func newGangs() *gangs {
	return &gangs{templates: map[string]*corev1.Pod{}, plain: map[string]bool{}, broken: map[string]bool{},
		disturbed: map[string]time.Time{}, unwritten: map[string]time.Time{}, adopted: map[string]bool{},
		scheduled: map[string]time.Time{}, doubtful: map[string]bool{},
		bound: map[string]time.Time{}, complete: map[string]bool{},
		former: map[string]formerMinimum{}}
}

// groupOf returns the name of the group of a pod, "" if it has none. The field counts, not the
// label, if a pod has both.
func groupOf(pod *corev1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil {
		return ptr.Deref(group.PodGroupName, "")
	}
	return pod.Labels[podgroup.Label]
}

// least returns how many pods of a group must be bound together: none if they are bound one by one.
func (w *World) least(name string) (n int, exists bool) {
	if group := w.cluster.podGroups[podGroupKey(name)]; group != nil {
		if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
			n = int(gang.MinCount)
		}
		return n, true
	}
	group := w.cluster.groups[groupKey(name)]
	if group == nil {
		return 0, false
	}
	least, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	w.must(err)
	return int(least), true
}

// members returns the pods of a group that do not end.
func (w *World) members(group string) (pods []*corev1.Pod) {
	for _, pod := range sorted(w.cluster.pods) {
		if groupOf(pod) == group && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// gang is a group now.
type gang struct {
	world   *World
	name    string
	least   int
	bound   int
	pending []*corev1.Pod
}

// gang returns a group, nil if it does not exist.
func (w *World) gang(name string) *gang {
	least, exists := w.least(name)
	if !exists {
		return nil
	}
	g := &gang{world: w, name: name, least: least}
	for _, pod := range w.members(name) {
		if pod.Spec.NodeName == "" {
			g.pending = append(g.pending, pod)
		} else {
			g.bound++
		}
	}
	return g
}

// gangs returns all groups.
func (w *World) gangs() (all []*gang) {
	for _, group := range sorted(w.cluster.groups) {
		all = append(all, w.gang(group.GetName()))
	}
	for _, group := range sorted(w.cluster.podGroups) {
		all = append(all, w.gang(group.Name))
	}
	return all
}

// memberChanged sees a change of a pod.
func (w *World) memberChanged(before, after *corev1.Pod) {
	gangs := w.cluster.gangs
	if before != nil && before.Spec.NodeName != "" && (after == nil || after.DeletionTimestamp != nil ||
		after.Spec.NodeName == "") { // etcd was restored
		gangs.broken[groupOf(before)] = true
	}
	if after == nil {
		w.memberGone(before)
		return
	}
	g := w.gang(groupOf(after))
	if g == nil || after.Spec.NodeName == "" || before != nil && before.Spec.NodeName != "" {
		return
	}
	gangs.bound[g.name] = time.Now()
	least := g.least
	if former, ok := gangs.former[g.name]; ok && time.Since(former.until) < maxLate { // livesched may have known that
		least = min(least, former.least)
	}
	if g.bound >= least {
		gangs.complete[g.name] = true
	}
	if g.bound >= g.least {
		delete(gangs.broken, g.name)
	}
	if time.Since(w.interrupted) < maxLate {
		gangs.disturb(g.name)
		gangs.unwritten[g.name] = time.Now()
	}
}

// memberGone sees that a pod is gone.
func (w *World) memberGone(pod *corev1.Pod) {
	name := groupOf(pod)
	w.releasePodGroup(name)
	if pod.Spec.NodeName == "" && usesDevices(pod) { // it may have waited for them, while others were bound
		w.cluster.gangs.disturb(name)
	}
	if !w.hasNodes(name) {
		w.after(lateness, func() {
			if !w.hasNodes(name) {
				delete(w.cluster.gangs.adopted, name)
			}
		})
	}
}

// hasNodes reports whether pods of a group have nodes, also if they end.
func (w *World) hasNodes(group string) bool {
	for _, pod := range w.cluster.pods {
		if groupOf(pod) == group && pod.Spec.NodeName != "" {
			return true
		}
	}
	return false
}

// disturb notes that a group may just not be bound as a whole.
func (g *gangs) disturb(name string) {
	g.disturbed[name] = time.Now()
	if time.Since(g.scheduled[name]) < lateness {
		g.doubtful[name] = true
	}
}

// interrupt notes that a process ends, or has no API server until some time. The pods of a group
// that are not bound yet may be left, or its condition, if it was about to be written.
func (w *World) interrupt(until time.Time) {
	if w.interrupted.Before(until) {
		w.interrupted = until
	}
	gangs := w.cluster.gangs
	for _, g := range w.gangs() {
		if g.bound < g.least && (g.bound > 0 || isScheduled(w.cluster.podGroups[podGroupKey(g.name)])) {
			gangs.disturb(g.name)
		}
		if at, ok := gangs.bound[g.name]; ok && time.Since(at) < maxLate {
			gangs.unwritten[g.name] = time.Now()
		}
	}
}

// disturb notes that a request fails, or is late, which binds a pod of a group, or writes the
// status of one.
func (w *World) disturb(x *exchange) {
	gangs, name := w.cluster.gangs, path.Base(path.Dir(x.req.URL.Path))
	switch {
	case x.message() == messageBinding:
		// Members have the name of their group and a number. They may be gone.
		gangs.disturb(name[:max(0, strings.LastIndex(name, "-"))])
	case writesPodGroup(x):
		gangs.unwritten[name] = time.Now()
	}
}

// writesPodGroup reports whether a request writes the status of a PodGroup of Kubernetes.
func writesPodGroup(x *exchange) bool {
	return strings.HasPrefix(x.req.URL.Path, "/apis/"+schedulingv1beta1.GroupName+"/") && x.message() == messageStatus
}

// checkGroups checks that groups have enough pods with nodes, or none, and that those that have
// none fit nowhere.
func (w *World) checkGroups(judge *judge) {
	for _, g := range w.gangs() {
		g.check(judge)
	}
}

// waits reports whether a pod waits for more than a node of its own: pods of a group that lacks
// pods do.
func (w *World) waits(pod *corev1.Pod) bool {
	name := groupOf(pod)
	if name == "" {
		return false
	}
	g := w.gang(name)
	return g == nil || g.bound < g.least
}

// boundAmid reports whether a group was disturbed, and its last pod was bound no more than lateness
// after that. Pods that are bound later must fit together.
func (g *gangs) boundAmid(name string) bool {
	disturbed := g.disturbed[name]
	return !disturbed.IsZero() && !g.bound[name].After(disturbed.Add(lateness))
}

func (g *gang) check(judge *judge) {
	w := g.world
	if g.bound >= g.least {
		return // its other pods are like pods without a group
	}
	if g.bound > 0 {
		if !w.cluster.gangs.broken[g.name] && !w.cluster.gangs.boundAmid(g.name) {
			w.fail("group %s rests with %d of %d pods", g.name, g.bound, g.least)
			return
		}
		w.counts["groups with too few pods"]++
	}
	// Pods that only need resources are alike: in which order they are placed does not matter.
	if g.bound+len(g.pending) < g.least || !w.cluster.gangs.plain[g.name] {
		return
	}
	w.counts["groups judged"]++
	if n := judge.room(g.pending); g.bound+n >= g.least {
		w.fail("group %s rests with %d of %d pods, and %d more fit", g.name, g.bound, g.least, n)
		w.logSituation(g.pending[0])
		return
	}
	if policy := g.pending[0].Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return
	}
	defer judge.without(corev1helpers.PodPriority(g.pending[0]))()
	if n := judge.room(g.pending); g.bound+n >= g.least {
		w.fail("group %s rests with %d of %d pods, and %d more fit without less important pods", g.name, g.bound,
			g.least, n)
		w.logSituation(g.pending[0])
	}
}
