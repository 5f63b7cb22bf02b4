// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passon passes questions on to the replica that leads, which alone knows some answers:
//
//	user --> a replica that does not lead --> Lease, pods, published certificates --> the leader
//	           X-Remote-User, -Group, ...: the user          its own token: the replica
//
// The leader believes the headers of its own service account alone, and asks the API server whether
// the user may have the answer, as it does for everybody: see internal/secureserving. It gets the
// replica's token only after it has shown the certificate that it has published.
package passon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/replicas"
	"github.com/livesched/livesched/internal/secureserving"
)

const (
	// timeout limits the time for one question: the leader takes up to ten seconds for an
	// explanation.
	timeout = 15 * time.Second
	// maxAsking limits the questions that are passed on at the same time. They take no CPU of this
	// replica, but those of the leader.
	maxAsking = 20
	// maxAnswer limits the size of an answer.
	maxAnswer = 16 << 20
	// dialTimeout limits the time to connect to the leader, which is in the same cluster.
	dialTimeout = 2 * time.Second
	// failedFor is how long a leader that could not be reached is not tried again.
	failedFor = 2 * time.Second
	// keptFor is how long the leader's address and certificate are kept.
	keptFor = 10 * time.Second
	// retryAfter is how many seconds a caller should wait that was refused because of the load.
	retryAfter = 1
)

// Config configures a Leader. All fields are required.
type Config struct {
	// Rest has the credentials of this replica, and Client looks for the leader with them.
	Rest   *rest.Config
	Client clientset.Interface
	// Namespace is the namespace of livesched, and Lease the name of its Lease there.
	Namespace, Lease string
	// Host is the host name of this replica.
	Host string
	// Holder returns the identity of the holder of the Lease, "" if there is none.
	Holder func() string
	// Leading reports whether this replica leads.
	Leading func() bool
}

// Leader passes questions on to the leader. Any goroutine may use it.
type Leader struct {
	cfg Config
	// asking holds one item for each question that is being passed on.
	asking chan struct{}

	// looking holds one item while a question looks for the leader. The others wait for it.
	looking chan struct{}

	mu sync.Mutex // guards the fields below
	// kept is the way to the leader that was found last, nil if it must be looked up.
	kept *way
	// failed is why the leader with a host name could not be reached until now, nil if it could.
	failed *failure
}

// failure is why a leader could not be reached at a time. It does not change.
type failure struct {
	host string
	error
	at time.Time
}

// Unwrap returns the reason.
func (f *failure) Unwrap() error { return f.error }

// way is the way to a leader. It does not change.
type way struct {
	replica replicas.Replica
	client  *http.Client
	found   time.Time
}

// New returns a Leader. Close it after the last question.
func New(cfg Config) *Leader {
	return &Leader{cfg: cfg, asking: make(chan struct{}, maxAsking), looking: make(chan struct{}, 1)}
}

// Leading reports whether this replica leads, so that there is nobody to pass a question on to.
func (l *Leader) Leading() bool { return l.cfg.Leading() }

// Ask gets an object from the leader as JSON, for the user of ctx. The error is an
// apierrors.APIStatus: that of the leader, or ServiceUnavailable if it cannot be reached.
func (l *Leader) Ask(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("the question to pass on has no user"))
	}
	if err := sendable(who); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	default:
		return nil, apierrors.NewTooManyRequests(
			fmt.Sprintf("%d questions are being passed on to the replica that leads", maxAsking), retryAfter)
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := replicas.HostOf(l.cfg.Holder())
	switch host {
	case "":
		return nil, apierrors.NewServiceUnavailable(
			"no replica of livesched leads now, and this one cannot answer alone")
	case l.cfg.Host:
		return nil, apierrors.NewServiceUnavailable(
			"this replica of livesched has just begun to lead, and does not schedule pods yet")
	}
	name := host
	to, err := l.wayTo(ctx, host)
	var answer json.RawMessage
	if err == nil {
		name = to.replica.Pod
		answer, err = l.send(ctx, to, path, query, who)
	}
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil, errors.As(err, &status):
		return answer, err
	case caller.Err() != nil: // which says nothing about the leader
		return nil, apierrors.NewTimeoutError("the replica that leads did not answer in the time of the request", 0)
	}
	if before := (*failure)(nil); !errors.As(err, &before) { // else the leader was not tried now
		l.forget(host, to, err)
	}
	return nil, l.unreachable(ctx, name, err)
}

// unreachable returns the error for a leader that does not answer. The reason is for the log: it
// has addresses, which the user of a question may not see.
func (l *Leader) unreachable(ctx context.Context, name string, reason error) error {
	klog.FromContext(ctx).Info("Could not pass a question on to the leader", "leader", name, "err", reason.Error())
	why := "it cannot be reached"
	var known *knownError
	switch {
	case errors.As(reason, &known):
		why = known.text
	case errors.Is(reason, context.DeadlineExceeded):
		why = "it has not answered in time"
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"livesched in pod %s/%s leads, and this replica could not pass the question on to it: %s",
		l.cfg.Namespace, name, why))
}

// knownError is a reason that the user of a question may see.
type knownError struct{ text string }

func (e *knownError) Error() string { return e.text }

// sendable returns an error for a user whom headers cannot name: the other side would take the name
// for another one.
func sendable(who user.Info) error {
	if who.GetName() == "" {
		return errors.New("the question cannot be passed on to the replica that leads: your user has no name")
	}
	values := append([]string{who.GetName(), who.GetUID()}, who.GetGroups()...)
	for _, more := range who.GetExtra() {
		values = append(values, more...)
	}
	for _, value := range values {
		if textproto.TrimString(value) != value {
			return fmt.Errorf("the question cannot be passed on to the replica that leads: %q, of your user, begins "+
				"or ends with a space", value)
		}
	}
	return nil
}

// wayTo returns the way to a host. One question at a time looks for it.
func (l *Leader) wayTo(ctx context.Context, host string) (*way, error) {
	if to, err := l.known(host); to != nil || err != nil {
		return to, err
	}
	select {
	case l.looking <- struct{}{}:
		defer func() { <-l.looking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if to, err := l.known(host); to != nil || err != nil { // another question has looked
		return to, err
	}
	found, err := replicas.Find(ctx, l.cfg.Client, l.cfg.Namespace, l.cfg.Lease)
	if err != nil {
		return nil, fmt.Errorf("looking for the leader: %w", err)
	}
	for i := range found {
		if found[i].Host == host {
			return l.keep(&found[i])
		}
	}
	return nil, &knownError{"no such pod runs"}
}

// known returns the way to a host that was found a short time ago, or why it could not be reached.
// Without either, the host must be looked up.
func (l *Leader) known(host string) (*way, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.failed; f != nil && f.host == host && time.Since(f.at) < failedFor {
		return nil, f
	}
	if l.kept != nil && l.kept.replica.Host == host && time.Since(l.kept.found) < keptFor {
		return l.kept, nil
	}
	return nil, nil //nolint:nilnil // it is not known
}

// keep keeps the way to a replica, with the connections to it if it has not changed.
func (l *Leader) keep(r *replicas.Replica) (*way, error) {
	if r.Certificate == nil {
		return nil, &knownError{fmt.Sprintf("it cannot be verified: %v", r.Unverified)}
	}
	if r.IP == "" {
		return nil, &knownError{"its pod has no address"}
	}
	to := &way{replica: *r, found: time.Now()}
	l.mu.Lock()
	old := l.kept
	l.mu.Unlock()
	if old != nil && old.replica.Pod == r.Pod && old.replica.IP == r.IP && old.replica.Port == r.Port &&
		old.replica.Certificate.Equal(r.Certificate) {
		to.client, old = old.client, nil
	} else {
		client, err := l.clientOf(r)
		if err != nil {
			return nil, err
		}
		to.client = client
	}
	l.mu.Lock()
	l.kept, l.failed = to, nil
	l.mu.Unlock()
	old.close()
	return to, nil
}

// clientOf returns a client that trusts a replica alone.
func (l *Leader) clientOf(r *replicas.Replica) (*http.Client, error) {
	trust, err := replicas.TrustOnly(r.Certificate)
	if err != nil {
		return nil, &knownError{fmt.Sprintf("it cannot be verified: %v", err)}
	}
	address := net.JoinHostPort(r.IP, strconv.Itoa(int(r.Port)))
	trust.Dial = func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	}
	client, err := trust.Client(l.cfg.Rest)
	if err != nil {
		return nil, fmt.Errorf("using the credentials of this replica: %w", err)
	}
	return client, nil
}

// close closes the connections on which no question is under way.
func (w *way) close() {
	if w != nil {
		utilnet.CloseIdleConnectionsFor(w.client.Transport)
	}
}

// forget makes questions look for the leader again after a short time. failed is the way to it that
// was tried, nil if none was found.
func (l *Leader) forget(host string, failed *way, err error) {
	l.mu.Lock()
	if l.kept == failed {
		l.kept = nil
	}
	l.failed = &failure{host: host, error: err, at: time.Now()}
	l.mu.Unlock()
	failed.close()
}

// NeedLeaderElection returns false: the replicas that do not lead pass questions on.
func (*Leader) NeedLeaderElection() bool { return false }

// Start waits until ctx ends, and then closes the connections.
func (l *Leader) Start(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	kept := l.kept
	l.kept = nil
	l.mu.Unlock()
	kept.close()
	return nil
}

// send asks a leader for a user. The error is an apierrors.APIStatus if it is the answer.
func (l *Leader) send(ctx context.Context, to *way, path string, query url.Values,
	who user.Info) (json.RawMessage, error) {
	target := url.URL{Scheme: "https", Host: "livesched", Path: path, RawQuery: query.Encode()}
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	transport.SetAuthProxyHeaders(question, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
	question.Header.Set(secureserving.PassedOnHeader, l.cfg.Host)
	question.Header.Set("Accept", "application/json")
	answer, err := to.client.Do(question)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAnswer:
		return nil, &knownError{fmt.Sprintf("its answer is larger than %d bytes", maxAnswer)}
	case answer.Header.Get(secureserving.AnsweredForHeader) == who.GetName() && answer.StatusCode == http.StatusOK:
		return text, nil
	}
	return nil, refusal(answer, text, who)
}

// refusal returns the error in an answer. A Status of the leader about the user is passed on as it
// is. Another one is about this replica: the leader may be of a version that passes nothing on, or
// have another service account, and would have answered for this replica instead of the user.
func refusal(answer *http.Response, text []byte, who user.Info) error {
	var status metav1.Status
	decoded := json.Unmarshal(text, &status) == nil && status.Kind == "Status"
	switch {
	case answer.Header.Get(secureserving.AnsweredForHeader) == who.GetName() && decoded:
		return &apierrors.StatusError{ErrStatus: status}
	case !decoded:
		return &knownError{fmt.Sprintf("it does not answer for other users (status %d)", answer.StatusCode)}
	case status.Code == http.StatusTooManyRequests:
		return &apierrors.StatusError{ErrStatus: status}
	default:
		return &knownError{"it does not answer for other users: " + status.Message}
	}
}
