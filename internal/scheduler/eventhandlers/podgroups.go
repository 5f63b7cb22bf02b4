// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// ListenToGroups adds the handler of PodGroups, which fills a Registry and tells the queue. If the
// API server does not serve PodGroups, or not yet, the Registry applies to no pod.
func ListenToGroups(scope *informers.Scope, groups *podgroup.Registry, q *queue.Queue) error {
	informer, err := scope.Dynamic(podgroup.Resource)
	if err != nil {
		return err
	}
	// Neither a kind that is not served nor one that may not be listed has a version.
	groups.SetServed(func() bool { return informer.LastSyncResourceVersion() != "" })
	h := &groupHandlers{groups: groups, queue: q}
	if _, err := informer.AddEventHandler(handlerOf(h.changed, func(_, newGroup *unstructured.Unstructured) { h.changed(newGroup) },
		func(gone *unstructured.Unstructured, _ bool) { h.deleted(gone) })); err != nil {
		return fmt.Errorf("adding the handler of PodGroups: %w", err)
	}
	return nil
}

// groupHandlers are the event handlers of PodGroups.
type groupHandlers struct {
	groups *podgroup.Registry
	queue  *queue.Queue
}

func (h *groupHandlers) changed(object *unstructured.Unstructured) {
	group, err := podgroup.FromObject(object)
	if err != nil { // the schema of the CRD does not allow this
		utilruntime.HandleErrorWithLogger(eventLogger(), err, "Ignoring the change of a PodGroup")
		return
	}
	if h.groups.SetGroup(group) {
		h.queue.RetryGroup(eventLogger(), group.Key)
	}
	h.queue.GroupChanged(eventLogger(), group.Key)
}

func (h *groupHandlers) deleted(object *unstructured.Unstructured) {
	h.groups.DeleteGroup(podgroup.Key{Namespace: object.GetNamespace(), Name: object.GetName()})
}

// groupMemberAssigned records that a pod of a group has a node: the group may need fewer others
// now.
func (h *handlers) groupMemberAssigned(pod *corev1.Pod) {
	if key := h.groups.SetAssigned(pod); key != (podgroup.Key{}) {
		h.queue.GroupChanged(eventLogger(), key)
	}
}
