// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	clientset "k8s.io/client-go/kubernetes"
)

// authenticationConfigMap, in kube-system, holds the authorities of client certificates, and how to
// know the API server when it passes requests of its users on.
const authenticationConfigMap = "extension-apiserver-authentication"

// frontProxy follows how the API server makes itself known when it passes requests on: the
// authority of its client certificate, the names in it, and the headers with the user.
type frontProxy struct {
	ca      *dynamiccertificates.ConfigMapCAController
	headers *headerrequest.RequestHeaderAuthRequestController
}

func newFrontProxy(client clientset.Interface) (*frontProxy, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy-ca", metav1.NamespaceSystem,
		authenticationConfigMap, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("following the authorities of the API server's proxy: %w", err)
	}
	return &frontProxy{ca: ca, headers: headerrequest.NewRequestHeaderAuthRequestController(
		authenticationConfigMap, metav1.NamespaceSystem, client, "requestheader-username-headers",
		"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix",
		"requestheader-allowed-names")}, nil
}

// config returns the configuration of the authenticator, which follows the changes.
func (p *frontProxy) config() *authenticatorfactory.RequestHeaderConfig {
	if p == nil {
		return nil
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   p.ca,
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(p.headers.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(p.headers.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(p.headers.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(p.headers.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(p.headers.AllowedClientNames),
	}
}

// run follows the changes until ctx ends.
func (p *frontProxy) run(ctx context.Context) {
	if p == nil {
		return
	}
	var running sync.WaitGroup
	running.Go(func() { p.ca.Run(ctx, 1) })
	running.Go(func() { p.headers.Run(ctx, 1) })
	running.Wait()
}
