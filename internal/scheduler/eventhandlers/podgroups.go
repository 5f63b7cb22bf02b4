// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
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
func ListenToGroups(scope *informers.Scope, groups *podgroup.Registry, q *queue.Queue) error {
	custom, err := scope.Dynamic(podgroup.Resource)
	if err != nil {
		return err
	}
	native := scope.Scheduling().V1alpha2().PodGroups().Informer()
	if err := scope.Err(); err != nil {
		return err
	}
	h := &groupHandlers{groups: groups, queue: q}
	for source, of := range map[podgroup.Source]struct {
		informer toolscache.SharedIndexInformer
		handler  toolscache.ResourceEventHandler
	}{
		podgroup.SchedulerPlugins: {custom,
			handlerOf(h.read, func(_, newGroup *unstructured.Unstructured) { h.read(newGroup) },
				func(gone *unstructured.Unstructured, _ bool) {
					h.deleted(podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: gone.GetNamespace(),
						Name: gone.GetName()})
				})},
		podgroup.Kubernetes: {native, handlerOf(
			func(group *schedulingv1alpha2.PodGroup) { h.changed(podgroup.FromPodGroup(group)) },
			func(_, newGroup *schedulingv1alpha2.PodGroup) { h.changed(podgroup.FromPodGroup(newGroup)) },
			func(gone *schedulingv1alpha2.PodGroup, _ bool) { h.deleted(podgroup.KeyOfPodGroup(gone)) })},
	} {
		groups.SetServed(source, func() bool { return informers.Serves(of.informer) }, of.informer.HasSynced)
		if _, err := of.informer.AddEventHandler(of.handler); err != nil {
			return fmt.Errorf("adding a handler of PodGroups: %w", err)
		}
	}
	return nil
}

// groupHandlers are the event handlers of PodGroups.
type groupHandlers struct {
	groups *podgroup.Registry
	queue  *queue.Queue
}

// read takes over a PodGroup of scheduler-plugins.
func (g *groupHandlers) read(object *unstructured.Unstructured) {
	group, err := podgroup.FromObject(object)
	if err != nil { // the schema of the CRD does not allow this
		utilruntime.HandleErrorWithLogger(eventLogger(), err, "Ignoring the change of a PodGroup")
		return
	}
	g.changed(group)
}

func (g *groupHandlers) changed(group podgroup.Group) {
	if g.groups.SetGroup(group) {
		g.queue.RetryGroup(eventLogger(), group.Key)
	}
	g.queue.GroupChanged(eventLogger(), group.Key)
}

func (g *groupHandlers) deleted(key podgroup.Key) {
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
