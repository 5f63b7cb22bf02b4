// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package passon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/secureserving"
	"github.com/livesched/livesched/internal/servingcert"
)

const (
	namespace = "livesched-system"
	path      = "/apis/livesched.io/v1alpha1/namespaces/ml/pendingkinds"
)

// replica is an HTTPS server with a certificate like livesched's own.
type replica struct {
	*httptest.Server
	certificate *x509.Certificate
	requests    atomic.Int32
}

func newReplica(t *testing.T, handler http.HandlerFunc) *replica {
	t.Helper()
	self := &servingcert.SelfSigned{Names: []string{"livesched-0"}, Clock: clock.RealClock{}}
	held, err := self.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{certificate: held.Leaf}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		handler(w, q)
	}))
	r.TLS = &tls.Config{GetCertificate: self.GetCertificate, ClientAuth: tls.RequestClientCert}
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// objects returns what is known about the replica as the pod livesched-0, which holds the Lease. It
// has published a certificate.
func (r *replica) objects(t *testing.T, published *x509.Certificate) []runtime.Object {
	t.Helper()
	ip, text, err := net.SplitHostPort(r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	pod := &corev1.Pod{ObjectMeta: meta("livesched-0"),
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "https-metrics", ContainerPort: int32(port)}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}}
	pod.Labels = map[string]string{"app.kubernetes.io/name": "livesched"}
	return []runtime.Object{pod,
		&corev1.ConfigMap{ObjectMeta: meta(servingcert.PublishedConfigMap),
			Data: map[string]string{"livesched-0": string(
				pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: published.Raw}))}},
		&coordinationv1.Lease{ObjectMeta: meta("livesched"),
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("livesched-0_1f")}},
	}
}

// leader returns a Leader for a replica that finds the objects.
func leader(t *testing.T, holder string, objects ...runtime.Object) *Leader {
	t.Helper()
	l := New(Config{
		// As one finds in kubeconfigs for tests, without verification.
		Rest: &rest.Config{Host: "https://api.example", BearerToken: "secret",
			TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		Client: fake.NewClientset(objects...), Namespace: namespace, Lease: "livesched", Host: "livesched-1",
		Holder: func() string { return holder }, Leading: func() bool { return false },
	})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

// as returns a context with the user of a question.
func as(t *testing.T, name string, groups ...string) context.Context {
	return request.WithUser(t.Context(), &user.DefaultInfo{Name: name, UID: "42", Groups: groups,
		Extra: map[string][]string{"scopes": {"a"}}})
}

// answering is a leader that answers for the user who is named.
func answering(code int, object any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(secureserving.AnsweredForHeader, r.Header.Get("X-Remote-User"))
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
}

func TestTheLeaderIsAskedForTheUserWithTheTokenOfTheReplica(t *testing.T) {
	r := newReplica(t, func(w http.ResponseWriter, q *http.Request) {
		for name, want := range map[string]string{"Authorization": "Bearer secret", "X-Remote-User": "jane",
			"X-Remote-Uid": "42", "X-Remote-Extra-Scopes": "a", secureserving.PassedOnHeader: "livesched-1"} {
			if got := q.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := strings.Join(q.Header.Values("X-Remote-Group"), ","); got != "ml,system:authenticated" {
			t.Errorf("groups %s", got)
		}
		if got := q.URL.String(); got != path+"?limit=5" {
			t.Errorf("it is asked for %s", got)
		}
		answering(http.StatusOK, map[string]string{"kind": "PendingKindList"})(w, q)
	})
	l := leader(t, "livesched-0_1f", r.objects(t, r.certificate)...)
	for range 2 {
		text, err := l.Ask(as(t, "jane", "ml", "system:authenticated"), path, url.Values{"limit": {"5"}})
		if err != nil || strings.TrimSpace(string(text)) != `{"kind":"PendingKindList"}` {
			t.Fatalf("got %s, %v", text, err)
		}
	}
	if client, is := l.cfg.Client.(*fake.Clientset); !is || len(client.Actions()) != 3 {
		t.Errorf("two questions look for the leader with %v", client.Actions())
	}
}

func TestARefusalOfTheLeaderReachesTheUser(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("pendingkinds"), "", nil).Status()
	refused.Kind = "Status"
	r := newReplica(t, answering(http.StatusForbidden, refused))
	_, err := leader(t, "livesched-0_1f", r.objects(t, r.certificate)...).Ask(as(t, "jane"), path, nil)
	if !apierrors.IsForbidden(err) || err.Error() != refused.Message {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerForAnotherUserIsDropped(t *testing.T) {
	answer := map[string]string{"kind": "PendingKindList"}
	forbidden := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Code: http.StatusForbidden, Message: "no"}
	for what, handler := range map[string]http.HandlerFunc{
		"it does not answer for other users (status 200)": func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(answer) // as a version does that passes nothing on
		},
		"it does not answer for other users (status 201)": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(secureserving.AnsweredForHeader, "system:serviceaccount:livesched-system:livesched")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(answer)
		},
		"it does not answer for other users: no": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(forbidden)
		},
	} {
		r := newReplica(t, handler)
		text, err := leader(t, "livesched-0_1f", r.objects(t, r.certificate)...).Ask(as(t, "jane"), path, nil)
		if text != nil || !apierrors.IsServiceUnavailable(err) || !strings.HasSuffix(err.Error(), what) {
			t.Errorf("got %s, %v, want %s", text, err, what)
		}
	}
}

func TestAUserWhomHeadersCannotNameIsNotAskedFor(t *testing.T) {
	r := newReplica(t, answering(http.StatusOK, nil))
	l := leader(t, "livesched-0_1f", r.objects(t, r.certificate)...)
	for _, ctx := range []context.Context{as(t, "jane "), as(t, "jane", "ml", " system:masters"), as(t, "jane\t")} {
		if _, err := l.Ask(ctx, path, nil); !apierrors.IsBadRequest(err) {
			t.Errorf("got %v", err)
		}
	}
	if r.requests.Load() != 0 {
		t.Error("the leader is asked")
	}
}

func TestALeaderThatDoesNotAnswerIsNamed(t *testing.T) {
	one, two := newReplica(t, answering(http.StatusOK, nil)), newReplica(t, answering(http.StatusOK, nil))
	gone := newReplica(t, answering(http.StatusOK, nil))
	objects := gone.objects(t, gone.certificate)
	gone.Close()
	const names = "livesched in pod livesched-system/livesched-0 leads, and this replica could not pass the question " +
		"on to it: "
	for _, test := range []struct {
		what, holder string
		objects      []runtime.Object
		want         string
	}{
		{"it has ended", "livesched-0_1f", objects, names + "it cannot be reached"},
		{"another certificate", "livesched-0_1f", one.objects(t, two.certificate), names + "it cannot be reached"},
		{"no certificate", "livesched-0_1f", one.objects(t, one.certificate)[0:1], names + "it cannot be verified: " +
			"there is no ConfigMap livesched-system/livesched-serving-certs: apply config/rbac of this version"},
		{"no pod", "livesched-0_1f", nil, names + "no such pod runs"},
		{"it is this replica", "livesched-1_2a", nil,
			"this replica of livesched has just begun to lead, and does not schedule pods yet"},
		{"nobody leads", "", objects, "no replica of livesched leads now, and this one cannot answer alone"},
	} {
		_, err := leader(t, test.holder, test.objects...).Ask(as(t, "jane"), path, nil)
		if !apierrors.IsServiceUnavailable(err) || err.Error() != test.want {
			t.Errorf("%s: got %v", test.what, err)
		}
	}
	if one.requests.Load() != 0 {
		t.Error("a replica that is not verified gets the token")
	}
}

func TestQuestionsThatArePassedOnAreLimited(t *testing.T) {
	r := newReplica(t, answering(http.StatusOK, nil))
	l := leader(t, "livesched-0_1f", r.objects(t, r.certificate)...)
	for range maxAsking {
		l.asking <- struct{}{}
	}
	if _, err := l.Ask(as(t, "jane"), path, nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
	<-l.asking
	if _, err := l.Ask(as(t, "jane"), path, nil); err != nil {
		t.Errorf("with room: %v", err)
	}
}

func TestAQuestionWithoutAUserIsNotPassedOn(t *testing.T) {
	if _, err := leader(t, "livesched-0_1f").Ask(t.Context(), path, nil); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

// looks returns how often a Leader has looked for the leader.
func looks(l *Leader) (count int) {
	for _, action := range l.cfg.Client.(*fake.Clientset).Actions() {
		if action.Matches("list", "pods") {
			count++
		}
	}
	return count
}

func TestACallerWhoLeavesSaysNothingAboutTheLeader(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan struct{})
	one := newReplica(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("slow") {
			close(asked)
			<-answers
		}
		answering(http.StatusOK, &metav1.Status{})(w, r)
	})
	t.Cleanup(func() { close(answers) })
	l := leader(t, "livesched-0_1f", one.objects(t, one.certificate)...)
	ctx, leave := context.WithCancel(as(t, "jane"))
	go func() { <-asked; leave() }()
	if _, err := l.Ask(ctx, path, url.Values{"slow": {"true"}}); !apierrors.IsTimeout(err) {
		t.Errorf("a caller who leaves: %v", err)
	}
	if _, err := l.Ask(as(t, "jane"), path, nil); err != nil || looks(l) != 1 {
		t.Errorf("the next one: %v, after looking for the leader %d times", err, looks(l))
	}
}

func TestALeaderThatCannotBeReachedIsNotTriedByEveryQuestion(t *testing.T) {
	one := newReplica(t, answering(http.StatusOK, &metav1.Status{}))
	objects := one.objects(t, one.certificate)
	one.Close()
	l := leader(t, "livesched-0_1f", objects...)
	var first *failure
	for range 5 {
		if _, err := l.Ask(as(t, "jane"), path, nil); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v", err)
		}
		if first = cmp.Or(first, l.failed); l.failed != first {
			t.Error("a question that did not try the leader makes the next ones wait longer")
		}
		first.at = time.Now().Add(time.Hour) // however long the questions take
	}
	if looks(l) != 1 {
		t.Errorf("5 questions have looked for the leader %d times", looks(l))
	}
	l.failed.at = time.Now().Add(-failedFor)
	if _, err := l.Ask(as(t, "jane"), path, nil); err == nil || looks(l) != 2 {
		t.Errorf("later: %v, after looking %d times", err, looks(l))
	}
}

func TestTheConnectionIsKeptWhenTheLeaderIsLookedUpAgain(t *testing.T) {
	one := newReplica(t, answering(http.StatusOK, &metav1.Status{}))
	l := leader(t, "livesched-0_1f", one.objects(t, one.certificate)...)
	if _, err := l.Ask(as(t, "jane"), path, nil); err != nil {
		t.Fatal(err)
	}
	before := l.kept.client
	l.kept = &way{replica: l.kept.replica, client: before, found: l.kept.found.Add(-keptFor)}
	if _, err := l.Ask(as(t, "jane"), path, nil); err != nil || looks(l) != 2 || l.kept.client != before {
		t.Errorf("%v, after looking %d times", err, looks(l))
	}
}
