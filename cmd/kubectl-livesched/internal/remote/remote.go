// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote asks a running livesched, with the credentials that kubectl uses for the API
// server:
//
//	Lease, pods, published certificates <- API server
//	GET, POST /apis/livesched.io/... -> HTTPS -> port of a pod, forwarded by API server and kubelet
//	                                          -> or a URL
//
// It sends no credentials before it has verified the certificate of the other side. A replica is
// verified by the certificate that it has published: a proxy that forwards the connection, or
// another process behind the port, cannot read the traffic.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/replicas"
	"github.com/livesched/livesched/internal/secureserving"
)

// maxRetries limits the retries while livesched is busy, one a second.
const maxRetries = 5

// Livesched is the place where livesched runs.
type Livesched struct {
	// Config is the configuration for the API server, with the credentials of the user.
	Config *rest.Config
	// Namespace is the namespace of livesched, and Lease the name of its Lease there.
	Namespace, Lease string
	// URL is the URL of livesched's secure port. Empty means to forward the port of a pod.
	URL string
	// CAFile has the authorities that verify URL. Empty means the authorities of
	// the system.
	CAFile string
	// Timeout limits the time for an answer. 0 means no limit.
	Timeout time.Duration
	// Kept keeps replicas and connections between requests. nil: each request looks and connects
	// anew.
	Kept *Kept
}

// question is a request for an object, or with a body to create one, which is not stored.
type question struct {
	resource, namespace, name string
	body                      []byte
	// parameters are the parameters of the URL.
	parameters map[string]string
	// into gets the answer as an object, unless it is nil. file takes an answer that is no object.
	into any
	file io.Writer
}

// Get reads an object of livesched.io, with parameters of the URL. It also returns the object as
// JSON, which may have fields that this program does not know. If a replica cannot be reached, it
// asks the next one, the leader first.
func (l *Livesched) Get(ctx context.Context, resource, namespace, name string, parameters map[string]string,
	into any) (json.RawMessage, error) {
	return l.ask(ctx, question{resource: resource, namespace: namespace, name: name, parameters: parameters,
		into: into}, leaderFirst)
}

// List is Get for a list of livesched.io, of all namespaces if namespace is "".
func (l *Livesched) List(ctx context.Context, resource, namespace string, parameters map[string]string,
	into any) (json.RawMessage, error) {
	return l.ask(ctx, question{resource: resource, namespace: namespace, parameters: parameters, into: into},
		leaderFirst)
}

// Create sends an object of livesched.io, and reads the answer into it. It also returns the answer
// as JSON. It asks a replica that does not lead first: what is created costs time that the leader
// needs. An empty namespace means all namespaces.
func (l *Livesched) Create(ctx context.Context, resource, namespace string, object any) (json.RawMessage, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return l.ask(ctx, question{resource: resource, namespace: namespace, body: body, into: object}, followersFirst)
}

// Download writes a file of livesched.io, which belongs to no namespace, to a writer. If an error
// is returned, a part of the file may have been written. It asks the leader first if fromLeader is
// true, and otherwise a replica that does not lead.
func (l *Livesched) Download(ctx context.Context, resource, name string, parameters map[string]string, fromLeader bool,
	to io.Writer) error {
	order := followersFirst
	if fromLeader {
		order = leaderFirst
	}
	_, err := l.ask(ctx, question{resource: resource, name: name, parameters: parameters, file: to}, order)
	return err
}

// ask asks a question, and reads the answer.
func (l *Livesched) ask(ctx context.Context, q question, order order) (json.RawMessage, error) {
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Timeout)
		defer cancel()
	}
	text, err := l.answer(ctx, q, order)
	if err != nil || q.into == nil {
		return text, err
	}
	if err := json.Unmarshal(text, q.into); err != nil {
		return nil, fmt.Errorf("reading the answer of livesched: %w", err)
	}
	return text, nil
}

// answer asks one replica after the other until one answers.
func (l *Livesched) answer(ctx context.Context, q question, order order) ([]byte, error) {
	if l.Config.Impersonate.UserName != "" {
		return nil, ErrImpersonation
	}
	if l.URL != "" {
		return l.askDirectly(ctx, q)
	}
	found := l.Kept.known()
	if found == nil {
		var err error
		if found, err = l.replicas(ctx); err != nil {
			return nil, err
		}
		l.Kept.keep(found)
	}
	byRank := func(a, b replicas.Replica) int { return cmp.Compare(order(a), order(b)) }
	var failures []error
	for _, r := range slices.SortedStableFunc(slices.Values(found), byRank) {
		text, err := l.askReplica(ctx, r, q)
		if err == nil || ctx.Err() != nil || !tryNext(err) {
			return text, err
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// askDirectly asks the livesched at URL.
func (l *Livesched) askDirectly(ctx context.Context, q question) ([]byte, error) {
	if !strings.HasPrefix(l.URL, "https://") {
		return nil, fmt.Errorf("the URL of livesched must begin with https://, not %q", l.URL)
	}
	trust := replicas.Trust{Proxy: http.ProxyFromEnvironment}
	if l.CAFile != "" {
		var err error
		if trust.Authorities, err = os.ReadFile(l.CAFile); err != nil {
			return nil, fmt.Errorf("reading the authorities that verify livesched: %w", err)
		}
	}
	return l.send(ctx, l.URL, trust, l.URL, q)
}

// askReplica asks a replica.
func (l *Livesched) askReplica(ctx context.Context, r replicas.Replica, q question) ([]byte, error) {
	from := fmt.Sprintf("livesched in pod %s/%s", l.Namespace, r.Pod)
	if r.Certificate == nil {
		return nil, &unverifiedError{from: from, err: r.Unverified}
	}
	trust, err := replicas.TrustOnly(r.Certificate)
	if err != nil {
		return nil, &unverifiedError{from: from, err: err}
	}
	trust.Dial = func(ctx context.Context) (net.Conn, error) { return l.forward(ctx, r.Pod, r.Port) }
	return l.send(ctx, "https://livesched", trust, from, q)
}

// send sends a request. The text from names the other side in errors.
func (l *Livesched) send(ctx context.Context, url string, trust replicas.Trust, from string,
	q question) ([]byte, error) {
	http, done, err := l.Kept.client(from, &trust, func() (*http.Client, error) { return trust.Client(l.Config) })
	if err != nil {
		return nil, fmt.Errorf("using your credentials for %s: %w", from, err)
	}
	text, err := sendWith(ctx, http, url, from, q)
	done(err)
	return text, err
}

// sendWith is send with a client.
func sendWith(ctx context.Context, http *http.Client, url, from string, q question) ([]byte, error) {
	client, err := rest.RESTClientForConfigAndClient(&rest.Config{
		Host: url, APIPath: "/apis",
		ContentConfig: rest.ContentConfig{GroupVersion: &v1alpha1.GroupVersion,
			NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}, http)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", from, err)
	}
	var request *rest.Request
	if q.body == nil {
		request = client.Get()
		if q.name != "" {
			request = request.Name(q.name)
		}
	} else {
		request = client.Post().Body(q.body).SetHeader("Content-Type", "application/json")
	}
	// The command has chosen the replica, and asks the next one if this one cannot answer.
	request = request.SetHeader(secureserving.PassOnHeader, secureserving.PassOnNever).
		NamespaceIfScoped(q.namespace, q.namespace != "").Resource(q.resource).MaxRetries(maxRetries)
	for name, value := range q.parameters {
		request = request.Param(name, value)
	}
	if q.file != nil {
		return nil, download(ctx, request, q.file, from)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, describe(err, from)
	}
	return result.Raw()
}

// maxFile limits the size of a file.
const maxFile = 1 << 30

// download copies the answer to a request.
func download(ctx context.Context, request *rest.Request, to io.Writer, from string) error {
	answer, err := request.Stream(ctx)
	if err != nil {
		return describe(err, from)
	}
	defer answer.Close()
	switch written, err := io.Copy(to, io.LimitReader(answer, maxFile+1)); {
	case err != nil:
		return fmt.Errorf("reading the answer of %s: %w", from, err)
	case written > maxFile:
		return fmt.Errorf("the answer of %s is larger than %d bytes", from, maxFile)
	}
	return nil
}
