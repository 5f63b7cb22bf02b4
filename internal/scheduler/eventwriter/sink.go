// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
)

// Sink stores Events. Its methods must be safe for concurrent use and return the errors of
// client-go's clients.
type Sink interface {
	Create(ctx context.Context, event *eventsv1.Event) error
	// Patch applies a strategic merge patch.
	Patch(ctx context.Context, namespace, name string, patch []byte) error
}

// NewSink returns a Sink that writes to the API server. It does not decode the responses.
func NewSink(client typedeventsv1.EventsV1Interface) Sink { return apiSink{client.RESTClient()} }

type apiSink struct{ client rest.Interface }

func (a apiSink) Create(ctx context.Context, event *eventsv1.Event) error {
	return a.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
}

func (a apiSink) Patch(ctx context.Context, namespace, name string, patch []byte) error {
	return a.client.Patch(types.StrategicMergePatchType).Namespace(namespace).Resource("events").Name(name).Body(patch).
		Do(ctx).Error()
}
