// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/secureserving"
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
	return list, nil
}

// compressed is the latest list of nodes that was sent, as compressed JSON: that of 5,000 nodes
// takes as long to encode as a thousand decisions.
type compressed struct {
	mu   sync.Mutex // guards the fields below, and is held while a list is encoded
	list *v1alpha1.NodeAllocationList
	text []byte
}

// of returns a list as compressed JSON.
func (c *compressed) of(list *v1alpha1.NodeAllocationList) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == list {
		return c.text, nil
	}
	var text bytes.Buffer
	writer, err := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(writer).Encode(list), writer.Close()); err != nil {
		return nil, err
	}
	c.list, c.text = list, text.Bytes()
	return c.text, nil
}

// write sends the answer to a request.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, object any) {
	list, is := object.(*v1alpha1.NodeAllocationList)
	if !is || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		secureserving.WriteObject(w, object)
		return
	}
	text, err := h.compressed.of(list)
	if err != nil {
		secureserving.WriteError(w, statusOf(r, err))
		return
	}
	secureserving.WriteGzip(w, text)
}
