// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// form is the Go representation of the objects of a kind. controller-runtime's cache has one
// informer for each kind and form.
type form int

const (
	typedForm form = iota
	unstructuredForm
	metadataForm
)

// kind identifies one informer of the manager's cache.
type kind struct {
	schema.GroupVersionKind
	form form
}

// String returns the kind for messages, such as "storage.k8s.io/v1 StorageClass".
func (k kind) String() string { return display(k.GroupVersionKind) }

// compare orders kinds by their names.
func (k kind) compare(other kind) int {
	return cmp.Or(compareKinds(k.GroupVersionKind, other.GroupVersionKind), cmp.Compare(k.form, other.form))
}

func display(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s %s", gvk.GroupVersion(), gvk.Kind)
}

// kindOf returns the kind of an object for which an informer is requested.
func kindOf(obj runtime.Object, scheme *runtime.Scheme) (kind, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return kind{}, fmt.Errorf("informer for %T: %w", obj, err)
	}
	switch obj.(type) {
	case runtime.Unstructured:
		return kind{gvk, unstructuredForm}, nil
	case *metav1.PartialObjectMetadata:
		return kind{gvk, metadataForm}, nil
	default:
		return kind{gvk, typedForm}, nil
	}
}

// newObject returns an empty object of the kind.
func (k kind) newObject(scheme *runtime.Scheme) (client.Object, error) {
	if k.form != typedForm {
		var obj client.Object = &unstructured.Unstructured{}
		if k.form == metadataForm {
			obj = &metav1.PartialObjectMetadata{}
		}
		obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
		return obj, nil
	}
	obj, err := scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	clientObj, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an API object with metadata", obj)
	}
	return clientObj, nil
}

// kindInScheme returns the kind of a resource that the API server does not serve. It compares the
// resource with the regular plurals of kinds, which all types of client-go have.
func kindInScheme(gvr schema.GroupVersionResource, scheme *runtime.Scheme) (schema.GroupVersionKind, bool) {
	for name := range scheme.KnownTypes(gvr.GroupVersion()) {
		if strings.HasSuffix(name, "List") {
			continue
		}
		gvk := gvr.GroupVersion().WithKind(name)
		if plural, _ := meta.UnsafeGuessKindToResource(gvk); plural == gvr {
			return gvk, true
		}
	}
	return schema.GroupVersionKind{}, false
}
