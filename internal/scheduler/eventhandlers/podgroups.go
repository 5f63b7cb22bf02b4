// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// ListenToGroups adds the handlers of PodGroups, which fill a Registry and tell the queue. If the
// API server does not serve the PodGroups of a source, or livesched may not list them, the Registry
// applies to no pod that names one. While they are being listed, it applies: these pods wait.
func ListenToGroups(scope *informers.Scope, groups *podgroup.Registry,
	q *queue.Queue) (podgroup.KubernetesInformers, error) {
	custom, err := scope.Dynamic(podgroup.Resource)
	if err != nil {
		return nil, err
	}
	var native podgroup.KubernetesInformers
	for i := range podgroup.KubernetesAPIs {
		informer, err := scope.Dynamic(podgroup.KubernetesAPIs[i].GroupVersionResource)
		if err != nil {
			return nil, err
		}
		native = append(native, informer)
	}
	if err := scope.Err(); err != nil {
		return nil, err
	}
	h := &groupHandlers{groups: groups, queue: q}
	if err := listen(h, podgroup.SchedulerPlugins, podgroup.FromObject, h.changed, custom); err != nil {
		return nil, err
	}
	return native, listen(h, podgroup.Kubernetes, podgroup.FromKubernetes, h.changed, native...)
}

// ListenToComposites adds the handlers of CompositePodGroups. Call it with the feature gate
// CompositePodGroup only: without it, and while the API server serves none, PodGroups have no
// parents.
func ListenToComposites(scope *informers.Scope, groups *podgroup.Registry, q *queue.Queue) error {
	composites, err := scope.Dynamic(podgroup.CompositeResource)
	if err != nil {
		return err
	}
	if err := scope.Err(); err != nil {
		return err
	}
	h := &groupHandlers{groups: groups, queue: q}
	return listen(h, podgroup.Composite, podgroup.FromComposite, h.compositeChanged, composites)
}

// groupHandlers are the event handlers of PodGroups and CompositePodGroups.
type groupHandlers struct {
	groups *podgroup.Registry
	queue  *queue.Queue
}

// listen adds the handlers of the objects of a source, which has several versions.
func listen[G any](
	g *groupHandlers, source podgroup.Source, read func(*unstructured.Unstructured) (G, error), onChange func(G),
	versions ...toolscache.SharedIndexInformer,
) error {
	g.groups.SetServed(source,
		func() bool { return slices.ContainsFunc(versions, informers.Serves) },
		func() bool {
			return !slices.ContainsFunc(versions, func(i toolscache.SharedIndexInformer) bool { return !i.HasSynced() })
		})
	handler := handlerOfGroups(g, source, read, onChange)
	for _, informer := range versions {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("adding a handler of PodGroups: %w", err)
		}
	}
	return nil
}

// handlerOfGroups returns a handler that calls onChange with groups that were added or changed, and
// deleted with those that are gone.
func handlerOfGroups[G any](
	g *groupHandlers, source podgroup.Source, read func(*unstructured.Unstructured) (G, error), onChange func(G),
) toolscache.ResourceEventHandler {
	changed := func(object *unstructured.Unstructured) {
		group, err := read(object)
		if err != nil { // the schema does not allow this
			utilruntime.HandleErrorWithLogger(eventLogger(), err, "Ignoring the change of a pod group")
			return
		}
		onChange(group)
	}
	deleted := func(object *unstructured.Unstructured, _ bool) {
		g.deleted(podgroup.Key{Source: source, Namespace: object.GetNamespace(), Name: object.GetName()})
	}
	return handlerOf(changed, func(oldGroup, newGroup *unstructured.Unstructured) {
		if oldGroup.GetUID() != newGroup.GetUID() { // a watch missed that the group was deleted
			deleted(oldGroup, true)
		}
		changed(newGroup)
	}, deleted)
}

func (g *groupHandlers) changed(group podgroup.Group) {
	if g.groups.SetGroup(group) {
		g.queue.RetryGroup(eventLogger(), group.Key)
	}
	g.queue.GroupChanged(eventLogger(), group.Key)
}

func (g *groupHandlers) compositeChanged(group podgroup.CompositeGroup) {
	g.queue.TreeChanged(eventLogger(), g.groups.SetComposite(group))
}

func (g *groupHandlers) deleted(key podgroup.Key) {
	if key.Source == podgroup.Composite {
		g.queue.TreeChanged(eventLogger(), g.groups.DeleteComposite(key))
		return
	}
	g.groups.DeleteGroup(key)
	g.queue.GroupChanged(eventLogger(), key) // the pods that its gate holds wait for something else now
}

// groupMemberAssigned records that a pod of a group has a node: the group may need fewer others
// now. A pod that terminates does not count: the pods that replace it need each other, as its own
// siblings may terminate, too.
func (h *handlers) groupMemberAssigned(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		h.groupMemberGone(pod)
		return
	}
	if key := h.groups.SetAssigned(pod); key != (podgroup.Key{}) {
		h.queue.GroupChanged(eventLogger(), key)
	}
}

// groupMemberGone records that a pod does not count in its group any more.
func (h *handlers) groupMemberGone(pod *corev1.Pod) {
	if key := h.groups.Forget(pod); key != (podgroup.Key{}) {
		h.queue.GroupChanged(eventLogger(), key)
	}
}
