// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookName is the name of the configuration in config/webhook.
const webhookName = "livesched"

// webhook checks that the API server can call the webhook, if it is installed.
func (e *examination) webhook(ctx context.Context) {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	switch err := e.Client.Get(ctx, client.ObjectKey{Name: webhookName}, &configuration); {
	case apierrors.IsNotFound(err):
		e.add(OK, "", "the webhook is not installed: invalid specs are reported in their status only")
		return
	case err != nil:
		e.unreadable(askForPermission, "ValidatingWebhookConfigurations", err)
		return
	}
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		before := len(e.findings)
		e.bundle(w)
		if service := w.ClientConfig.Service; service != nil {
			e.service(ctx, client.ObjectKey{Namespace: service.Namespace, Name: service.Name})
		}
		if len(e.findings) == before {
			e.add(OK, "", "%s has an authority, and pods that answer", w.Name)
		}
	}
}

// bundle checks the authority by which the API server knows the webhook.
func (e *examination) bundle(w *admissionregistrationv1.ValidatingWebhook) {
	const advice = "start livesched with --webhook, and see its log: it writes its authority"
	rest, valid := w.ClientConfig.CABundle, 0
	if len(rest) == 0 {
		e.add(Failed, advice, "%s has no caBundle: the API server cannot call it", w.Name)
		return
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && e.Now.Before(certificate.NotAfter) {
			valid++
		}
	}
	if valid == 0 {
		e.add(Failed, advice, "%s has no valid certificate in its caBundle: the API server cannot call it", w.Name)
	}
}

// service checks that the Service of the webhook has endpoints that are ready.
func (e *examination) service(ctx context.Context, key client.ObjectKey) {
	switch err := e.Client.Get(ctx, key, &corev1.Service{}); {
	case apierrors.IsNotFound(err):
		e.add(Failed, "apply config/webhook", "the Service %s of the webhook is missing", key)
		return
	case err != nil:
		e.unreadable(askForPermission, "the Service "+key.String(), err)
		return
	}
	var slices discoveryv1.EndpointSliceList
	if err := e.Client.List(ctx, &slices, client.InNamespace(key.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}); err != nil {
		e.unreadable(askForPermission, "EndpointSlices in namespace "+key.Namespace, err)
		return
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				return
			}
		}
	}
	e.add(Failed, "see that the replicas are ready", "the Service %s of the webhook has no ready endpoint", key)
}
