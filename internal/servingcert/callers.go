// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/namedwatch"
)

// Callers is the object by which API servers know whom to call, and by which authority to verify
// that.
type Callers interface {
	// String returns the kind and the name, for messages.
	String() string
	name() string
	informer(changed func()) (cache.SharedIndexInformer, error)
	// write writes the authorities into an object of the informer, and reports whether they were
	// others.
	write(ctx context.Context, object any, bundle []byte) (changed bool, _ error)
}

// WebhookConfiguration is a ValidatingWebhookConfiguration. All its webhooks get the authority.
type WebhookConfiguration struct {
	Client clientset.Interface
	Name   string
}

func (c WebhookConfiguration) String() string {
	return fmt.Sprintf("ValidatingWebhookConfiguration %q", c.Name)
}

func (c WebhookConfiguration) name() string { return c.Name }

func (c WebhookConfiguration) informer(changed func()) (cache.SharedIndexInformer, error) {
	configurations := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return namedwatch.NewInformer(c.Client, configurations, c.Name,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, changed)
}

func (c WebhookConfiguration) write(ctx context.Context, object any, bundle []byte) (bool, error) {
	configuration, _ := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	configuration = configuration.DeepCopy()
	differs := false
	for i := range configuration.Webhooks {
		at := &configuration.Webhooks[i].ClientConfig
		differs = differs || !bytes.Equal(at.CABundle, bundle)
		at.CABundle = bundle
	}
	if !differs {
		return false, nil
	}
	_, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Update(ctx, configuration, metav1.UpdateOptions{})
	return err == nil, err
}

// apiServices is the resource of APIServices. Their Go types are in a module of their own, for
// servers that serve them.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// APIService is the APIService by which the API server passes requests for a group on.
type APIService struct {
	// Client and Dynamic are clients of the same API server.
	Client  clientset.Interface
	Dynamic dynamic.Interface
	// Name is VERSION.GROUP.
	Name string
}

func (s APIService) String() string { return fmt.Sprintf("APIService %q", s.Name) }

func (s APIService) name() string { return s.Name }

func (s APIService) informer(changed func()) (cache.SharedIndexInformer, error) {
	return namedwatch.NewInformer(s.Client, s.Dynamic.Resource(apiServices), s.Name, &unstructured.Unstructured{},
		changed)
}

func (s APIService) write(ctx context.Context, object any, bundle []byte) (bool, error) {
	service, _ := object.(*unstructured.Unstructured)
	text := base64.StdEncoding.EncodeToString(bundle)
	held, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
	if err != nil || held == text {
		return false, err
	}
	service = service.DeepCopy()
	if err := unstructured.SetNestedField(service.Object, text, "spec", "caBundle"); err != nil {
		return false, err
	}
	_, err = s.Dynamic.Resource(apiServices).Update(ctx, service, metav1.UpdateOptions{})
	return err == nil, err
}
