// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secureserving lets only users through to livesched's endpoints whom the API server knows
// and permits. It puts parts of k8s.io/apiserver together:
//
//	request -> always allowed path? -> handler
//	           the API server for its user, else client certificate, else TokenReview -> 401
//	           another replica for its user? -> that user
//	           system:masters, else SubjectAccessReview -> 403
//	           handler
//
// A path like /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME stands for a resource, as at
// the API server: the SubjectAccessReview is about that resource, and errors are Status objects.
package secureserving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	// cacheTTL is how long an answer of the API server counts, as in kube-scheduler.
	cacheTTL = 10 * time.Second
	// reviewTimeout limits one request to the API server.
	reviewTimeout = 10 * time.Second
	// maxReviews limits the requests whose caller is being checked at the same time. While the API
	// server is slow, more of them would only take memory.
	maxReviews = 50
)

// paths tells paths that stand for resources from others.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}

// retries are the retries of a request to the API server. The caller can ask again, too.
var retries = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}

// Guard authenticates and authorizes requests by asking the API server.
//
// Start runs once, and Protect's handlers may be called by any goroutine, even before Start. The
// fields do not change.
type Guard struct {
	open     authorizer.Authorizer // allows the paths that are allowed to everybody
	identify authenticator.Request
	permit   authorizer.Authorizer
	// clientCA follows the authorities of client certificates in the cluster, while Start runs.
	clientCA *dynamiccertificates.ConfigMapCAController
	// frontProxy does the same for the API server itself, nil if it may not pass requests on.
	frontProxy *frontProxy
	// own is who may pass requests on besides, and named reads the users of such requests.
	own   ownName
	named authenticator.Request
	// reviewing holds one item for each request that is being checked.
	reviewing chan struct{}
}

// Options configures a Guard.
type Options struct {
	// AlwaysAllow are the paths that are allowed to everybody. They may end in *, which stands for
	// any rest.
	AlwaysAllow []string
	// FrontProxy accepts requests that the API server passes on, as it does for an APIService, with
	// the names of its users.
	FrontProxy bool
}

// NewGuard returns a Guard that asks with a client. The client's own user is that of all replicas.
func NewGuard(client clientset.Interface, o Options) (*Guard, error) {
	open, err := path.NewAuthorizer(o.AlwaysAllow)
	if err != nil {
		return nil, fmt.Errorf("paths that are always allowed: %w", err)
	}
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, authenticationConfigMap, "client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("following the authorities of client certificates: %w", err)
	}
	var proxy *frontProxy
	if o.FrontProxy {
		if proxy, err = newFrontProxy(client); err != nil {
			return nil, err
		}
	}
	named, err := newNamed()
	if err != nil {
		return nil, fmt.Errorf("reading users in headers: %w", err)
	}
	// Without anonymous users: a request without credentials is not authenticated.
	identify, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                &retries,
		CacheTTL:                           cacheTTL,
		ClientCertificateCAContentProvider: clientCA,
		RequestHeaderConfig:                proxy.config(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("delegating authentication: %w", err)
	}
	delegated, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		WebhookRetryBackoff:       &retries,
		AllowCacheTTL:             cacheTTL,
		DenyCacheTTL:              cacheTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("delegating authorization: %w", err)
	}
	permit, err := union.New(
		union.NamedAuthorizer{AuthorizerName: "privileged groups",
			Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "API server", Authorizer: delegated},
	)
	if err != nil {
		return nil, fmt.Errorf("joining authorizers: %w", err)
	}
	return &Guard{
		open: open, identify: identify, clientCA: clientCA, frontProxy: proxy, own: ownName{client: client},
		named: named, reviewing: make(chan struct{}, maxReviews), permit: permit,
	}, nil
}

// NeedLeaderElection returns false: every replica serves.
func (*Guard) NeedLeaderElection() bool { return false }

// Start follows the authorities of client certificates until ctx ends.
func (g *Guard) Start(ctx context.Context) error {
	var proxy sync.WaitGroup
	proxy.Go(func() { g.frontProxy.run(ctx) })
	g.clientCA.Run(ctx, 1)
	proxy.Wait()
	return nil
}

// Protect returns a handler that calls next for permitted requests. Their contexts have the
// RequestInfo that was authorized, and the user unless the path is always allowed.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := paths.NewRequestInfo(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := request.WithRequestInfo(r.Context(), info)
		// A path that is always allowed needs no answer of the API server, whatever credentials
		// the request has: a probe works while the API server does not.
		if decision, _, _ := g.open.Authorize(ctx, attributesOf(info, nil)); decision != authorizer.DecisionAllow {
			who, passedOn, refused := g.review(r, info)
			if passedOn {
				ctx = WithPassedOn(ctx)
				w.Header().Set(AnsweredForHeader, who.GetName())
			}
			if refused != nil {
				w.Header().Set("Connection", "close") // the caller's next try may have another certificate
				refused.write(w, info)
				return
			}
			ctx = request.WithUser(ctx, who)
		}
		r = r.WithContext(ctx)
		r.Header.Del("Authorization") // no handler needs it
		withoutRemote(r.Header)
		next.ServeHTTP(w, r)
	})
}

// review returns the user of a request, and whether it was passed on, both unless that is not
// known, and why it is refused, nil if it is permitted.
func (g *Guard) review(r *http.Request, info *request.RequestInfo) (_ user.Info, passedOn bool, _ *refusal) {
	select {
	case g.reviewing <- struct{}{}:
		defer func() { <-g.reviewing }()
	default:
		return nil, false, &refusal{code: http.StatusTooManyRequests, text: "too many requests are being authenticated"}
	}
	sender, ok, err := g.identify.AuthenticateRequest(r)
	if err != nil || !ok {
		// The error may also say that the API server does not answer: the library does not tell
		// that apart from invalid credentials.
		if err != nil {
			klog.FromContext(r.Context()).V(1).Info("Could not authenticate a request", "path", r.URL.Path, "from",
				r.RemoteAddr, "err", err.Error())
		}
		return nil, false, &refusal{code: http.StatusUnauthorized, text: "Unauthorized"}
	}
	who, passedOn, refused := g.userOf(r, info, sender.User)
	if refused != nil {
		return nil, false, refused
	}
	attributes := attributesOf(info, who)
	decision, _, err := g.permit.Authorize(r.Context(), attributes)
	switch {
	case decision == authorizer.DecisionAllow:
		return who, passedOn, nil
	case err != nil:
		klog.FromContext(r.Context()).Error(err, "Could not authorize a request", "path", r.URL.Path, "user",
			who.GetName())
		return who, passedOn, &refusal{code: http.StatusInternalServerError,
			text: "could not ask the API server whether this is permitted"}
	default:
		return who, passedOn, forbidden(attributes)
	}
}

// Allows asks whether the user of a request that Protect let through may do something else, too.
func (g *Guard) Allows(ctx context.Context, what authorizer.AttributesRecord) (bool, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return false, errors.New("the request was not authenticated")
	}
	what.User = who
	decision, _, err := g.permit.Authorize(ctx, what)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server whether %s may %s %s: %w", who.GetName(), what.Verb,
			what.Resource, err)
	}
	return false, nil
}

// Again returns another request of the user of a request that Protect let through, as Protect lets
// it through. If the user may not make it, the error is an apierrors.APIStatus.
func (g *Guard) Again(ctx context.Context, method, target string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	info, err := paths.NewRequestInfo(r)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	attributes := attributesOf(info, nil)
	switch allowed, err := g.Allows(ctx, attributes); {
	case err != nil:
		return nil, err
	case !allowed:
		attributes.User, _ = request.UserFrom(ctx)
		return nil, forbidden(attributes).status(info)
	}
	return r.WithContext(request.WithRequestInfo(ctx, info)), nil
}

func attributesOf(info *request.RequestInfo, who user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: who, Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest,
		APIGroup: info.APIGroup, APIVersion: info.APIVersion, Namespace: info.Namespace,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name,
	}
}
