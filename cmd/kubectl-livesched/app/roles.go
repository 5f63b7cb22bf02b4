// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// grants names what permits the verbs that the commands need on resources of livesched.
var grants = map[string]string{
	"schedulerprofiles":  "the ClusterRole livesched-viewer permits to read them, and livesched-profile-editor to change them",
	"schedulingpolicies": "the ClusterRole livesched-viewer permits to read them, and livesched-policy-editor to change them",
	"podexplanations":    "the ClusterRole livesched-viewer permits it",
	"decisions":          "the ClusterRole livesched-viewer permits it",
	"simulations":        "the ClusterRole livesched-viewer permits it",
	"capacities":         "the ClusterRole livesched-viewer permits it",
	"snapshots":          "the ClusterRole livesched-debugger permits it",
}

// clusterScoped are the resources for which a RoleBinding is not enough.
var clusterScoped = map[string]bool{"schedulerprofiles": true, "schedulingpolicies": true, "snapshots": true}

// withRole adds to the refusal of a request which role permits it.
func withRole(err error) error {
	var status apierrors.APIStatus
	if err == nil || !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return err
	}
	role := roleFor(status.Status())
	if role == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, role)
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
			role += "; with -n, a RoleBinding in that namespace is enough"
		}
		return role
	case "apps":
		if resource == "controllerrevisions" {
			return "the ClusterRole view of Kubernetes permits to list them, with a RoleBinding in livesched's namespace"
		}
	}
	return ""
}
