// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// victimGroup is a PodGroup whose pods may be preempted by a pod without a group.
type victimGroup struct {
	*schedulingv1beta1.PodGroup
	// priority is that of its pods. They all have the same: which of them comes first in a group
	// that is evicted as a whole is left to chance by kube-scheduler, and the priority of the first
	// one counts when nodes are compared.
	priority int32
}

// makeGroups creates PodGroups.
func (c *contest) makeGroups() {
	c.t.Helper()
	for i := range 2 + c.IntN(8) {
		own := oneOf[int32](c.generator, -10, 0, 10, 20)
		group := &victimGroup{priority: own, PodGroup: &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(c.generator, namespaces), Name: fmt.Sprintf("group-%d", i)},
			Spec:       schedulingv1beta1.PodGroupSpec{Priority: ptr.To(own)},
		}}
		if c.chance(25) {
			group.Spec.Priority = ptr.To(oneOf[int32](c.generator, 0, 30, 50))
		}
		switch c.IntN(4) {
		case 0:
			group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{
				Single: &schedulingv1beta1.SingleDisruptionMode{}}
		case 1, 2:
			group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		}
		c.groups = append(c.groups, group)
		c.theirs.Scheduler.Cache.AddPodGroup(group.PodGroup)
		c.ours.Groups.SetGroup(podgroup.FromPodGroup(group.PodGroup))
	}
}

// join sometimes puts a pod into a group of its namespace.
func (c *contest) join(pod *corev1.Pod) {
	if len(c.groups) == 0 || !c.chance(60) {
		return
	}
	var groups []*victimGroup
	for _, group := range c.groups {
		if group.Namespace == pod.Namespace {
			groups = append(groups, group)
		}
	}
	if len(groups) > 0 {
		group := pick(c.generator, groups)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group.Name)}
		pod.Spec.Priority = ptr.To(group.priority)
	}
}

// holdsGroup reports whether a pod on a node has a group. If the node was removed, preemption of
// the whole group would be an error in kube-scheduler, and would leave the pod there in livesched.
func (c *contest) holdsGroup(node string) bool {
	for _, pod := range c.placed {
		if pod.Spec.NodeName == node && pod.Spec.SchedulingGroup != nil {
			return true
		}
	}
	return false
}

// countGroups counts the groups of which the latest decision preempts pods.
func (c *contest) countGroups(d decision) {
	if d.Nominating == nil || d.Nominating.NominatedNodeName == "" {
		return
	}
	for _, victim := range c.ours.preemption.found[d.Nominating.NominatedNodeName] {
		if victim.Spec.SchedulingGroup != nil {
			c.count["groupVictims"]++
		}
		if victim.Spec.NodeName != d.Nominating.NominatedNodeName {
			c.count["remoteVictims"]++
		}
	}
}

// TestPodsPreemptGroupsAsInKubeScheduler lets pods without a group preempt pods of PodGroups, some
// of which are evicted as a whole. kube-scheduler has its feature gate for groups.
func TestPodsPreemptGroupsAsInKubeScheduler(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.GenericWorkload: true,
	})
	p := playCases(t, defaultCases, func(c *contest) {
		c.crowded = c.chance(80)
		c.makeGroups()
		if c.seed%4 == 0 && !c.sampled && c.ours.Profile.Framework.HasScorePlugins() {
			c.playWithForks()
		} else {
			c.play()
		}
	})
	p.mustShow(t, "preemptions", "nominated", "groupVictims", "remoteVictims", "forkVictims")
}
