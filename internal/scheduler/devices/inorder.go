// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/informers"
)

// inOrder makes the event handlers that are added through it run one at a time.
//
// The slice tracker handles the events of slices and of taint rules, in a goroutine each. Either of
// them may deliver the other's events, so that two events of a slice can reach a handler in the
// wrong order. The index would then keep the older state of the slice.
type inOrder struct{ mu sync.Mutex }

func (o *inOrder) handler(next toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return informers.Around(next, func(_ any, handle func()) {
		o.mu.Lock()
		defer o.mu.Unlock()
		handle()
	})
}

// inOrderInformer is an informer whose handlers run in order.
type inOrderInformer struct {
	toolscache.SharedIndexInformer
	order *inOrder
}

func (i inOrderInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.order.handler(handler), options)
}

type inOrderSlices struct {
	resourceinformers.TypedResourceSliceInformer
	order *inOrder
}

func (s inOrderSlices) TypedInformer() resourceinformers.ResourceSliceIndexInformer {
	return toolscache.NewTypedSharedIndexInformer[*resourcev1.ResourceSlice](
		inOrderInformer{s.Informer(), s.order})
}

type inOrderTaintRules struct {
	resourceinformers.TypedDeviceTaintRuleInformer
	order *inOrder
}

func (r inOrderTaintRules) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer {
	return toolscache.NewTypedSharedIndexInformer[*resourcev1.DeviceTaintRule](
		inOrderInformer{r.Informer(), r.order})
}
