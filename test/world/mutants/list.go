// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// mutant is a mistake in a file of livesched: the text before, which occurs once, becomes after.
type mutant struct{ name, file, before, after string }

var mutants = []mutant{
	{
		name: "a pod that is not bound after all keeps its room",
		file: "internal/scheduler/binding/binding.go",
		before: `	if err := b.Cache.ForgetPod(logger, pod); err != nil {
`,
		after: `	if err := error(nil); err != nil {
`,
	},
	{
		name: "a pod whose binding failed is not queued again",
		file: "internal/scheduler/binding/binding.go",
		before: `	if became == lost {
`,
		after: `	if became != boundHere {
`,
	},
	{
		name: "the deletion of a pod wakes nobody",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	h.observed(start, schedframework.EventAssignedPodDelete, pod, nil)
`,
		after: `	_ = start
`,
	},
	{
		name: "a new node wakes nobody",
		file: "internal/scheduler/eventhandlers/nodes.go",
		before: `	h.observed(start, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node)
`,
		after: `	_ = start
`,
	},
	{
		name: "a changed node wakes nobody",
		file: "internal/scheduler/eventhandlers/nodes.go",
		before: `	h.observedEach(start, schedframework.NodeSchedulingPropertiesChange(newNode, oldNode), oldNode, newNode)
`,
		after: `	_, _ = start, schedframework.NodeSchedulingPropertiesChange(newNode, oldNode)
`,
	},
	{
		name: "a new leader does not wait for the bindings of the last one",
		file: "internal/scheduler/scheduler.go",
		before: `	if err := catchup.Wait(ctx, s.parts.latest); err != nil {
`,
		after: `	if err := ctx.Err(); err != nil && catchup.Wait(ctx, s.parts.latest) != nil {
`,
	},
	{
		name: "a leader acts after its term",
		file: "internal/lease/term.go",
		before: `	if t.renewed.IsZero() || !t.end && sinceAny(t.renewed) < t.deadline {
`,
		after: `	if true {
`,
	},
	{
		name: "a binding whose answer got lost is not looked up",
		file: "internal/scheduler/binding/outcome.go",
		before: `	case now.Spec.NodeName == c.NodeName:
		return boundHere
`,
		after: `	case now.Spec.NodeName == c.NodeName:
		return unbound
`,
	},
	{
		name: "the deletion of a node is forgotten",
		file: "internal/scheduler/eventhandlers/nodes.go",
		before: `	if err := h.cache.RemoveNode(logger, node); err != nil {
`,
		after: `	if err := error(nil); err != nil {
`,
	},
	{
		name: "a pod that was bound by somebody else stays queued",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `		h.queue.Delete(eventLogger(), oldPod)
		observeSince(deleting, schedframework.EventUnscheduledPodDelete)
`,
		after: `		observeSince(deleting, schedframework.EventUnscheduledPodDelete)
`,
	},
	{
		name: "a missed deletion is not noticed when the name is used again",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	case oldPod.UID != newPod.UID:
`,
		after: `	case false:
`,
	},
	{
		name: "what happens during an attempt is forgotten",
		file: "internal/scheduler/queue/move.go",
		before: `	m.inFlight.record(m.event)
`,
		after: ``,
	},
	{
		name: "the room of a pod that is not bound after all wakes nobody",
		file: "internal/scheduler/binding/binding.go",
		before: `		b.Queue.Move(logger, schedframework.EventAssignedPodDelete, pod, nil, nil)
`,
		after: ``,
	},
	{
		name: "the reservations of a pod that is not bound after all stay",
		file: "internal/scheduler/binding/binding.go",
		before: `	c.Framework.RunReservePluginsUnreserve(ctx, c.State, pod, c.NodeName)
`,
		after: ``,
	},
	{
		name: "a pod that is not bound after all counts for its group",
		file: "internal/scheduler/binding/binding.go",
		before: `	b.Groups.Undo(pod)
`,
		after: ``,
	},
	{
		name: "a process that stops takes the lease",
		file: "internal/lease/lock.go",
		before: `	case !l.held && l.stopping():
		return ErrStopping
`,
		after: ``,
	},
	{
		name: "a pod that is pending again, since etcd was restored, keeps its room",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	case assigned(oldPod) && !assigned(newPod):
`,
		after: `	case false:
`,
	},
	{
		name: "the condition of a held pod is not written again",
		file: "internal/scheduler/failure/status.go",
		before: `		p.queue.RepeatHeld(pod.UID)
`,
		after: ``,
	},
	{
		name: "the condition of a pod is not written again",
		file: "internal/scheduler/failure/status.go",
		before: `		p.queue.Move(klog.FromContext(ctx), eventStatusNotWritten, nil, pod, nil)
`,
		after: ``,
	},
	{
		name: "a condition that is on its way is overlooked",
		file: "internal/scheduler/failure/status.go",
		before: `	return last == nil || sameButNumbers(last, next)
`,
		after: `	return last == nil || true
`,
	},
	{
		name: "devices that are given away are taken as free",
		file: "internal/scheduler/devices/narrow.go",
		before: `		c.of.index.setPending(uid, allocated)
`,
		after: ``,
	},
	{
		name: "devices that were given away and are not used stay taken",
		file: "internal/scheduler/devices/narrow.go",
		before: `		c.of.index.endPending(uid)
`,
		after: ``,
	},
	{
		name: "a nomination that ends wakes nobody",
		file: "internal/scheduler/queue/move.go",
		before: `		return corev1helpers.PodPriority(other) <= priority
`,
		after: `		return priority < priority
`,
	},
	{
		name: "a new leader does not wait for the claims of the last one",
		file: "internal/scheduler/catchup/catchup.go",
		before: `	return w.awaitAll(ctx, claims, missing)
`,
		after: `	return nil
`,
	},
	{
		name: "an assigned pod is not counted again after a relist",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	if assigned(pod) {
		h.assignedPodAdded(pod)
`,
		after: `	if assigned(pod) && pod.Status.Phase == corev1.PodPending {
		h.assignedPodAdded(pod)
`,
	},
	{
		name: "the last good specs are forgotten at a restart",
		file: "controllers/recall.go",
		before: `	r.last.good = good
	return nil
`,
		after: `	_ = good
	return nil
`,
	},
	{
		name: "a status that could not be written is not written again",
		file: "controllers/reporter.go",
		before: `		queue.AddRateLimited(uid)
`,
		after: `		queue.Forget(uid)
`,
	},
	{
		name: "a status is not written again after a conflict",
		file: "controllers/reporter.go",
		before: `		queue.AddAfter(uid, s.stale)
`,
		after: `		queue.Forget(uid)
`,
	},
	{
		name: "a pod that was bound although the answer got lost is taken as lost",
		file: "internal/scheduler/binding/outcome.go",
		before: `		return boundHere
	}
`,
		after: `		return lost
	}
`,
	},
	{
		name: "a controller waits for the informers of others",
		file: "cmd/livesched/app/stop.go",
		before: `	if c.synced.Load() || c.stopping.Err() != nil {
`,
		after: `	if c.stopping.Err() != nil {
`,
	},
	{
		name: "a victim that is back is awaited",
		file: "internal/scheduler/preemption/latest.go",
		before: `		case v.isBack(known): // it may be evicted again
`,
		after: ``,
	},
	{
		name: "a victim that runs again wakes nobody",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	if moved || ended && !ends {
`,
		after: `	if moved {
`,
	},
	{
		name: "a claim that etcd has lost is not read when it cannot be reserved",
		file: "internal/scheduler/binding/claims.go",
		before: `		return !allocated(seen) || !resourceclaim.IsReservedForPod(pod, seen, true)
`,
		after: `		return !allocated(seen)
`,
	},
	{
		name: "one more pod than a group needs makes it unschedulable",
		file: "internal/scheduler/loop/group.go",
		before: `	case placed > 0:
`,
		after: `	case false:
`,
	},
	{
		name: "devices are free for others once the answer to their allocation got lost",
		file: "internal/scheduler/binding/binding.go",
		before: `		b.readDevices(ctx, pod)
`,
		after: ``,
	},
	{
		name: "a group whose pods were not bound counts as complete",
		file: "internal/scheduler/podgroup/registry.go",
		before: `		s.enough = s.complete // as far as is known, it got no node
`,
		after: ``,
	},
	{
		name: "a policy that was restored counts its generations again and is not resolved",
		file: "internal/scheduler/resolve/reuse.go",
		before: `		!sameSpec(last.version, &last.good.Spec, object.ResourceVersion, &object.Spec) {
`,
		after: `		false {
`,
	},
	{
		name: "a status that etcd has lost is written as a change of that status",
		file: "controllers/write.go",
		before: `		s.written = nil
		return err
`,
		after: `		return err
`,
	},
	{
		name: "a claim that etcd has lost is seen as before",
		file: "internal/scheduler/binding/claims.go",
		before: `	if err == nil && order < 0 && claim.UID == seen.UID {
`,
		after: `	if err == nil && order < 0 && claim.UID == "" {
`,
	},
	{
		name: "a profile that was restored counts its generations again and is not resolved",
		file: "internal/scheduler/resolve/reuse.go",
		before: `		!sameSpec(last.object.ResourceVersion, &last.object.Spec, object.ResourceVersion, &object.Spec) {
`,
		after: `		false {
`,
	},
	{
		name: "a pod that leaves a node does not wake those that are nominated for it",
		file: "internal/scheduler/queue/move.go",
		before: `e != nil && e.place == Unschedulable {
`,
		after: `e != nil && e.place == nowhere {
`,
	},
	{
		name: "a binding that the API server forgets is not undone",
		file: "internal/scheduler/binding/unconfirmed.go",
		before: `now.Spec.NodeName != "" || !u.waits(c) {
`,
		after: `now.UID == c.pod.UID {
`,
	},
	{
		name: "profiles with different weights share scores",
		file: "internal/scheduler/fastpath/setup.go",
		before: `		key.Weights = append(key.Weights, plugins.ScoreWeights[pl.Name()])
`,
		after: ``,
	},
	{
		name: "profiles with different arguments share scores",
		file: "internal/scheduler/fastpath/setup.go",
		before: `			key.Args[name] = args
`,
		after: `			key.Args[name] = nil
`,
	},
	{
		name: "a profile is not resolved again when its policy changes",
		file: "internal/scheduler/resolve/reuse.go",
		before: `	if last.policy.base != p.base || last.policy.good != p.good {
`,
		after: `	if last.policy.base == nil {
`,
	},
	{
		name: "affinity terms that select namespaces by labels wake nobody",
		file: "internal/scheduler/profile/hints.go",
		before: `				fn = orPeerGone(inAllNamespaces(fn))
`,
		after: `				fn = orPeerGone(fn)
				_ = inAllNamespaces
`,
	},
	{
		name: "a pod whose affinity selects itself waits for its last peer",
		file: "internal/scheduler/profile/hints.go",
		before: `				fn = orPeerGone(inAllNamespaces(fn))
`,
		after: `				fn = inAllNamespaces(fn)
				_ = orPeerGone
`,
	},
	{
		name: "a pod is bound where its claim has no devices",
		file: "internal/scheduler/binding/claims.go",
		before: `		if !selector.Match(node) {
`,
		after: `		if selector == nil {
`,
	},
	{
		name: "a new node does not wake a pod that others exclude",
		file: "internal/scheduler/profile/hints.go",
		before: `				fn = orExcludedByOthers(fn)
`,
		after: ``,
	},
	{
		name: "a claim that was released is taken as reserved",
		file: "internal/scheduler/binding/claims.go",
		before: `		if before.Has(claim.UID) {
`,
		after: `		if before == nil {
`,
	},
	{
		name: "a device that another claim has is free once a claim is released",
		file: "internal/scheduler/devices/index.go",
		before: `	return n > 0
`,
		after: `	return false
`,
	},
	{
		name: "another spec of the same generation wakes nobody",
		file: "controllers/profile_controller.go",
		before: `		isFollowed(e) || !equality.Semantic.DeepEqual(specOf(before), specOf(after))
`,
		after: `		isFollowed(e) || equality.Semantic.DeepEqual(1, 2)
`,
	},
	{
		name: "what kept a group from preempting wakes nobody",
		file: "internal/scheduler/gang/victims.go",
		before: `	if len(domains) == 0 || a.Group.Topology.Required != "" || a.Tree != nil { // some domains are not tried
`,
		after: `	if false {
`,
	},
	{
		name: "a pod that preempts never keeps its nomination",
		file: "internal/scheduler/preemption/plugin.go",
		before: `	if result == nil && status.Message() == policyNever && pod.Status.NominatedNodeName != "" {
`,
		after: `	if false {
`,
	},
	{
		name: "a lease that was not released is taken at once",
		file: "internal/lease/lock.go",
		before: `	if l.seen.record == nil || l.released(found) {
`,
		after: `	if l.seen.record == nil || found.holder() == "" {
`,
	},
	{
		name: "a new leader begins an aborted roll-out again",
		file: "controllers/rolloutstatus.go",
		before: `	if status.CanaryRevision != candidate.Revision || !slices.Contains(rollout.Stages, rollout.Stage(status.Stage)) {
`,
		after: `	if status.CanaryRevision != candidate.Revision || !slices.Contains(rollout.Stages, rollout.Stage(status.Stage)) ||
		status.Stage == string(rollout.Aborted) {
`,
	},
	{
		name: "a new leader begins at the first step of a roll-out",
		file: "controllers/rolloutstatus.go",
		before: `		Step:  max(0, int(ptr.Deref(status.CurrentStepIndex, 0))),
`,
		after: ``,
	},
	{
		name: "the claim that was created for a pod is noted on another pod of its name",
		file: "internal/scheduler/framework/prebind.go",
		before: `	ctx = WithPod(ctx, pod)
`,
		after: ``,
	},
	{
		name: "a process that was overtaken takes a lease that is gone",
		file: "internal/lease/lock.go",
		before: `			l.overtaken(record)
`,
		after: ``,
	},
	{
		name: "a policy that is being rolled out is said to be active",
		file: "controllers/status.go",
		before: `		if cfg.Name != name || buildsOn(cfg, object) || o == nil {
`,
		after: `		if cfg.Name != name || cfg.PolicyName != object.Name || buildsOn(cfg, object) || o == nil {
`,
	},
	{
		name: "a status is written after the term",
		file: "internal/lease/term.go",
		before: `	if request.Method != http.MethodGet {
`,
		after: `	if request.Method == http.MethodPost {
`,
	},
	{
		name: "a spec that is active again is not stored as the last one",
		file: "internal/history/plan.go",
		before: `	case at < newest && (latest || !sameMetadata(&have[at], want) && isLater(want, &have[newest])):
`,
		after: `	case at < newest && newest < 0:
`,
	},
	{
		name: "pods with other tolerations share answers",
		file: "internal/scheduler/fastpath/key.go",
		before: `podfields.WriteNodeAffinity(&w.Writer, pod) && podfields.WriteTolerations(&w.Writer, pod)
`,
		after: `podfields.WriteNodeAffinity(&w.Writer, pod)
`,
	},
	{
		name: "pods of other namespaces share answers",
		file: "internal/scheduler/fastpath/key.go",
		before: `	w.Text(pod.Namespace)
	w.Map(`,
		after: `	w.Map(`,
	},
}
