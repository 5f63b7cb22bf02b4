// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxReported bounds the problems named in one message.
const maxReported = 10

// Problem is one thing that is wrong with an object.
type Problem struct {
	// Reason is the reason of the condition Accepted (v1alpha1.Reason…).
	Reason string
	// Path of the field, such as spec.pluginConfig[1].args.
	Path string
	// Detail says what is wrong, and what is allowed.
	Detail string
}

func (p Problem) String() string { return p.Path + ": " + p.Detail }

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
