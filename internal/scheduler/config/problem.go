// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxReported bounds the problems named in one message.
const maxReported = 10

// Problem is one thing that is wrong with an object, or unwise.
type Problem struct {
	// Reason is the reason of the condition Accepted (v1alpha1.Reason…), empty for a warning.
	Reason string
	// Path of the field, such as spec.pluginConfig[1].args.
	Path string
	// Detail says what is wrong, and what is allowed.
	Detail string
}

func (p Problem) String() string { return p.Path + ": " + p.Detail }

// ofOthers are the reasons that lie in objects other than the one that has the problem.
var ofOthers = sets.New(
	v1alpha1.ReasonPolicyNotFound, v1alpha1.ReasonPolicyNotAccepted,
	v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretNotReadable, v1alpha1.ReasonInvalidSecret,
	v1alpha1.ReasonQueueSortConflict, v1alpha1.ReasonSchedulerNameConflict,
)

// divide tells the problems of a spec by itself from those that lie in other objects.
func (p problems) divide() (own, others []Problem) {
	for _, problem := range p {
		if ofOthers.Has(problem.Reason) {
			others = append(others, problem)
		} else {
			own = append(own, problem)
		}
	}
	return own, others
}

// problems collects what is wrong with one object, in the order in which it was found.
type problems []Problem

func (p *problems) add(reason string, path *field.Path, format string, args ...any) {
	*p = append(*p, Problem{Reason: reason, Path: path.String(), Detail: fmt.Sprintf(format, args...)})
}

// message names the problems, as many as fit.
func (p problems) message() string {
	var texts []string
	for _, problem := range p[:min(len(p), maxReported)] {
		texts = append(texts, problem.String())
	}
	if more := len(p) - maxReported; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
