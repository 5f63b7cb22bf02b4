// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groupReason is why a group got no nodes.
type groupReason struct {
	message string
	// placed is how many members got a node.
	placed int
	// err is set if a member met an error.
	err error
	// fit has all plugins that refused a member.
	fit schedframework.FitError
}

func newGroupReason(message string) *groupReason {
	r := &groupReason{message: message}
	r.fit.Diagnosis = schedframework.Diagnosis{
		NodeToStatus:         schedframework.NewDefaultNodeToStatus(),
		UnschedulablePlugins: sets.New[string](),
		PendingPlugins:       sets.New[string](),
	}
	return r
}

// reason returns why fewer members fit on the nodes of a domain than are needed.
func (g *groupCycle) reason(placed int, domain podgroup.Domain) *groupReason {
	in := ""
	if len(domain) > 0 {
		in = fmt.Sprintf(" in %s", domain)
	}
	r := newGroupReason(fmt.Sprintf("pod group %s: %d of %d pods that must be placed together fit%s", g.group.Key, placed, g.needed, in))
	r.placed = placed
	first := true
	for _, m := range g.members {
		if m.status == nil {
			continue
		}
		if first {
			r.message += fmt.Sprintf("; %s: %s", m.pod.Pod.Name, m.status.Message())
			first = false
		}
		var fit *schedframework.FitError
		switch {
		case errors.As(m.status.AsError(), &fit):
			r.fit.NumAllNodes = fit.NumAllNodes
			r.fit.Diagnosis.UnschedulablePlugins.Insert(fit.Diagnosis.UnschedulablePlugins.UnsortedList()...)
			r.fit.Diagnosis.PendingPlugins.Insert(fit.Diagnosis.PendingPlugins.UnsortedList()...)
		case !m.status.IsRejected():
			r.err = m.status.AsError()
		}
	}
	return r
}

// of returns the reason as the status of a member.
func (r *groupReason) of(pod *corev1.Pod) *fwk.Status {
	if r.err != nil {
		return fwk.AsStatus(fmt.Errorf("%s: %w", r.message, r.err))
	}
	fit := r.fit
	fit.Pod = pod
	return fwk.NewStatus(fwk.Unschedulable).WithError(&groupError{message: r.message, fit: &fit})
}

// groupError is a FitError with a message about the group.
type groupError struct {
	message string
	fit     *schedframework.FitError
}

func (e *groupError) Error() string { return e.message }
func (e *groupError) Unwrap() error { return e.fit }
