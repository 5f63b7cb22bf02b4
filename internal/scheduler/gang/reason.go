// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Reason is why a group got no nodes.
type Reason struct {
	Message string
	// Err is set if a member met an error.
	Err error
	// placed is how many members got a node.
	placed int
	// fit has all plugins that refused a member.
	fit schedframework.FitError
}

// NewReason returns a reason in which no plugin has a part.
func NewReason(message string) *Reason {
	r := &Reason{Message: message}
	r.fit.Diagnosis = schedframework.Diagnosis{
		NodeToStatus:         schedframework.NewDefaultNodeToStatus(),
		UnschedulablePlugins: sets.New[string](),
		PendingPlugins:       sets.New[string](),
	}
	return r
}

// AddPlugin adds a plugin whose events may help the group.
func (r *Reason) AddPlugin(name string) { r.fit.Diagnosis.UnschedulablePlugins.Insert(name) }

// noteReason sets Why to the reason of a domain, unless more members fit in one before. Events of
// all plugins that refused a member in any of them may help the group, and those that may let it
// fit in a domain that was not tried.
func (a *Attempt) noteReason(placed int, domain podgroup.Domain) {
	why, other := a.reason(placed, domain), a.Why
	if other != nil && why.placed <= other.placed && why.Err == nil {
		why, other = other, why
	}
	to := &why.fit.Diagnosis
	if other != nil {
		to.UnschedulablePlugins = to.UnschedulablePlugins.Union(other.fit.Diagnosis.UnschedulablePlugins)
		to.PendingPlugins = to.PendingPlugins.Union(other.fit.Diagnosis.PendingPlugins)
	}
	if len(domain) > 0 {
		to.UnschedulablePlugins.Insert(names.NodeResourcesFit, names.NodeAffinity, names.NodeUnschedulable,
			names.TaintToleration)
	}
	a.Why = why
}

// reason returns why fewer members fit on the nodes of a domain than are needed.
func (a *Attempt) reason(placed int, domain podgroup.Domain) *Reason {
	in := ""
	if len(domain) > 0 {
		in = fmt.Sprintf(" in %s", domain)
	}
	r := NewReason(fmt.Sprintf("pod group %s: %d of %d pods that must be placed together fit%s", a.Group.Key, placed,
		a.Needed, in))
	r.placed = placed
	first := true
	for i := range a.Outcomes {
		status := a.Outcomes[i].Status
		if status == nil {
			continue
		}
		if first {
			r.Message += fmt.Sprintf("; %s: %s", a.Members[i].GetPod().Name, status.Message())
			first = false
		}
		var fit *schedframework.FitError
		switch {
		case errors.As(status.AsError(), &fit):
			r.fit.NumAllNodes = fit.NumAllNodes
			r.fit.Diagnosis.UnschedulablePlugins.Insert(fit.Diagnosis.UnschedulablePlugins.UnsortedList()...)
			r.fit.Diagnosis.PendingPlugins.Insert(fit.Diagnosis.PendingPlugins.UnsortedList()...)
		case !status.IsRejected():
			r.Err = status.AsError()
		}
	}
	return r
}

// tooLarge is the reason of a group for which the resources do not suffice.
func (a *Attempt) tooLarge(nodes, room int, where string) *Reason {
	r := NewReason(fmt.Sprintf(
		"pod group %s: %d pods must be placed together, but there are resources for %d of them at most%s",
		a.Group.Key, a.Needed, room, where))
	r.fit.NumAllNodes = nodes
	r.fit.Diagnosis.UnschedulablePlugins.Insert(names.NodeResourcesFit)
	return r
}

// Of returns the reason as the status of a member.
func (r *Reason) Of(pod *corev1.Pod) *fwk.Status {
	if r.Err != nil {
		return fwk.AsStatus(fmt.Errorf("%s: %w", r.Message, r.Err))
	}
	fit := r.fit
	fit.Pod = pod
	return fwk.NewStatus(fwk.Unschedulable).WithError(&refusal{message: r.Message, fit: &fit})
}

// refusal is a FitError with a message about the group.
type refusal struct {
	message string
	fit     *schedframework.FitError
}

func (r *refusal) Error() string { return r.message }
func (r *refusal) Unwrap() error { return r.fit }
