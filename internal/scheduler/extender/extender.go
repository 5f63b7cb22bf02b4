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

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// idleConnections is the number of idle connections kept per extender. Pods are bound in parallel.
const idleConnections = 32

// Extender is a service that is called over HTTP. It is safe for concurrent use.
type Extender struct {
	*service
	// ctx bounds the calls, together with the timeout of each. It is a field because the methods of
	// fwk.Extender have no context.
	ctx context.Context
}

var _ fwk.Extender = Extender{}

// service is the part that Extenders of different contexts share. It is immutable, except closed.
type service struct {
	cfg     resolve.Extender
	name    string
	prefix  string // without a slash at its end
	managed sets.Set[string]
	client  *http.Client
	// breakers has the circuits, under the key. circuits has an entry for each verb.
	breakers *Breakers
	key      string
	circuits map[string]*circuit
	probes   *probes
	// closed means that connections are not kept any more.
	closed atomic.Bool
}

// New returns an extender of a policy. It connects on the first call. The caller must close it. It
// is not called once the term of this replica is over: it could bind a pod that the next leader has
// bound to another node.
func New(cfg *resolve.Extender, policy Policy, breakers *Breakers, term *lease.Term) (*Extender, error) {
	parsed, err := url.Parse(cfg.URLPrefix)
	if err != nil {
		// url.Parse's error would quote a password in it
		return nil, errors.New("the URL of an extender cannot be parsed")
	}
	name := parsed.Redacted()
	tlsConfig, err := newTLSConfig(&cfg.TLS)
	if err != nil {
		return nil, fmt.Errorf("extender %q: %w", name, err)
	}
	key, circuits, err := breakers.acquire(policy, name, cfg)
	if err != nil {
		return nil, fmt.Errorf("extender %q: %w", name, err)
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: idleConnections, MaxResponseHeaderBytes: maxHeader,
	})
	return &Extender{
		service: &service{
			cfg:      *cfg,
			name:     name,
			prefix:   strings.TrimRight(cfg.URLPrefix, "/"),
			managed:  sets.New(cfg.ManagedResources...),
			client:   &http.Client{Transport: term.Guard(transport), Timeout: cfg.Timeout, CheckRedirect: noRedirects},
			breakers: breakers,
			key:      key,
			circuits: circuits,
			probes:   newProbes(),
		},
		ctx: context.Background(),
	}, nil
}

// noRedirects makes a redirect an answer like any other, which is an error because of its status.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newTLSConfig returns nil, which means Go's defaults, if nothing is configured.
func newTLSConfig(cfg *resolve.ExtenderTLS) (*tls.Config, error) {
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

// Within returns the extender with calls that end with ctx and its budget: see WithBudget.
func (e Extender) Within(ctx context.Context) fwk.Extender {
	return Extender{service: e.service, ctx: ctx}
}

// Bound returns extenders whose calls end with ctx and its budget.
func Bound(ctx context.Context, extenders []*Extender) []fwk.Extender {
	if len(extenders) == 0 {
		return nil
	}
	bound := make([]fwk.Extender, len(extenders))
	for i, e := range extenders {
		bound[i] = e.Within(ctx)
	}
	return bound
}

// Close closes idle connections, and ends probes in the background. Calls in progress are not
// affected; later calls still work, and keep no connection.
func (e Extender) Close() {
	if !e.closed.Swap(true) {
		e.probes.stop()
		e.breakers.release(e.key)
	}
	e.client.CloseIdleConnections()
}

// Name returns the URL without its password.
func (e Extender) Name() string { return e.name }

// IsIgnorable reports whether errors of the extender are ignored.
func (e Extender) IsIgnorable() bool { return e.cfg.Ignorable }

// IsFilter reports whether the extender filters nodes.
func (e Extender) IsFilter() bool { return e.cfg.FilterVerb != "" }

// IsPrioritizer reports whether the extender scores nodes.
func (e Extender) IsPrioritizer() bool { return e.cfg.PrioritizeVerb != "" }

// IsBinder reports whether the extender binds pods.
func (e Extender) IsBinder() bool { return e.cfg.BindVerb != "" }

// SupportsPreemption reports whether the extender takes part in preemption.
func (e Extender) SupportsPreemption() bool { return e.cfg.PreemptVerb != "" }

// IsInterested reports whether the extender is called for the pod: one of the pod's containers
// requests a resource that the extender manages, or the extender manages none.
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
