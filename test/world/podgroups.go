// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

const (
	podGroupPrefix = "/registry/podgroups/"
	// podGroupName is how names of PodGroups of Kubernetes begin.
	podGroupName = "native-"
	// protection is the finalizer of PodGroups that the API server adds.
	protection = scheduling.PodGroupProtectionFinalizer
)

func podGroupKey(name string) string { return podGroupPrefix + metav1.NamespaceDefault + "/" + name }

// servePodGroups sets whether API servers of this process serve PodGroups of Kubernetes. Those of
// worlds whose plan has no such groups do not, as a kube-apiserver by default.
func servePodGroups(serve bool) error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.GenericWorkload): serve})
}

// changePodGroups creates a PodGroup of Kubernetes and its pods, changes or deletes one, or some
// pods of one.
func (w *World) changePodGroups(r *rand.Rand) {
	known := sorted(w.cluster.podGroups)
	kind := r.IntN(10)
	if len(known) == 0 || kind < 3 && len(known) < maxGroups {
		w.addPodGroup(r)
		return
	}
	group := one(r, known).DeepCopy()
	members := w.members(group.Name)
	switch {
	case kind < 5:
		w.addMembers(r, group.Name, 1+r.IntN(2))
	case kind == 5 && group.Spec.SchedulingPolicy.Gang != nil:
		w.log.add("change group %s", group.Name)
		w.cluster.gangs.broken[group.Name] = true
		gang := group.Spec.SchedulingPolicy.Gang
		w.cluster.gangs.former[group.Name] = formerMinimum{int(gang.MinCount), time.Now()}
		gang.MinCount = int32(1 + r.IntN(4))
		w.must(w.cluster.objects.Update(w.ctx, group))
	case kind == 6:
		w.restorePodGroup(r)
	case kind == 7:
		w.deletePodGroup(group)
	case kind > 7 && len(members) > 0:
		w.deletePod(one(r, members))
	default:
		w.deletePodGroup(group)
		for _, pod := range members {
			w.deletePod(pod)
		}
	}
}

// addPodGroup creates a PodGroup of Kubernetes and pods, in some order, enough or not.
func (w *World) addPodGroup(r *rand.Rand) {
	w.counts["native groups"]++
	name := fmt.Sprintf("%s%d", podGroupName, w.counts["native groups"])
	template := w.newMember(r, name)
	objects.InGroup(name)(template)
	if r.IntN(4) == 0 {
		template.Labels[podgroup.Label] = fmt.Sprint("group-", r.IntN(5)) // has no meaning
	}
	least := 2 + r.IntN(3)
	first := r.IntN(least + 1)
	w.addMembers(r, name, first)
	w.createPodGroup(r, name, least)
	w.addMembers(r, name, least-first-1+r.IntN(4))
}

// createPodGroup creates a PodGroup with a gang of so many pods, or with the basic policy.
func (w *World) createPodGroup(r *rand.Rand, name string, least int) {
	if r.IntN(4) == 0 {
		least = 0
	}
	group := objects.KubernetesPodGroup(name, int32(least), "")
	// The world has no admission, which would read a PriorityClass and add the finalizer.
	group.Spec.Priority = ptr.To(corev1helpers.PodPriority(w.cluster.gangs.templates[name]))
	if r.IntN(2) == 0 {
		group.Finalizers = []string{protection}
	}
	if r.IntN(4) == 0 {
		group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	w.log.add("create group %s of %d", name, least)
	w.must(w.cluster.objects.Create(w.ctx, group))
}

// restorePodGroup creates a PodGroup again that has been deleted, and whose pods have not.
func (w *World) restorePodGroup(r *rand.Rand) {
	name := w.withoutGroup(func(name string) bool { return strings.HasPrefix(name, podGroupName) })
	if name != "" {
		w.cluster.gangs.broken[name], w.cluster.gangs.adopted[name] = true, true
		w.createPodGroup(r, name, 1+r.IntN(4))
	}
}

func (w *World) deletePodGroup(group *schedulingv1beta1.PodGroup) {
	w.log.add("delete group %s", group.Name)
	w.must(w.cluster.objects.Delete(w.ctx, group))
}

// podGroupChanged lets the controller see a change that protects PodGroups with pods from their
// deletion.
func (w *World) podGroupChanged(before, after *schedulingv1beta1.PodGroup) {
	if after == nil {
		return
	}
	w.releasePodGroup(after.Name)
	gangs := w.cluster.gangs
	if before == nil || before.UID != after.UID {
		g := w.gang(after.Name)
		gangs.complete[after.Name] = g.bound > 0 && g.bound >= g.least
	}
	if !isScheduled(after) {
		return
	}
	if !isScheduled(before) || before.UID != after.UID {
		gangs.scheduled[after.Name] = time.Now()
		gangs.doubtful[after.Name] = time.Since(gangs.disturbed[after.Name]) < lateness
	}
	if time.Since(w.interrupted) < maxLate {
		gangs.disturb(after.Name) // a process that has ended may not have bound it
	}
}

// isScheduled reports whether a PodGroup says that it was scheduled. It says so once its pods are
// about to be bound.
func isScheduled(group *schedulingv1beta1.PodGroup) bool {
	return group != nil &&
		meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
}

// releasePodGroup lets that controller remove the finalizer of a PodGroup that is being deleted,
// once it has no pods.
func (w *World) releasePodGroup(name string) {
	released := func() *schedulingv1beta1.PodGroup {
		group := w.cluster.podGroups[podGroupKey(name)]
		if group == nil || group.DeletionTimestamp == nil || len(w.members(name)) > 0 {
			return nil
		}
		return group
	}
	if released() == nil {
		return
	}
	w.after(w.kubeletDelay(), func() {
		if group := released(); group != nil {
			group = group.DeepCopy()
			if controllerutil.RemoveFinalizer(group, protection) {
				w.must(w.cluster.objects.Update(w.ctx, group))
			}
		}
	})
}

// checkConditions checks that the PodGroups of Kubernetes say whether they were scheduled.
func (w *World) checkConditions() {
	gangs := w.cluster.gangs
	for _, group := range sorted(w.cluster.podGroups) {
		if !gangs.unwritten[group.Name].IsZero() || group.CreationTimestamp.Time.Before(w.restored) {
			continue
		}
		w.counts["conditions of groups"]++
		if g := w.gang(group.Name); g != nil {
			if err := g.checkCondition(group); err != nil {
				w.fail("group %s has %d of %d pods, %d are pending: %v", g.name, g.bound, g.least, len(g.pending), err)
			}
		}
	}
}

// checkCondition checks the condition of a PodGroup. livesched writes it when it has tried to place
// pods, or has seen that they wait for the group.
func (g *gang) checkCondition(group *schedulingv1beta1.PodGroup) error {
	gangs := g.world.cluster.gangs
	condition := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	tried := len(g.pending) > 0 && !slices.ContainsFunc(g.pending, g.world.lacksClaim)
	complete := g.bound > 0 && g.bound >= g.least
	// A PodGroup that was created when its pods had nodes has not been placed.
	placed := complete && !gangs.adopted[g.name]
	switch {
	case condition == nil:
		if tried || placed {
			return fmt.Errorf("it has no condition")
		}
	case condition.Status == metav1.ConditionTrue:
		if !gangs.complete[g.name] && !gangs.doubtful[g.name] {
			return fmt.Errorf("it was never complete, but its condition is %+v", *condition)
		}
	case condition.Reason == schedulingv1beta1.PodGroupReasonSchedulerError && g.bound+len(g.pending) == 0:
		// No attempt follows the one whose pods were deleted while they were bound.
	case condition.Reason != schedulingv1beta1.PodGroupReasonUnschedulable || condition.Message == "":
		return fmt.Errorf("its condition is %+v", *condition)
	case placed || complete && g.least > 0:
		return fmt.Errorf("it is complete, but its condition is %+v", *condition)
	}
	return nil
}
