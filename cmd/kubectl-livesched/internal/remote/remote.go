// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote asks a running livesched, with the credentials that kubectl uses for the API
// server:
//
//	Lease, pods, published certificates <- API server
//	GET /apis/livesched.io/... -> HTTPS -> port of a pod, which API server and kubelet forward
//	                                    -> or a URL
//
// It sends no credentials before it has verified the certificate of the other side. A replica is
// verified by the certificate that it has published: whoever forwards the connection, or runs a
// process behind the port, cannot read what passes.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxRetries limits the retries while livesched is busy, one a second.
const maxRetries = 5

// Livesched says where livesched runs.
type Livesched struct {
	// Config is the configuration for the API server, with the credentials of the user.
	Config *rest.Config
	// Namespace is that of livesched, and Lease the name of its Lease there.
	Namespace, Lease string
	// URL is that of livesched's secure port. Empty means to forward the port of a pod.
	URL string
	// CAFile has the authorities that verify URL. Empty means those of the system.
	CAFile string
}

// Get returns an object of livesched.io as JSON. If a replica cannot be reached, it asks the next
// one, the leader first.
func (l *Livesched) Get(ctx context.Context, resource, namespace, name string) ([]byte, error) {
	if l.Config.Impersonate.UserName != "" {
		return nil, errors.New("livesched does not support impersonation (--as): it answers whoever sends the request")
	}
	if l.URL != "" {
		return l.getDirectly(ctx, resource, namespace, name)
	}
	replicas, err := l.replicas(ctx)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, r := range replicas {
		text, err := l.getFrom(ctx, r, resource, namespace, name)
		if err == nil || ctx.Err() != nil || !tryNext(err) {
			return text, err
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// getDirectly asks the livesched at URL.
func (l *Livesched) getDirectly(ctx context.Context, resource, namespace, name string) ([]byte, error) {
	if !strings.HasPrefix(l.URL, "https://") {
		return nil, fmt.Errorf("the URL of livesched must begin with https://, not %q", l.URL)
	}
	trust := trust{proxy: http.ProxyFromEnvironment}
	if l.CAFile != "" {
		var err error
		if trust.authorities, err = os.ReadFile(l.CAFile); err != nil {
			return nil, fmt.Errorf("reading the authorities that verify livesched: %w", err)
		}
	}
	return l.get(ctx, l.URL, trust, l.URL, resource, namespace, name)
}

// getFrom asks a replica.
func (l *Livesched) getFrom(ctx context.Context, r replica, resource, namespace, name string) ([]byte, error) {
	from := fmt.Sprintf("livesched in pod %s/%s", l.Namespace, r.pod)
	if r.certificate == nil {
		return nil, &unverifiedError{from: from, err: r.unverified}
	}
	trust, err := trustOnly(r.certificate)
	if err != nil {
		return nil, &unverifiedError{from: from, err: err}
	}
	trust.dial = func(ctx context.Context) (net.Conn, error) { return l.forward(ctx, r.pod, r.port) }
	return l.get(ctx, "https://livesched", trust, from, resource, namespace, name)
}

// get sends a request. The text from names the other side in errors.
func (l *Livesched) get(ctx context.Context, url string, trust trust, from, resource, namespace, name string) ([]byte, error) {
	transport, err := trust.transport(l.Config)
	if err != nil {
		return nil, fmt.Errorf("using your credentials for %s: %w", from, err)
	}
	defer utilnet.CloseIdleConnectionsFor(transport)
	client, err := rest.RESTClientForConfigAndClient(&rest.Config{
		Host: url, APIPath: "/apis",
		ContentConfig: rest.ContentConfig{GroupVersion: &v1alpha1.GroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}, &http.Client{
		Transport: transport,
		// The transport would send the credentials to wherever livesched redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", from, err)
	}
	result := client.Get().Namespace(namespace).Resource(resource).Name(name).MaxRetries(maxRetries).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, describe(err, from)
	}
	return result.Raw()
}
