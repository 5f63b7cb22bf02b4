// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// member is what is kept of a pod that names a group. A Pod would take several times as much
// memory.
type member struct {
	metav1.ObjectMeta // namespace, name, UID and resource version
	// group is the key of the group, as namespace/name. It is empty if the pod belongs to a
	// PodGroup of Kubernetes, although it has the label.
	group         string
	schedulerName string
	phase         corev1.PodPhase
	owners        []string // their names
}

// trim is the transform of the informer. It gets objects that it has trimmed before, too.
func trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	m := &member{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		schedulerName: pod.Spec.SchedulerName,
		phase:         pod.Status.Phase,
	}
	if key := podgroup.KeyOf(pod); key.Source == podgroup.SchedulerPlugins && key.Name != "" {
		m.group = key.String()
	}
	for i := range pod.OwnerReferences {
		m.owners = append(m.owners, pod.OwnerReferences[i].Name)
	}
	return m, nil
}

// byGroup is the index of members by their groups.
const byGroup = "group"

// newMembers returns a factory with an informer of all pods with the label, including those that
// have ended, and its index. changed gets the key of each group whose pods have changed in a way
// that its status may depend on.
func newMembers(client clientset.Interface, changed func(group string)) (informers.SharedInformerFactory, toolscache.Indexer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = podgroup.Label }), informers.WithTransform(trim))
	pods := factory.Core().V1().Pods().Informer()
	err := pods.AddIndexers(toolscache.Indexers{byGroup: func(object any) ([]string, error) {
		if m, ok := object.(*member); ok && m.group != "" {
			return []string{m.group}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, nil, err
	}
	tell := func(object any) {
		if gone, stale := object.(toolscache.DeletedFinalStateUnknown); stale {
			object = gone.Obj
		}
		if m, ok := object.(*member); ok && m.group != "" {
			changed(m.group)
		}
	}
	_, err = pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			b, okBefore := before.(*member)
			a, okAfter := after.(*member)
			if okBefore && okAfter && b.UID == a.UID && b.group == a.group && b.phase == a.phase {
				return
			}
			tell(before)
			tell(after)
		},
		DeleteFunc: tell,
	})
	return factory, pods.GetIndexer(), err
}
