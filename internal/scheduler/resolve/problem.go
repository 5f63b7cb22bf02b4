// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxReported bounds the problems named in one message.
const maxReported = 10

// Problem is an error in an object, or a warning about it.
type Problem struct {
	// Reason is the reason of the condition Accepted (v1alpha1.Reason…), empty for a warning.
	Reason string
	// Path is the field, such as spec.pluginConfig[1].args.
	Path string
	// Detail describes what is wrong, and what is allowed.
	Detail string
}

func (p Problem) String() string { return p.Path + ": " + p.Detail }

// inOtherObjects holds the reasons whose cause is in other objects than the one with the problem.
var inOtherObjects = sets.New(
	v1alpha1.ReasonPolicyNotFound, v1alpha1.ReasonPolicyNotAccepted, v1alpha1.ReasonProfileNotFound,
	v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretNotReadable, v1alpha1.ReasonInvalidSecret,
	v1alpha1.ReasonSecretNotPermitted,
	v1alpha1.ReasonQueueSortConflict, v1alpha1.ReasonSchedulerNameConflict,
)

// divide separates the problems of a spec itself from those with a cause in other objects.
func (p problems) divide() (own, others []Problem) {
	for _, problem := range p {
		if inOtherObjects.Has(problem.Reason) {
			others = append(others, problem)
		} else {
			own = append(own, problem)
		}
	}
	return own, others
}

// problems are the problems of one object, in the order in which they were found.
type problems []Problem

func (p *problems) add(reason string, path *field.Path, format string, args ...any) {
	*p = append(*p, Problem{Reason: reason, Path: path.String(), Detail: fmt.Sprintf(format, args...)})
}

// message lists the problems, up to maxReported.
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
