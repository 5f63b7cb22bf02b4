// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// retryAfter is how many seconds a caller should wait who was refused because of the load.
const retryAfter = 1

// refusal is the reason why a request is not let through.
type refusal struct {
	code int
	text string
}

// write answers a request: as a Status if the path stands for a resource, otherwise as text.
func (r *refusal) write(w http.ResponseWriter, info *request.RequestInfo) {
	if !info.IsResourceRequest {
		if r.code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", fmt.Sprint(retryAfter))
		}
		http.Error(w, r.text, r.code)
		return
	}
	WriteError(w, r.status(info))
}

// status returns the refusal of a request for a resource as a Status.
func (r *refusal) status(info *request.RequestInfo) *apierrors.StatusError {
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	switch r.code {
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized(r.text)
	case http.StatusForbidden:
		return apierrors.NewForbidden(resource, info.Name, errors.New(r.text))
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests(r.text, retryAfter)
	default:
		return apierrors.NewInternalError(errors.New(r.text))
	}
}

// forbidden refuses what a user lacks the right for, and names that right.
func forbidden(a authorizer.AttributesRecord) *refusal {
	if !a.ResourceRequest {
		return &refusal{http.StatusForbidden,
			fmt.Sprintf("Forbidden: user %q cannot %s path %q", a.User.GetName(), a.Verb, a.Path)}
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return &refusal{http.StatusForbidden,
		fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.GetName(), a.Verb, resource, a.APIGroup,
			where)}
}
