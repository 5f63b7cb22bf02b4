// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
)

// othersMayMend holds the reasons of a spec that is not accepted which end when another object
// changes: objects that are applied together arrive in any order. ReasonExtenderHostNotAllowed is
// not among them: it ends only with another spec or with another process, which has other flags,
// and clients should not wait for that.
var othersMayMend = sets.New(
	v1alpha1.ReasonPolicyNotFound, v1alpha1.ReasonPolicyNotAccepted, v1alpha1.ReasonProfileNotFound,
	v1alpha1.ReasonSecretNotFound,
	v1alpha1.ReasonSecretNotReadable, v1alpha1.ReasonInvalidSecret, v1alpha1.ReasonSecretNotPermitted,
)

// summarize sets the conditions by which kstatus, and so Flux and others, judge an object, from
// Accepted and Programmed:
//
//	Ready    True only while this generation is active; the message says why it is not
//	Stalled  True while waiting is of no use, because only another spec helps in this process;
//	         absent otherwise, as kstatus asks for
func summarize(conditions *[]metav1.Condition, generation int64, now time.Time) {
	accepted := meta.FindStatusCondition(*conditions, v1alpha1.ConditionAccepted)
	programmed := meta.FindStatusCondition(*conditions, v1alpha1.ConditionProgrammed)
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: programmed.Reason,
		Message: programmed.Message}
	stalled := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: accepted.Reason,
		Message: accepted.Message}
	switch {
	case accepted.Status != metav1.ConditionTrue:
		ready.Reason, ready.Message = accepted.Reason, fmt.Sprintf("%s; %s", accepted.Message, programmed.Message)
	case programmed.Status == metav1.ConditionTrue:
		ready.Status = metav1.ConditionTrue
	}
	setCondition(conditions, generation, now, ready)
	if accepted.Status == metav1.ConditionTrue || othersMayMend.Has(accepted.Reason) {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionStalled)
	} else {
		setCondition(conditions, generation, now, stalled)
	}
}
