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
		after: `	if became != 0 {
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
		name: "a pod that is deleted while it is bound keeps its room",
		file: "internal/scheduler/eventhandlers/pods.go",
		before: `	case isAssumed(h.cache, pod):
		h.assumedPodDeleted(pod)
`,
		after: `	case isAssumed(h.cache, pod):
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
}
