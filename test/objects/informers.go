// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"maps"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformers returns informers without resync. Like the ones of livesched, and unlike those of
// client-go, the informer of pods accepts an index again: the plugin DynamicResources adds one each
// time it is built.
func NewInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return informerFactory{informers.NewSharedInformerFactory(client, 0)}
}

type (
	informerFactory struct {
		informers.SharedInformerFactory
	}
	coreInformers   struct{ core.Interface }
	coreV1Informers struct{ corev1informers.Interface }
	podInformers    struct {
		corev1informers.TypedPodInformer
	}
	podInformer struct{ toolscache.SharedIndexInformer }
)

func (f informerFactory) Core() core.Interface { return coreInformers{f.SharedInformerFactory.Core()} }

func (c coreInformers) V1() corev1informers.Interface { return coreV1Informers{c.Interface.V1()} }

func (c coreV1Informers) Pods() corev1informers.TypedPodInformer {
	return podInformers{c.Interface.Pods()}
}

func (p podInformers) Informer() toolscache.SharedIndexInformer {
	return podInformer{p.TypedPodInformer.Informer()}
}

func (p podInformer) AddIndexers(indexers toolscache.Indexers) error {
	indexers = maps.Clone(indexers)
	for name := range p.GetIndexer().GetIndexers() {
		delete(indexers, name)
	}
	return p.SharedIndexInformer.AddIndexers(indexers)
}
