// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/livesched/livesched/api/v1alpha1"
)

// NodeAllocations is the resource of the room of nodes. It belongs to no namespace.
const NodeAllocations = "nodeallocations"

// NamespaceParameter is the parameter of NodeAllocations with the namespace of the pod in
// PodParameter: the answer then has the reason why each node refuses the pod.
const NamespaceParameter = "namespace"

// nodeAllocations answers with the room of all nodes, to those who may list nodes. A pod may be
// named by those who may get its explanation.
func (h *Handler) nodeAllocations(r *http.Request, answers Answers) (*v1alpha1.NodeAllocationList, error) {
	parameters := r.URL.Query()
	pod := types.NamespacedName{Namespace: parameters.Get(NamespaceParameter), Name: parameters.Get(PodParameter)}
	if (pod.Namespace == "") != (pod.Name == "") {
		return nil, apierrors.NewBadRequest("the parameters " + NamespaceParameter + " and " + PodParameter +
			" name a pod together: set both, or neither")
	}
	ctx, leave, seesNodes, err := h.beginExplaining(r.Context(), "")
	if err != nil {
		return nil, err
	}
	defer leave()
	if !seesNodes {
		return nil, apierrors.NewForbidden(corev1.Resource("nodes"), "",
			errors.New("you need the permission to list nodes"))
	}
	if pod.Name != "" {
		allowed, err := h.authorizer.Allows(ctx, authorizer.AttributesRecord{ResourceRequest: true, Verb: "get",
			APIGroup: v1alpha1.GroupVersion.Group, APIVersion: v1alpha1.GroupVersion.Version, Resource: PodExplanations,
			Namespace: pod.Namespace, Name: pod.Name})
		if err != nil {
			return nil, err
		}
		if !allowed {
			return nil, apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource(PodExplanations).GroupResource(),
				pod.Name, errors.New("you need the permission to get the explanation of the pod"))
		}
	}
	list, err := answers.NodeAllocations(ctx, pod)
	if err != nil {
		return nil, err
	}
	answer := *list // which other requests may get, too
	answer.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeAllocationList"}
	return &answer, nil
}
