// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// claimTemplateKind is the kind of the templates of ResourceClaims.
const claimTemplateKind = "ResourceClaimTemplate"

// claimTemplates returns the ResourceClaimTemplates that a pod refers to, from the documents or
// else from a namespace of the cluster.
func (o *capacityOptions) claimTemplates(ctx context.Context, documents []manifests.Document, pod *corev1.Pod,
	namespace string) ([]v1alpha1.CapacityClaimTemplate, error) {
	var templates []v1alpha1.CapacityClaimTemplate
	var cluster client.Client
	seen := sets.New[string]()
	for _, ref := range pod.Spec.ResourceClaims {
		if ref.ResourceClaimTemplateName == nil || seen.Has(*ref.ResourceClaimTemplateName) {
			continue
		}
		name := *ref.ResourceClaimTemplateName
		seen.Insert(name)
		template, err := claimTemplateIn(documents, namespace, name)
		if err == nil && template == nil {
			if cluster == nil {
				if cluster, err = o.client(); err != nil {
					return nil, err
				}
			}
			template = &resourcev1.ResourceClaimTemplate{}
			if err = cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, template); err != nil {
				err = fmt.Errorf("the pod refers to the ResourceClaimTemplate %s, which is in no file: %w", name, err)
			}
		}
		if err != nil {
			return nil, err
		}
		templates = append(templates, v1alpha1.CapacityClaimTemplate{Name: name, Spec: template.Spec.Spec})
	}
	return templates, nil
}

// claimTemplateIn returns a ResourceClaimTemplate in documents, nil if there is none. Its fields
// are checked as those of the pod.
func claimTemplateIn(documents []manifests.Document, namespace,
	name string) (*resourcev1.ResourceClaimTemplate, error) {
	for i := range documents {
		d := &documents[i]
		if of := d.Text("metadata", "namespace"); d.Text("kind") != claimTemplateKind ||
			d.Text("metadata", "name") != name || of != "" && of != namespace {
			continue
		}
		if version := d.Text("apiVersion"); version != resourcev1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("%s: apiVersion %q: must be %s", d.Place(), version, resourcev1.SchemeGroupVersion)
		}
		text, err := json.Marshal(d.Object)
		if err != nil {
			return nil, err
		}
		template := &resourcev1.ResourceClaimTemplate{}
		unknown, err := kjson.UnmarshalStrict(text, template)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Place(), err)
		}
		return template, strictErrors(d, "", unknown)
	}
	return nil, nil
}
