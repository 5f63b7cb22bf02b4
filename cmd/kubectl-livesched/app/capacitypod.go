// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// onePod returns the pod in documents, which must have exactly one.
func onePod(documents []manifests.Document) (*corev1.Pod, error) {
	var pods []*corev1.Pod
	for i := range documents {
		pod, err := podIn(&documents[i])
		if err != nil {
			return nil, err
		}
		if pod != nil {
			pods = append(pods, pod)
		}
	}
	switch len(pods) {
	case 0:
		return nil, errors.New("no Pod, and no object with a pod template found")
	case 1:
		return pods[0], nil
	default:
		return nil, fmt.Errorf("found %d pods, capacity counts one", len(pods))
	}
}

// podIn returns the pod of a document, or one of its pod template, or nil if it has neither.
func podIn(d *manifests.Document) (*corev1.Pod, error) {
	object := d.Object
	if d.Text("kind") != "Pod" || d.Text("apiVersion") != "v1" {
		spec, _ := d.Object["spec"].(map[string]any)
		template, ok := spec["template"].(map[string]any)
		if !ok {
			return nil, nil
		}
		object = template
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Place(), err)
	}
	if pod.Name == "" {
		pod.Name = d.Text("metadata", "name")
	}
	if pod.Namespace == "" {
		pod.Namespace = d.Text("metadata", "namespace")
	}
	pod.Status = corev1.PodStatus{}
	return pod, nil
}

// groupOfPod returns the PodGroup in documents that a pod names, nil if there is none, or if its
// pods are scheduled one by one.
func groupOfPod(documents []manifests.Document, pod *corev1.Pod) (*v1alpha1.CapacityPodGroup, error) {
	wanted := podgroup.KeyOf(pod)
	if wanted == (podgroup.Key{}) {
		return nil, nil
	}
	for i := range documents {
		d := &documents[i]
		if d.Text("kind") != podgroup.Kind.Kind || d.Text("metadata", "name") != wanted.Name {
			continue
		}
		group, err := readGroup(d)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", d.Place(), err)
		case group == nil || group.Source != wanted.Source || group.Namespace != "" && pod.Namespace != "" && group.Namespace != pod.Namespace:
			continue
		case group.Problem != "":
			return nil, fmt.Errorf("%s: %s", d.Place(), group.Problem)
		case group.OneByOne:
			return nil, nil
		}
		return &v1alpha1.CapacityPodGroup{
			MinMember: int32(group.MinMember), RequiredTopology: group.Topology.Required, PreferredTopology: group.Topology.Preferred,
		}, nil
	}
	return nil, nil
}

// readGroup returns the PodGroup of a document, or nil if it is of another API.
func readGroup(d *manifests.Document) (*podgroup.Group, error) {
	switch d.Text("apiVersion") {
	case podgroup.Kind.GroupVersion().String():
		group, err := podgroup.FromObject(&unstructured.Unstructured{Object: d.Object})
		return &group, err
	case schedulingv1alpha2.SchemeGroupVersion.String():
		object := &schedulingv1alpha2.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object, object); err != nil {
			return nil, err
		}
		group := podgroup.FromPodGroup(object)
		return &group, nil
	}
	return nil, nil
}
