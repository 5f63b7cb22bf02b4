// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// grants names what permits the verbs that the commands need on resources of livesched.
var grants = map[string]string{
	"schedulerprofiles": "the ClusterRole livesched-viewer permits reading them, and livesched-profile-editor " +
		"changing them",
	"schedulingpolicies": "the ClusterRole livesched-viewer permits reading them, and livesched-policy-editor " +
		"changing them",
	"podexplanations": "the ClusterRole livesched-viewer permits it",
	"decisions":       "the ClusterRole livesched-viewer permits it",
	"simulations":     "the ClusterRole livesched-viewer permits it",
	"capacities":      "the ClusterRole livesched-viewer permits it",
	"queues":          "the ClusterRole livesched-viewer permits it",
	"pendingkinds":    "the ClusterRole livesched-viewer permits it",
	"nodeallocations": "the ClusterRole livesched-viewer permits it",
	"loadsamples":     "the ClusterRole livesched-viewer permits it",
	"snapshots":       "the ClusterRole livesched-debugger permits it",
}

// clusterScoped are the resources for which a RoleBinding is not enough.
var clusterScoped = map[string]bool{"schedulerprofiles": true, "schedulingpolicies": true, "queues": true,
	"snapshots": true, "nodeallocations": true, "loadsamples": true}

// refusal is the error of a forbidden request with the role that permits it.
type refusal struct {
	error
	role string
}

func (r *refusal) Error() string { return r.error.Error() + ": " + r.role }
func (r *refusal) Unwrap() error { return r.error }

// WithRole adds to the error of a forbidden request the role that permits it. It returns other
// errors, and errors that have a role already, as they are.
func WithRole(err error) error {
	var status apierrors.APIStatus
	var known *refusal
	if err == nil || errors.As(err, &known) || !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return err
	}
	role := roleFor(status.Status())
	if role == "" {
		return err
	}
	return &refusal{error: err, role: role}
}

// roleFor returns what permits a request, "" if that is not known.
func roleFor(refused metav1.Status) string {
	if refused.Details == nil {
		return ""
	}
	resource := refused.Details.Kind // the API server writes the resource there
	switch refused.Details.Group {
	case v1alpha1.GroupVersion.Group:
		role := grants[resource]
		switch all := strings.Contains(refused.Message, "at the cluster scope"); {
		case role == "":
		case clusterScoped[resource]:
			role += ", with a ClusterRoleBinding"
		case all:
			role += "; with -n NAMESPACE, a RoleBinding in that namespace is enough"
		}
		return role
	case "apps":
		if resource == "controllerrevisions" {
			return "the ClusterRole view of Kubernetes permits listing them, with a RoleBinding in livesched's " +
				"namespace"
		}
	}
	return ""
}
