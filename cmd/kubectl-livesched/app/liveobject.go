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

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// liveObject returns the object that the arguments TYPE/NAME or TYPE NAME name, which must be in a
// namespace. If the namespace is empty, it is that of the context.
func (o *options) liveObject(args []string, namespace string) (*unstructured.Unstructured, error) {
	kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
	switch {
	case !found:
		return nil, fmt.Errorf("%q has no name: use TYPE/NAME, such as deployment/web or pod/web-1", kind)
	case kind == "" || name == "" || strings.Contains(name, "/"):
		return nil, fmt.Errorf("%q is not TYPE/NAME, such as deployment/web or pod/web-1", strings.Join(args, " "))
	}
	namespace, err := o.namespaceOr(namespace)
	if err != nil {
		return nil, err
	}
	result := resource.NewBuilder(o.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceNames(kind, name).SingleResourceType().Flatten().Do()
	infos, err := result.Infos()
	switch {
	case meta.IsNoMatchError(err) || err != nil && strings.Contains(err.Error(), "doesn't have a resource type"):
		return nil, fmt.Errorf("the API server has no type %q: use one with pods, such as pod/NAME, deployment/NAME or job/NAME", kind)
	case err != nil:
		return nil, err
	case len(infos) != 1:
		return nil, fmt.Errorf("%s/%s names %d objects, not one", kind, name, len(infos))
	case infos[0].Mapping.Scope.Name() == meta.RESTScopeNameRoot:
		return nil, fmt.Errorf("%s/%s is in no namespace: use an object with pods, such as pod/NAME, deployment/NAME or job/NAME", kind, name)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(infos[0].Object)
	return &unstructured.Unstructured{Object: content}, err
}

// namespaceOr returns a namespace, or that of the context if it is empty.
func (o *options) namespaceOr(namespace string) (string, error) {
	if namespace != "" {
		return namespace, nil
	}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// documentOf returns an object of the cluster like one of a file.
func documentOf(object *unstructured.Unstructured) manifests.Document {
	return manifests.Document{File: "the cluster", Number: 1, Object: object.Object}
}
