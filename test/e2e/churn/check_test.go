// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// truth is the state of the API server at a moment when no actor changes anything.
type truth struct {
	pods     []corev1.Pod
	nodes    []corev1.Node
	profiles []v1alpha1.SchedulerProfile
	// deviceClaims are the ResourceClaims.
	deviceClaims []resourcev1.ResourceClaim
}

func (w *world) truth(ctx context.Context) (*truth, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var profiles v1alpha1.SchedulerProfileList
	var claims resourcev1.ResourceClaimList
	for _, list := range []client.ObjectList{&pods, &nodes, &profiles, &claims} {
		if err := w.client.List(ctx, list); err != nil {
			return nil, err
		}
	}
	return &truth{pods: pods.Items, nodes: nodes.Items, profiles: profiles.Items, deviceClaims: claims.Items}, nil
}

// pending lists the pods that wait for one of the scheduler names.
func (t *truth) pending(names sets.Set[string]) map[types.UID]*corev1.Pod {
	pending := map[types.UID]*corev1.Pod{}
	for i := range t.pods {
		if pod := &t.pods[i]; !isBound(pod) && !isFinished(pod) && names.Has(pod.Spec.SchedulerName) {
			pending[pod.UID] = pod
		}
	}
	return pending
}

// findings describe what is wrong.
type findings []string

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// unsettled returns what is still wrong although nothing changes any more.
func (w *world) unsettled(ctx context.Context) (found findings) {
	t, err := w.truth(ctx)
	if err != nil {
		found.add("looking at the API server: %v", err)
		return found
	}
	leader := w.fleet.leader()
	all := w.fleet.all()
	if leader == nil || len(all) != replicas {
		found.add("there are %d replicas, of which one is to lead", len(all))
		return found
	}
	for _, r := range all {
		select {
		case <-r.Scheduler.Ready():
			found = append(found, w.unequal(r, t)...)
		default:
			found.add("replica %d is not ready", r.number)
		}
	}
	if len(found) > 0 {
		return found
	}
	found = append(found, w.restless(leader)...)
	found = append(found, sharedDevices(t)...)
	found = append(found, unexplained(leader, t)...)
	found = append(found, unreported(leader, t)...)
	if len(found) > 0 {
		return found
	}
	for _, r := range all {
		found = append(found, suspicions(ctx, r)...)
	}
	if len(found) > 0 {
		return found
	}
	return w.lostWakeups(ctx, leader, t)
}

// suspicions returns the differences from the API server that a replica's own comparison finds.
func suspicions(ctx context.Context, r *replica) (found findings) {
	differences, err := r.Parts().Debugger.Compare(ctx)
	if err != nil {
		found.add("replica %d cannot compare itself with the API server: %v", r.number, err)
	}
	for _, d := range differences {
		found.add("replica %d reports: %+v", r.number, d)
	}
	return found
}

// unequal compares the state of a replica with the API server.
func (w *world) unequal(r *replica, t *truth) (found findings) {
	who := fmt.Sprintf("replica %d", r.number)
	if r == w.witness() {
		who += " (leader)"
	}
	dump := r.Parts().Cache.Dump()
	inCache, want := map[string]string{}, map[string]string{}
	for name, info := range dump.Nodes {
		if node := info.Node(); node != nil {
			inCache["node "+name] = node.ResourceVersion
		}
		for _, pod := range info.GetPods() {
			inCache[fmt.Sprintf("pod %s (%s) on %s", pod.GetPod().Name, pod.GetPod().UID, name)] = pod.GetPod().
				ResourceVersion
		}
	}
	for _, node := range t.nodes {
		want["node "+node.Name] = node.ResourceVersion
	}
	for i := range t.pods {
		if pod := &t.pods[i]; occupies(pod) {
			want[fmt.Sprintf("pod %s (%s) on %s", pod.Name, pod.UID, pod.Spec.NodeName)] = pod.ResourceVersion
		}
	}
	found = append(found, differences(who+": cache", inCache, want)...)
	for uid := range dump.AssumedPods {
		found.add("%s: pod %s is assumed", who, uid)
	}

	inQueue, want := map[string]string{}, map[string]string{}
	for _, state := range r.Parts().Queue.Dump() {
		inQueue[fmt.Sprintf("pod %s (%s)", state.Pod.Name, state.Pod.UID)] = state.Pod.ResourceVersion
	}
	pending := t.pending(r.serves())
	for _, pod := range pending {
		want[fmt.Sprintf("pod %s (%s)", pod.Name, pod.UID)] = pod.ResourceVersion
	}
	found = append(found, differences(who+": queue", inQueue, want)...)
	for _, node := range nodeNames {
		for _, info := range r.Parts().Queue.Nominator().NominatedPodsForNode(node) {
			nominated := info.GetPod()
			if pod := pending[nominated.UID]; pod == nil {
				found.add("%s: pod %s (%s) is nominated for %s, and not pending", who, nominated.Name,
					nominated.UID, node)
			} else if pod.Status.NominatedNodeName != node {
				found.add("%s: pod %s (%s) is nominated for %s, its status says %q", who, pod.Name, pod.UID, node,
					pod.Status.NominatedNodeName)
			}
		}
	}
	return found
}

// serves returns the scheduler names that a replica has profiles for.
func (r *replica) serves() sets.Set[string] {
	names := sets.New[string]()
	for p := range r.Scheduler.Store().Current().All() {
		names.Insert(p.SchedulerName())
	}
	return names
}

// differences compares objects and their versions.
func differences(who string, have, want map[string]string) (found findings) {
	for what, version := range have {
		switch wanted, ok := want[what]; {
		case !ok:
			found.add("%s has %s, which the API server has not", who, what)
		case wanted != version:
			found.add("%s has %s in version %s, the API server has %s", who, what, version, wanted)
		}
	}
	for what := range want {
		if _, ok := have[what]; !ok {
			found.add("%s lacks %s", who, what)
		}
	}
	slices.Sort(found)
	return found
}

// restless returns the activity that still goes on.
func (w *world) restless(leader *replica) (found findings) {
	if c := leader.Parts().Queue.Counts(); c.Active+c.Backoff+c.ErrorBackoff+c.InFlight+c.InFlightEvents > 0 {
		found.add("the queue of the leader is not at rest: %+v", c)
		for _, state := range leader.Parts().Queue.Dump() {
			if state.Place != queue.Unschedulable && state.Place != queue.Gated {
				found.add("in progress: %s", describeState(state))
			}
		}
	}
	if waiting := w.script.waiting(); len(waiting) > 0 {
		found.add("%d pods wait on Permit, such as %s", len(waiting), waiting[0].GetPod().Name)
	}
	for _, r := range w.fleet.all() {
		if alive, current := r.Scheduler.Store().Alive(), r.Scheduler.Store().Current().Len(); alive != current {
			found.add("replica %d: %d generations are alive, %d profiles decide", r.number, alive, current)
		}
	}
	return found
}

// unexplained lists pods that are neither bound nor have a condition that explains why, and those
// that a scheduler changed which must not schedule them.
func unexplained(leader *replica, t *truth) (found findings) {
	for _, pod := range t.pending(leader.serves()) {
		condition := scheduled(pod)
		switch {
		// a plugin gates it, for which kube-scheduler writes no condition either
		case pod.Labels[holdLabel] != "", t.lacksClaim(pod):
		case condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason == "" ||
			condition.Message == "":
			found.add("pod %s has no condition with the reason why it waits: %+v", describe(pod), condition)
		case isGated(pod) != (condition.Reason == corev1.PodReasonSchedulingGated):
			found.add("the condition of pod %s has the reason %q, with gates %v", describe(pod), condition.Reason,
				pod.Spec.SchedulingGates)
		}
	}
	for i := range t.pods {
		pod := &t.pods[i]
		// The API server itself sets the condition of gated pods; its message stays when the gate
		// is removed.
		if condition := scheduled(pod); pod.Spec.SchedulerName == nobody && condition != nil &&
			condition.Status != corev1.ConditionTrue &&
			condition.Reason != corev1.PodReasonSchedulingGated {
			found.add("pod %s has no profile, but the condition %+v", describe(pod), condition)
		}
	}
	return found
}

func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// unreported lists profiles whose status does not name the running revision.
func unreported(leader *replica, t *truth) (found findings) {
	active := sets.New[string]()
	for i := range t.profiles {
		p := &t.profiles[i]
		if p.Status.ObservedGeneration != p.Generation {
			found.add("the status of profile %s is about generation %d, there is %d", p.Name,
				p.Status.ObservedGeneration, p.Generation)
		}
		if p.Status.Active == nil {
			continue
		}
		name := resolve.SchedulerName(p)
		active.Insert(name)
		if running := leader.Scheduler.Store().Current().Get(name); running == nil {
			found.add("profile %s is active by its status, and not running", p.Name)
		} else if running.Config.Revision != p.Status.Active.Revision {
			found.add("profile %s has revision %s by its status, %s is running", p.Name, p.Status.Active.Revision,
				running.Config.Revision)
		}
	}
	if missing := leader.serves().Difference(active); missing.Len() > 0 {
		found.add("scheduler names %s have a running profile, but no object reports it",
			strings.Join(sets.List(missing), ", "))
	}
	return found
}

func describeState(s queue.PodState) string {
	return fmt.Sprintf("%s: %s, attempts %d, refused by %v, pending by %v, gated by %q, error %q, since %s",
		describe(s.Pod), s.Place, s.Attempts, s.UnschedulablePlugins, s.PendingPlugins, s.GatingPlugin, s.Error,
		s.Timestamp.Format("15:04:05.000"))
}
