// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loadhistory reads the load of livesched's replicas over days from Prometheus. The process
// itself knows its last hours only (package load of the scheduler).
//
//	Client.Load(last) -> kept for a minute? -> range queries, all at once -> columns, NaN where is none
//	                                        -> an error without the URL
package loadhistory

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
)

const (
	// answerTimeout limits the time for the answers to all queries.
	answerTimeout = 10 * time.Second
	// keptFor is how long a load is kept, and failedFor an error: however many people look,
	// Prometheus is asked once in that time.
	keptFor, failedFor = time.Minute, 15 * time.Second
	// maxAnswer is the largest answer to one query, in bytes. One of three series has 30 kB.
	maxAnswer = 1 << 20
)

// Config names a Prometheus.
type Config struct {
	// URL is its address: http or https, with a path if it has one. It may have a user and a
	// password.
	URL string
	// TokenFile has a bearer token, which is read again when it changes. Empty: none is sent.
	TokenFile string
	// CAFile has the authorities that verify it. Empty: those of the system.
	CAFile string
	// Namespace is that of livesched's pods. Empty: any.
	Namespace string
}

// Validate returns an error for what is not allowed. It does not repeat the URL, which may have a
// password.
func (c *Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be a URL of Prometheus such as http://prometheus.monitoring:9090")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must be a URL without a query and a fragment")
	case u.User != nil && c.TokenFile != "":
		return errors.New("must have no user if there is a file with a token")
	case u.Scheme != "https" && (u.User != nil || c.TokenFile != "") && !isLoopback(u.Hostname()):
		return errors.New("must be an https URL if there is a token or a password: http sends them in clear text")
	case c.CAFile != "" && u.Scheme != "https":
		return errors.New("must be an https URL if there is a file with authorities")
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Client reads from Prometheus. Any goroutine may use it.
type Client struct {
	api      promv1.API
	selector string

	mu   sync.Mutex // guards the map
	kept map[time.Duration]*kept
}

// kept is the latest answer for a time.
type kept struct {
	// asking holds one item while Prometheus is asked, and guards the fields below.
	asking chan struct{}
	load   *Load
	err    error
	until  time.Time
}

// New returns a Client. Its first question finds out whether Prometheus answers.
func New(c *Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	through, err := transport.New(&transport.Config{BearerTokenFile: c.TokenFile,
		TLS: transport.TLSConfig{CAFile: c.CAFile}})
	if err != nil {
		return nil, err
	}
	// A redirect leads to a page for signing in, and credentials are for this address alone.
	client := &http.Client{Transport: limited{through}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	prometheus, err := api.NewClient(api.Config{Address: c.URL, Client: client})
	if err != nil {
		return nil, errors.New("must be a URL")
	}
	return &Client{api: promv1.NewAPI(prometheus), selector: selectorOf(c.Namespace),
		kept: map[time.Duration]*kept{}}, nil
}

// Load returns the load in a time until now, which may be a minute ago. It is kept for each time:
// there must be few. The error says why Prometheus gave no answer, in words for anybody.
func (c *Client) Load(ctx context.Context, last time.Duration) (*Load, error) {
	c.mu.Lock()
	k := c.kept[last]
	if k == nil {
		k = &kept{asking: make(chan struct{}, 1)}
		c.kept[last] = k
	}
	c.mu.Unlock()
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return nil, errLate
	}
	if time.Now().Before(k.until) {
		return k.load, k.err
	}
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	load, err := c.read(asking, last)
	if err == nil {
		k.load, k.err, k.until = load, nil, time.Now().Add(keptFor)
		return load, nil
	}
	klog.FromContext(ctx).V(2).Info("Prometheus gave no answer for the charts", "reason", err)
	if ctx.Err() == nil { // else it had less time than it may take
		k.load, k.err, k.until = nil, err, time.Now().Add(failedFor)
	}
	return nil, err
}

// errLate is the error of a question that took too long.
var errLate = errors.New("it did not answer in time")

// wordsOf returns an error without the URL, addresses, and the query.
func wordsOf(err error) error {
	var sent *url.Error
	var answered *promv1.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errLate
	case errors.As(err, &sent):
		return fmt.Errorf("it cannot be reached%s", causeOf(sent.Err))
	case errors.As(err, &answered):
		return fmt.Errorf("it answered with an error: %s", answered.Msg)
	}
	return err
}

// causeOf returns the cause of an error without addresses, which the users of pages may not see.
func causeOf(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ": the connection was refused"
	case errors.As(err, &name):
		return ": its name was not found"
	case errors.As(err, &certificate):
		return ": its certificate cannot be verified"
	}
	return ""
}

// limited limits the size of answers.
type limited struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = limitedBody{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// limitedBody reads a part of a body, and closes all of it.
type limitedBody struct {
	io.Reader
	io.Closer
}
