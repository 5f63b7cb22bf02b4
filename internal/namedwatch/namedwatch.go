// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namedwatch watches single objects by their names. A Role with resourceNames is enough for
// that, whereas a watch of all objects of a kind needs the right to list them all.
package namedwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Objects is a typed client for objects of one kind, in one namespace if the kind has namespaces.
// L is their list type.
type Objects[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer, which the caller runs, of the object with a name. objects comes
// from client, and example is an empty object of the kind. The informer calls changed from its own
// goroutine whenever the object is created, updated or deleted.
func NewInformer[L runtime.Object](
	client clientset.Interface, objects Objects[L], name string, example runtime.Object, changed func(),
) (cache.SharedIndexInformer, error) {
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	object := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = byName
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = byName
			return objects.Watch(ctx, o)
		},
	}, client)
	informer := cache.NewSharedIndexInformer(object, example, 0, nil)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	return informer, err
}
