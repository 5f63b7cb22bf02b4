// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// podObject returns the object with pods that the arguments TYPE/NAME or TYPE NAME name. If the
// namespace is empty, it is the namespace of the context.
func (o *options) podObject(args []string, namespace string) (*unstructured.Unstructured, error) {
	n, found := cutName(args)
	switch {
	case !found:
		return nil, fmt.Errorf("%q has no name: use TYPE/NAME, such as deployment/web or pod/web-1", n.kind)
	case n.kind == "" || !n.isOne():
		return nil, fmt.Errorf("%q is not TYPE/NAME, such as deployment/web or pod/web-1", strings.Join(args, " "))
	}
	namespace, err := o.namespaceOr(namespace)
	if err != nil {
		return nil, err
	}
	const examples = "with pods, such as pod/NAME, deployment/NAME or job/NAME"
	return o.liveObject(n, namespace, "use one "+examples, "use an object "+examples)
}

// liveObject returns an object of a namespace. The advice is for a type that does not exist, and
// for an object without a namespace.
func (o *options) liveObject(n objectName, namespace, noType, noNamespace string) (*unstructured.Unstructured, error) {
	infos, err := resource.NewBuilder(o.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceNames(n.kind, n.name).SingleResourceType().Flatten().Do().Infos()
	switch {
	case meta.IsNoMatchError(err) || err != nil && strings.Contains(err.Error(), "doesn't have a resource type"):
		return nil, fmt.Errorf("the API server has no type %q: %s", n.kind, noType)
	case err != nil:
		return nil, err
	case len(infos) != 1:
		return nil, fmt.Errorf("%s names %d objects, not one", n, len(infos))
	case !infos[0].Namespaced():
		return nil, fmt.Errorf("%s is in no namespace: %s", n, noNamespace)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(infos[0].Object)
	return &unstructured.Unstructured{Object: content}, err
}

// namespaceOr returns a namespace, or the namespace of the context if it is empty.
func (o *options) namespaceOr(namespace string) (string, error) {
	if namespace != "" {
		return namespace, nil
	}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}
