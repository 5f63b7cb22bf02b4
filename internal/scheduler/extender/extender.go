// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// idleConnections is how many connections to an extender are kept for the next call. Pods are bound
// in parallel.
const idleConnections = 32

// Extender is a service that is asked over HTTP. Safe for concurrent use.
type Extender struct {
	*service
	// ctx bounds the calls, together with the timeout of each.
	ctx context.Context
}

var _ fwk.Extender = Extender{}

// service is what the Extenders of different contexts share. Apart from closed it is read-only.
type service struct {
	cfg     config.Extender
	name    string
	prefix  string // without a slash at its end
	managed sets.Set[string]
	client  *http.Client
	// closed says that connections are not to be kept any more.
	closed atomic.Bool
}

// New returns an extender. It connects when it is called. The caller closes it.
func New(cfg *config.Extender) (*Extender, error) {
	parsed, err := url.Parse(cfg.URLPrefix)
	if err != nil {
		return nil, errors.New("the URL of an extender cannot be parsed") // url.Parse's error would quote a password in it
	}
	name := parsed.Redacted()
	tlsConfig, err := newTLSConfig(&cfg.TLS)
	if err != nil {
		return nil, fmt.Errorf("extender %q: %w", name, err)
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: idleConnections})
	return &Extender{
		service: &service{
			cfg:     *cfg,
			name:    name,
			prefix:  strings.TrimRight(cfg.URLPrefix, "/"),
			managed: sets.New(cfg.ManagedResources...),
			client:  &http.Client{Transport: transport, Timeout: cfg.Timeout},
		},
		ctx: context.Background(),
	}, nil
}

// newTLSConfig returns nil, which is Go's way, where nothing is asked for.
func newTLSConfig(cfg *config.ExtenderTLS) (*tls.Config, error) {
	if !cfg.Insecure && cfg.ServerName == "" && cfg.Secret == nil {
		return nil, nil
	}
	certificates, err := cfg.Secret.ClientCertificates()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.Insecure,
		ServerName:         cfg.ServerName,
		RootCAs:            cfg.Secret.RootCAs(),
		Certificates:       certificates,
	}, nil
}

// Bound returns extenders whose calls end with ctx.
func Bound(ctx context.Context, extenders []*Extender) []fwk.Extender {
	if len(extenders) == 0 {
		return nil
	}
	bound := make([]fwk.Extender, len(extenders))
	for i, e := range extenders {
		bound[i] = Extender{service: e.service, ctx: ctx}
	}
	return bound
}

// Close gives up the connections that are kept. Calls under way end as they would have; later ones
// still work, and keep no connection.
func (e Extender) Close() {
	e.closed.Store(true)
	e.client.CloseIdleConnections()
}

// Name is the URL without a password.
func (e Extender) Name() string { return e.name }

// IsIgnorable says whether the extender may fail.
func (e Extender) IsIgnorable() bool { return e.cfg.Ignorable }

// IsFilter says whether the extender rules out nodes.
func (e Extender) IsFilter() bool { return e.cfg.FilterVerb != "" }

// IsPrioritizer says whether the extender scores nodes.
func (e Extender) IsPrioritizer() bool { return e.cfg.PrioritizeVerb != "" }

// IsBinder says whether the extender binds pods.
func (e Extender) IsBinder() bool { return e.cfg.BindVerb != "" }

// SupportsPreemption says whether the extender is shown the victims of a preemption.
func (e Extender) SupportsPreemption() bool { return e.cfg.PreemptVerb != "" }

// IsInterested says whether the extender is to be asked about the pod: one of its containers asks
// for a resource that the extender manages, or the extender manages none.
func (e Extender) IsInterested(pod *corev1.Pod) bool {
	return len(e.managed) == 0 || e.manages(pod.Spec.Containers) || e.manages(pod.Spec.InitContainers)
}

func (e Extender) manages(containers []corev1.Container) bool {
	for i := range containers {
		resources := &containers[i].Resources
		for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
			for name := range list {
				if e.managed.Has(string(name)) {
					return true
				}
			}
		}
	}
	return false
}
