// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientset "k8s.io/client-go/kubernetes"
)

// PassOnHeader is the header by which a client asks the replica that it has chosen itself: with the
// value PassOnNever, a replica does not pass the question on to the leader.
const (
	PassOnHeader = "X-Livesched-Pass-On"
	PassOnNever  = "never"
)

const (
	// PassedOnHeader is the header of a request that a replica has passed on. Its value is the host
	// name of that replica. The headers X-Remote-User, X-Remote-Uid, X-Remote-Group and
	// X-Remote-Extra-* name the user then.
	PassedOnHeader = "X-Livesched-Passed-On-By"
	// AnsweredForHeader is the header of the answer to such a request: the name of the user. An
	// answer without it is for another user, namely the replica itself.
	AnsweredForHeader = "X-Livesched-Answered-For"
)

// remoteHeaders precede the names of headers with a user. No handler gets them.
const remoteHeaders = "X-Remote-"

// ownName is the name of the user that this replica is to the API server. Any goroutine may use it.
type ownName struct {
	client clientset.Interface
	known  atomic.Pointer[string]
}

// get asks the API server until it has answered once: the name is that of the service account.
func (o *ownName) get(ctx context.Context) (string, error) {
	if known := o.known.Load(); known != nil {
		return *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := o.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking the API server who this replica is: %w", err)
	}
	name := review.Status.UserInfo.Username
	if name == "" {
		return "", errors.New("the API server does not say who this replica is")
	}
	o.known.Store(&name)
	return name, nil
}

// passedOnKey is the key of a context whose request was passed on.
type passedOnKey struct{}

// WithPassedOn returns the context of a request that another replica has passed on.
func WithPassedOn(ctx context.Context) context.Context {
	return context.WithValue(ctx, passedOnKey{}, true)
}

// PassedOn reports whether another replica has passed a request on, which Protect let through.
func PassedOn(ctx context.Context) bool { return ctx.Value(passedOnKey{}) != nil }

// userOf returns the user that a request is answered for, and whether it was passed on: the user
// who sends it, or, if that is a replica of livesched that has passed it on, the user whom it
// names. Everybody else's headers mean nothing, and a request of somebody else that claims to be
// passed on is refused: its sender must not take the answer for one that is meant for another user.
func (g *Guard) userOf(r *http.Request, info *request.RequestInfo, sender user.Info) (user.Info, bool, *refusal) {
	if r.Header.Get(PassedOnHeader) == "" {
		return sender, false, nil
	}
	own, err := g.own.get(r.Context())
	switch {
	case err != nil:
		return nil, false, &refusal{code: http.StatusInternalServerError, text: err.Error()}
	case sender.GetName() != own:
		return nil, false, &refusal{code: http.StatusForbidden,
			text: fmt.Sprintf("User %q cannot pass requests on: only a replica of livesched with the same service "+
				"account can", sender.GetName())}
	case !info.IsResourceRequest:
		return nil, false, &refusal{code: http.StatusForbidden, text: "only questions about resources are passed on"}
	}
	named, ok, err := g.named.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, &refusal{code: http.StatusForbidden,
			text: cmp.Or(err, errors.New("the request that was passed on names no user")).Error()}
	}
	return named.User, true, nil
}

// newNamed returns what reads the user in the headers of a request.
func newNamed() (authenticator.Request, error) {
	return headerrequest.New([]string{remoteHeaders + "User"}, []string{remoteHeaders + "Uid"},
		[]string{remoteHeaders + "Group"}, []string{remoteHeaders + "Extra-"})
}

// withoutRemote removes the headers that name a user, and that a request was passed on.
func withoutRemote(header http.Header) {
	for name := range header {
		if len(name) >= len(remoteHeaders) && strings.EqualFold(name[:len(remoteHeaders)], remoteHeaders) {
			delete(header, name)
		}
	}
	header.Del(PassedOnHeader)
}
