// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// evaluatorFor returns the evaluator for one preemption: the given one, or, if there are units, one
// like it that reads them. Without units, upstream's evaluator has no gate for groups, and looks up
// nothing for a pod.
func (f *finder) evaluatorFor(evaluator *schedpreemption.Evaluator, u *units) *schedpreemption.Evaluator {
	if u == nil {
		return evaluator
	}
	with := schedpreemption.NewEvaluator(evaluator.PluginName, withUnits{evaluator.Handler, u},
		unitRules{evaluator.Interface, f, u}, f.groupExecutor)
	with.PodLister, with.PdbLister = evaluator.PodLister, evaluator.PdbLister
	return with
}

// withUnits is a handle whose snapshot has the groups of units.
type withUnits struct {
	fwk.Handle
	units *units
}

// MutableSnapshotSharedLister implements fwk.Handle.
func (h withUnits) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return unitLister{h.Handle.MutableSnapshotSharedLister(), h.units}
}

type unitLister struct {
	fwk.MutableSnapshotSharedLister
	units *units
}

// PodGroups implements fwk.SharedLister.
func (l unitLister) PodGroups() fwk.PodGroupLister { return unitObjects{l.units} }

// PodGroupStates implements fwk.SharedLister.
func (l unitLister) PodGroupStates() fwk.PodGroupStateLister { return unitStates{l.units} }

type unitObjects struct{ *units }

// Get implements fwk.PodGroupLister.
func (u unitObjects) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	group, err := u.find(namespace, name)
	if err != nil || group.object.Spec.Priority == nil {
		return nil, errNoGroup // without a priority of the group, those of the pods count
	}
	return group.object, nil
}

type unitStates struct{ *units }

// Get implements fwk.PodGroupStateLister.
func (u unitStates) Get(namespace, name string) (fwk.PodGroupState, error) {
	group, err := u.find(namespace, name)
	if err != nil {
		return nil, err
	}
	return unitState{pods: group.pods}, nil
}

// unitState is the state of a group, of which preemption reads the pods on nodes only.
type unitState struct {
	fwk.PodGroupState
	pods []*corev1.Pod
}

// ScheduledPods implements fwk.PodGroupState.
func (s unitState) ScheduledPods() []*corev1.Pod { return s.pods }

// unitRules are the rules of the plugin for a preemption with units.
type unitRules struct {
	schedpreemption.Interface
	finder *finder
	units  *units
}

// SelectVictimsOnNode selects no pods of the group of the preemptor: they are of equal importance
// for the group. A composite group is more important than a PodGroup, whose stand-in it has.
func (r unitRules) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, preemptor *corev1.Pod,
	node fwk.NodeInfo, possible []*schedpreemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget,
) ([]*corev1.Pod, int, *fwk.Status) {
	if key := podgroup.KeyOf(preemptor); r.units.groups[key] != nil {
		possible = slices.DeleteFunc(possible, func(v *schedpreemption.DomainVictim) bool {
			return podgroup.KeyOf(podOf(v)) == key
		})
	}
	for _, v := range possible {
		if unit := r.units.groups[podgroup.KeyOf(podOf(v))]; unit != nil && unit.composite {
			v.Victim = compositeVictim{v.Victim}
		}
	}
	return r.Interface.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
}

// compositeVictim is all pods of a composite group.
type compositeVictim struct{ schedpreemption.Victim }

// Type implements schedpreemption.Victim.
func (compositeVictim) Type() fwk.EntityKeyType { return fwk.CompositePodGroupKeyType }

// PodEligibleToPreemptOthers is the rule of upstream, with the priorities and the preemption
// policies of groups: a pod waits for victims that terminate on its nominated node.
func (r unitRules) PodEligibleToPreemptOthers(_ context.Context, pod *corev1.Pod, nominated *fwk.Status,
) (bool, string) {
	if r.finder.preemptsNever(pod) {
		return false, policyNever
	}
	node, err := r.finder.snapshot.Get(pod.Status.NominatedNodeName)
	if err != nil || nominated.Code() == fwk.UnschedulableAndUnresolvable {
		return true, ""
	}
	priority := corev1helpers.PodPriority(pod)
	for _, info := range node.GetPods() {
		if victim := info.GetPod(); IsVictim(victim) && r.units.priorityOf(victim) < priority {
			return false, terminating
		}
	}
	return true, ""
}

// priorityOf returns the priority that counts for a pod when it may be evicted.
func (u *units) priorityOf(pod *corev1.Pod) int32 {
	if u == nil {
		return corev1helpers.PodPriority(pod)
	}
	if group := u.groups[podgroup.KeyOf(pod)]; group != nil && group.object.Spec.Priority != nil {
		return *group.object.Spec.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// withStandIns shows nodes to upstream as it needs them to find the units on them.
type withStandIns struct {
	fwk.NodeToStatusReader
	units *units
}

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (w withStandIns) NodesForStatusCode(nodes fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	found, err := w.NodeToStatusReader.NodesForStatusCode(nodes, code)
	found = slices.Clone(found) // it may be the list of all nodes
	for i, node := range found {
		found[i] = w.units.forUpstream(node)
	}
	return found, err
}
