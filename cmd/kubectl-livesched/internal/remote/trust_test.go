// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/replicas"
	"github.com/livesched/livesched/internal/secureserving"
	"github.com/livesched/livesched/internal/servingcert"
)

// livesched is an HTTPS server with a certificate like livesched's own. It counts the requests that
// reach it.
type livesched struct {
	*httptest.Server
	certificate *tls.Certificate
	requests    atomic.Int32
}

func newLivesched(t *testing.T, handler http.HandlerFunc) *livesched {
	t.Helper()
	self := &servingcert.SelfSigned{Names: []string{"livesched-0"}, Clock: clock.RealClock{}}
	l := &livesched{}
	var err error
	if l.certificate, err = self.GetCertificate(nil); err != nil {
		t.Fatal(err)
	}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.requests.Add(1)
		handler(w, r)
	}))
	l.TLS = &tls.Config{GetCertificate: self.GetCertificate, ClientAuth: tls.RequestClientCert}
	l.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.StartTLS()
	t.Cleanup(l.Close)
	return l
}

// trusted returns the trust in one livesched with connections to another one.
func trusted(t *testing.T, in, at *livesched) replicas.Trust {
	t.Helper()
	only, err := replicas.TrustOnly(in.certificate.Leaf)
	if err != nil {
		t.Fatal(err)
	}
	only.Dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at.Listener.Addr().String())
	}
	return only
}

// apiServer is the configuration of a user for an API server, with a token and, as one finds in
// kubeconfigs for tests, without verification and with a proxy.
func apiServer() *rest.Config {
	return &rest.Config{
		Host: "https://api.example", BearerToken: "secret",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, ServerName: "api.example"},
		Proxy:           http.ProxyFromEnvironment,
	}
}

func ask(t *testing.T, trust replicas.Trust) (string, error) {
	t.Helper()
	l := &Livesched{Config: apiServer()}
	text, err := l.send(t.Context(), "https://livesched", trust, "livesched-0",
		question{resource: "podexplanations", namespace: "ml", name: "train-7"})
	return string(text), err
}

func TestCredentialsGoToThePublishedCertificateOnly(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("it gets the credentials %q", r.Header.Get("Authorization"))
		}
		if got := r.Header.Get(secureserving.PassOnHeader); got != secureserving.PassOnNever {
			t.Errorf("a replica may pass the question on: %q", got)
		}
		if r.URL.Path != "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7" {
			t.Errorf("it gets the path %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodExplanation"}`))
	}
	one, two := newLivesched(t, handler), newLivesched(t, handler)
	if text, err := ask(t, trusted(t, one, one)); err != nil || text != `{"kind":"PodExplanation"}` {
		t.Errorf("got %q, %v", text, err)
	}
	_, err := ask(t, trusted(t, one, two))
	var unverified *unverifiedError
	if !errors.As(err, &unverified) || !tryNext(err) || two.requests.Load() != 0 {
		t.Errorf("another certificate with the same name gets %d requests: %v", two.requests.Load(), err)
	}
}

func TestAClientCertificateIsNotShownToAnUnverifiedPeer(t *testing.T) {
	var shown atomic.Int32
	handler := func(http.ResponseWriter, *http.Request) {}
	one, two := newLivesched(t, handler), newLivesched(t, handler)
	for _, l := range []*livesched{one, two} {
		l.TLS.VerifyConnection = func(s tls.ConnectionState) error {
			shown.Add(int32(len(s.PeerCertificates)))
			return nil
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("me", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := apiServer()
	config.CertData, config.KeyData = certificate, key
	l := &Livesched{Config: config}
	for at, want := range map[*livesched]int32{one: 1, two: 0} {
		shown.Store(0)
		_, _ = l.send(t.Context(), "https://livesched", trusted(t, one, at), "livesched-0",
			question{resource: "podexplanations", namespace: "ml", name: "a"})
		if got := shown.Load(); (got > 0) != (want > 0) {
			t.Errorf("%d certificates are shown, want %d", got, want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := newLivesched(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed") })
	l := newLivesched(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	if _, err := ask(t, trusted(t, l, l)); err == nil {
		t.Error("a redirect is an answer")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
		next    bool
	}{
		{"a livesched without the resource refuses the path", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `Forbidden: user "me" cannot get path `+
				`"/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7"`, http.StatusForbidden)
		}, "livesched-0 cannot answer this: it is older than this plugin", false},
		{"a livesched without the resource does not find it", http.NotFound,
			"livesched-0 cannot answer this: it is older than this plugin", false},
		{"no credentials", func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, apierrors.NewUnauthorized("Unauthorized"))
		},
			"livesched-0 does not accept your credentials: Unauthorized", false},
		{"no such pod", func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, apierrors.NewNotFound(pods, "train-7"))
		}, `pods "train-7" not found`, false},
		{"a replica that is not ready", func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, apierrors.NewServiceUnavailable("the informers have not delivered their first lists"))
		}, "the informers have not delivered their first lists", true},
	} {
		l := newLivesched(t, test.handler)
		_, err := ask(t, trusted(t, l, l))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || tryNext(err) != test.next {
			t.Errorf("%s: got %v, try another replica: %v", test.name, err, tryNext(err))
		}
	}
}

func TestAReplicaThatIsGoneIsNotReached(t *testing.T) {
	l := newLivesched(t, func(http.ResponseWriter, *http.Request) {})
	way := trusted(t, l, l)
	l.Close()
	if _, err := ask(t, way); err == nil || !strings.HasPrefix(err.Error(), "livesched-0 cannot be reached: ") ||
		!tryNext(err) {
		t.Errorf("got %v", err)
	}
}

func TestAURLNeedsVerification(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	get := func(url, ca string) error {
		_, err := (&Livesched{Config: apiServer(), URL: url, CAFile: ca}).Get(t.Context(), "podexplanations", "ml", "a",
			nil, nil)
		return err
	}
	if err := get(server.URL, ""); err == nil ||
		!strings.Contains(err.Error(), "cannot be verified, so your credentials were not sent") {
		t.Errorf("the authorities of the system: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := get(server.URL, file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := get(server.URL, file); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	if err := get(strings.Replace(server.URL, "https", "http", 1), file); err == nil {
		t.Error("credentials are sent in plain text")
	}
}

func TestImpersonationIsRefused(t *testing.T) {
	config := apiServer()
	config.Impersonate.UserName = "somebody"
	if _, err := (&Livesched{Config: config}).Get(t.Context(), "podexplanations", "ml", "a", nil, nil); err == nil ||
		!strings.Contains(err.Error(), "--as") {
		t.Errorf("got %v", err)
	}
}
