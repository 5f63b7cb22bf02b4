// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// checkArgs returns an error if the arguments and --filename do not name the pod in one way.
func (o *capacityOptions) checkArgs(command *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && len(o.files) == 0:
		return errors.New("there is no pod to count: use --filename, or TYPE/NAME of an object in the cluster, such " +
			"as deployment/web")
	case len(args) > 0 && len(o.files) > 0:
		return errors.New("use either --filename or TYPE/NAME, not both")
	}
	return cobra.MaximumNArgs(2)(command, args)
}

// documents returns the objects that the arguments or the files name, and whether they are in the
// cluster.
func (o *capacityOptions) documents(args []string) (documents []manifests.Document, live bool, err error) {
	if len(args) > 0 {
		object, err := o.podObject(args, o.namespace)
		if err != nil {
			return nil, false, err
		}
		return []manifests.Document{{File: "the cluster", Number: 1, Object: object.Object}}, true, nil
	}
	documents, err = o.readFiles(o.In)
	return documents, false, err
}

// countedPod returns the pod in documents that is counted. One of the cluster may have fields that
// this plugin does not know, and has a node, which the counted ones do not have.
func (o *capacityOptions) countedPod(documents []manifests.Document, live bool) (*corev1.Pod, error) {
	template, err := chooseTemplate(podTemplatesIn(documents), o.template)
	if err != nil {
		return nil, err
	}
	pod, err := template.pod(!live)
	if err != nil {
		return nil, err
	}
	if live {
		pod.Spec.NodeName = ""
		pod.ManagedFields = nil
	}
	if o.schedulerName != "" {
		pod.Spec.SchedulerName = o.schedulerName
	}
	return pod, nil
}

// groupOfPod returns the PodGroup in documents that a pod names, nil if there is none or if its
// pods are scheduled one by one.
func groupOfPod(documents []manifests.Document,
	pod *corev1.Pod) (group *v1alpha1.CapacityPodGroup, oneByOne bool, err error) {
	wanted := podgroup.KeyOf(pod)
	if wanted == (podgroup.Key{}) {
		return nil, false, nil
	}
	for i := range documents {
		d := &documents[i]
		if d.Text("kind") != podgroup.Kind.Kind || d.Text("metadata", "name") != wanted.Name {
			continue
		}
		group, err := readGroup(d)
		switch {
		case err != nil:
			return nil, false, err
		case group == nil || group.Source != wanted.Source || group.Namespace != "" && pod.Namespace != "" &&
			group.Namespace != pod.Namespace:
			continue
		case group.Problem != "":
			return nil, false, fmt.Errorf("%s: %s", d.Place(), group.Problem)
		case group.OneByOne:
			return nil, true, nil
		}
		return &v1alpha1.CapacityPodGroup{
			MinMember: int32(group.MinMember), RequiredTopology: group.Topology.Required,
			PreferredTopology: group.Topology.Preferred,
		}, false, nil
	}
	return nil, false, nil
}

// readGroup returns the PodGroup of a document, or nil if it is of another API. A mistyped
// minMember would make a group of one pod, so unknown fields of the spec are errors.
func readGroup(d *manifests.Document) (*podgroup.Group, error) {
	kind := schema.FromAPIVersionAndKind(d.Text("apiVersion"), d.Text("kind"))
	switch {
	case kind == podgroup.Kind:
		if err := checkGroupFields(d); err != nil {
			return nil, err
		}
		group, err := podgroup.FromObject(&unstructured.Unstructured{Object: d.Object})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Place(), err)
		}
		return &group, nil
	case podgroup.IsKubernetesKind(kind):
		current, err := podgroup.InV1beta1(d.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Place(), err)
		}
		text, err := json.Marshal(current)
		if err != nil {
			return nil, err
		}
		object := &schedulingv1beta1.PodGroup{}
		unknown, err := kjson.UnmarshalStrict(text, object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Place(), err)
		}
		if err := strictErrors(d, "", unknown); err != nil {
			return nil, err
		}
		group := podgroup.FromPodGroup(object)
		return &group, nil
	}
	return nil, nil
}

// groupFields are the fields of the spec of scheduler-plugins' PodGroups.
var groupFields = []string{"minMember", "minResources", "scheduleTimeoutSeconds"}

func checkGroupFields(d *manifests.Document) error {
	spec, _ := d.Object["spec"].(map[string]any)
	var errs []error
	for name := range spec {
		if !slices.Contains(groupFields, name) {
			errs = append(errs,
				fmt.Errorf("%s:%d: unknown field %q", d.File, max(d.LineOf("spec."+name), d.Line), "spec."+name))
		}
	}
	return errors.Join(errs...)
}
