// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requestFlags are the flags that fill the fields of Simulations and Capacities, which no user has
// written. The first prefix of a field counts.
var requestFlags = []struct{ field, flag string }{
	{"spec.nodes.add", "--add-nodes"},
	{"spec.nodes.remove", "--remove-nodes"},
	{"spec.pods.labelSelector", "--selector"},
	{"spec.pods", "--pods"},
	{"spec.limit", "--limit"},
	{"spec.schedulerName", "--scheduler-name"},
	{"spec.pod.spec.schedulerName", "the pod's scheduler name"},
	{"spec.podGroup.", "the PodGroup: "},
	{"spec.pod.", "the pod: "},
	{"spec.pod", "the pod"},
}

// asFlags returns the error of a request of a kind in terms of the flags, or the error itself if it
// is about something else, such as an object in a file.
func asFlags(err error, kind string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		return err
	}
	details := status.Status().Details
	if details == nil || details.Kind != kind || len(details.Causes) == 0 {
		return err
	}
	var errs []error
	for _, cause := range details.Causes {
		errs = append(errs, errors.New(causeAsFlag(cause)))
	}
	return errors.Join(errs...)
}

// causeAsFlag returns what is wrong with a field, without the words of the API for it.
func causeAsFlag(cause metav1.StatusCause) string {
	message := cause.Message
	for _, kind := range []string{"Invalid value: ", "Forbidden: "} {
		message = strings.TrimPrefix(message, kind)
	}
	where := cause.Field
	for _, known := range requestFlags {
		if rest, ok := strings.CutPrefix(cause.Field, known.field); ok {
			where = known.flag
			if strings.HasSuffix(known.field, ".") {
				where += rest
			}
			break
		}
	}
	if where == "the pod's scheduler name" {
		message += "; --scheduler-name counts the pod with another one"
	}
	return where + ": " + message
}

// permittedBy adds to the error of a forbidden request for a resource the role that permits it.
// What else is forbidden has its own advice.
func permittedBy(err error, resource, namespace string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsForbidden(err) {
		return err
	}
	if details := status.Status().Details; details == nil || details.Kind != resource {
		return err
	}
	const role = "the ClusterRole livesched-viewer permits it, which is part of view, edit and admin"
	if resource == "simulations" && namespace == "" {
		return fmt.Errorf("%w: %s. With rights in one namespace, use -n NAMESPACE to simulate its pods only", err, role)
	}
	return fmt.Errorf("%w: %s", err, role)
}
