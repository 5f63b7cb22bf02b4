// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// hints asks each plugin for the cluster events that may make a pod that it rejected schedulable,
// with their hint functions. If a plugin names no event, only updates of the pod itself requeue the
// pods that it rejected, as is the case with scheduling gates.
func hints(ctx context.Context, extensions []fwk.EnqueueExtensions) (queue.HintMap, error) {
	table := queue.HintMap{}
	var errs []error
	for _, ext := range extensions {
		var events []fwk.ClusterEventWithHint
		err := guard(klog.FromContext(ctx), func() (err error) {
			events, err = ext.EventsToRegister(ctx)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %q: events to register: %w", ext.Name(), err))
			continue
		}
		if takesFromNodes(ext) {
			events = append(events, freed...)
		}
		for _, event := range events {
			fn := event.QueueingHintFn
			switch {
			case fn == nil:
			case isDynamicResources(ext) && event.Event.Resource == fwk.ResourceClaim:
				fn = orWithoutOwnClaim(fn)
			case isInterPodAffinity(ext) && event.Event.Resource == fwk.AssignedPod:
				fn = orPeerGone(inAllNamespaces(fn))
			case isInterPodAffinity(ext) && event.Event.Resource == fwk.Node:
				fn = orExcludedByOthers(fn)
			}
			table[event.Event] = append(table[event.Event], queue.Hint{Plugin: ext.Name(), Fn: fn})
		}
	}
	return table, errors.Join(errs...)
}

// freed are the events after which a node may have the CPU or memory that a device takes from it.
// kube-scheduler 1.37 does not register DynamicResources for them, so that the pods that the plugin
// rejects for lack of CPU or memory wait for the flush of the queue.
var freed = []fwk.ClusterEventWithHint{
	{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}},
	{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodScaleDown}},
}

// takesFromNodes reports whether a plugin rejects pods whose devices take more from a node than it
// has left.
func takesFromNodes(ext fwk.EnqueueExtensions) bool {
	return isDynamicResources(ext) && features().EnableDRANodeAllocatableResources
}

func isDynamicResources(ext fwk.EnqueueExtensions) bool {
	_, ok := ext.(*dynamicresources.DynamicResources)
	return ok
}

// orWithoutOwnClaim returns a hint that also lets a pod be tried again once the claim for its
// extended resources is deleted. If binding stopped before that claim had devices, DynamicResources
// refuses the pod and deletes the claim. Its own hint passes over claims without devices, so that
// the pod would wait for the flush of the queue.
func orWithoutOwnClaim(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		claim, ok := oldObj.(*resourcev1.ResourceClaim)
		if ok && newObj == nil && devices.IsExtended(claim) && metav1.IsControlledBy(claim, pod) {
			return fwk.Queue, nil
		}
		return hint(logger, pod, oldObj, newObj)
	}
}

func isInterPodAffinity(ext fwk.EnqueueExtensions) bool {
	_, ok := ext.(*interpodaffinity.InterPodAffinity)
	return ok
}

// inAllNamespaces returns a hint for changes of assigned pods that takes the namespace selectors of
// affinity terms as if they selected all namespaces. The hint of InterPodAffinity in kube-scheduler
// 1.37 takes those that select by labels as if they selected none: a pod would wait for the flush
// of the queue after the pod that excluded it is gone, if that one was in a selected namespace.
func inAllNamespaces(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		if gone, ok := oldObj.(*corev1.Pod); ok && newObj == nil {
			oldObj = selectingAllNamespaces(gone)
		}
		return hint(logger, selectingAllNamespaces(pod), oldObj, newObj)
	}
}

// selectingAllNamespaces returns a pod whose required affinity terms select all namespaces where
// those of the given one select some by labels. It returns the given one if there are none.
func selectingAllNamespaces(pod *corev1.Pod) *corev1.Pod {
	selects := func(term corev1.PodAffinityTerm) bool {
		s := term.NamespaceSelector
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
	}
	if !slices.ContainsFunc(fwk.GetPodAffinityTerms(pod.Spec.Affinity), selects) &&
		!slices.ContainsFunc(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity), selects) {
		return pod
	}
	changed := *pod
	changed.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
	for _, terms := range [][]corev1.PodAffinityTerm{fwk.GetPodAffinityTerms(changed.Spec.Affinity),
		fwk.GetPodAntiAffinityTerms(changed.Spec.Affinity)} {
		for i := range terms {
			if selects(terms[i]) {
				terms[i].NamespaceSelector = &metav1.LabelSelector{}
			}
		}
	}
	return &changed
}

// orPeerGone returns a hint for changes of assigned pods that also lets a pod be tried again when a
// pod that its required affinity selects is gone, or has other labels. If that was the last one,
// and the terms select the waiting pod itself, it fits on each node with their topology keys. The
// hint of InterPodAffinity in kube-scheduler 1.37 queues it only when a selected pod comes, so that
// it would wait for the flush of the queue: https://github.com/kubernetes/kubernetes/issues/141354
func orPeerGone(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		before, ok := oldObj.(*corev1.Pod)
		if !ok || len(fwk.GetPodAffinityTerms(pod.Spec.Affinity)) == 0 {
			return hint(logger, pod, oldObj, newObj)
		}
		selected, err := selectedByAffinity(pod)
		if err != nil {
			return fwk.Queue, err
		}
		after, _ := newObj.(*corev1.Pod)
		if selected(pod) && selected(before) && (after == nil || !selected(after)) {
			return fwk.Queue, nil
		}
		return hint(logger, pod, oldObj, newObj)
	}
}

// selectedByAffinity returns a function that reports whether all required affinity terms of a pod
// select another one, where a namespace selector selects all namespaces.
func selectedByAffinity(pod *corev1.Pod) (selected func(*corev1.Pod) bool, err error) {
	pod = selectingAllNamespaces(pod)
	terms, err := fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(pod.Spec.Affinity))
	return func(other *corev1.Pod) bool {
		return !slices.ContainsFunc(terms, func(term fwk.AffinityTerm) bool { return !term.Matches(other, nil) })
	}, err
}

// orExcludedByOthers returns a hint for changes of nodes that also lets a pod be tried again that
// only the anti-affinity of other pods can have excluded, because it has no required terms of its
// own. It may fit once a node is added, or one of the labels of a node has another value, or none:
// that node may be in another topology domain. The hint of InterPodAffinity in kube-scheduler 1.37
// looks only at the terms of the waiting pod, so that this pod would wait for the flush of the
// queue.
func orExcludedByOthers(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		if len(fwk.GetPodAffinityTerms(pod.Spec.Affinity))+len(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity)) > 0 {
			return hint(logger, pod, oldObj, newObj)
		}
		before, changed := oldObj.(*corev1.Node)
		if !changed {
			return fwk.Queue, nil
		}
		after, _ := newObj.(*corev1.Node)
		for key, value := range before.Labels {
			if now, ok := after.Labels[key]; !ok || now != value {
				return fwk.Queue, nil
			}
		}
		return fwk.QueueSkip, nil
	}
}

// resources returns the resources of the events in a hint table.
func resources(table queue.HintMap) []fwk.EventResource {
	set := map[fwk.EventResource]struct{}{}
	for event := range table {
		set[event.Resource] = struct{}{}
	}
	return slices.Sorted(maps.Keys(set))
}
