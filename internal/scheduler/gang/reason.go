// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"errors"
	"fmt"
	"maps"

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

// addPluginsOf adds the plugins that refused a member.
func (r *Reason) addPluginsOf(fit *schedframework.FitError) {
	maps.Copy(r.fit.Diagnosis.UnschedulablePlugins, fit.Diagnosis.UnschedulablePlugins)
	maps.Copy(r.fit.Diagnosis.PendingPlugins, fit.Diagnosis.PendingPlugins)
}

// addRoomPlugins adds the plugins whose events may let a group fit in a domain that was not tried.
func (r *Reason) addRoomPlugins() {
	r.fit.Diagnosis.UnschedulablePlugins.Insert(names.NodeResourcesFit, names.NodeAffinity, names.NodeUnschedulable,
		names.TaintToleration)
}

// noteReason sets Why to the reason of a domain, unless more members fit in one before. Events of
// all plugins that refused a member in any of them may help the group, and those that may let it
// fit in a domain that was not tried.
func (a *Attempt) noteReason(why *Reason, domain podgroup.Domain) {
	other := a.Why
	if other != nil && why.placed <= other.placed && why.Err == nil {
		why, other = other, why
	}
	if other != nil {
		why.addPluginsOf(&other.fit)
	}
	if len(domain) > 0 {
		why.addRoomPlugins()
	}
	a.Why = why
}

// reason returns why fewer members, or groups of a tree, fit on the nodes of a domain than are
// needed.
func (a *Attempt) reason(domain podgroup.Domain) *Reason {
	if a.Tree != nil {
		return a.reasonOf(a.root(), domain)
	}
	return a.reasonOfPods(a.Group.Key, a.everyone(), a.Needed, domain)
}

// reasonOf is reason for a branch of a tree.
func (a *Attempt) reasonOf(b *branch, domain podgroup.Domain) *Reason {
	var r *Reason
	if b.IsComposite() {
		r = NewReason(fmt.Sprintf("%s: %d of %d groups that must be placed together fit%s", b.WithKind(),
			a.fitsOf(b), b.MinGroups, in(domain)))
		a.addStatuses(r, b.members)
	} else {
		r = a.reasonOfPods(b.Key, b.members, b.needed, domain)
	}
	if b.RequiresTopology() {
		r.AddPlugin(podgroup.TopologyGate)
	}
	return r
}

// in returns words for a domain.
func in(domain podgroup.Domain) string {
	if len(domain) == 0 {
		return ""
	}
	return fmt.Sprintf(" in %s", domain)
}

// reasonOfPods is reason for the members of one group of pods.
func (a *Attempt) reasonOfPods(key podgroup.Key, members []int, needed int, domain podgroup.Domain) *Reason {
	r := NewReason(fmt.Sprintf("%s: %d of %d pods that must be placed together fit%s", key.WithKind(),
		a.placedOf(members), needed, in(domain)))
	a.addStatuses(r, members)
	return r
}

// placedOf returns how many members have a node.
func (a *Attempt) placedOf(members []int) (placed int) {
	for _, i := range members {
		placed += count(a.Outcomes[i].Node != "")
	}
	return placed
}

// addStatuses adds why members have no node to the reason of a group.
func (a *Attempt) addStatuses(r *Reason, members []int) {
	r.placed = a.placedOf(members)
	first := true
	for _, i := range members {
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
			r.addPluginsOf(fit)
		case !status.IsRejected():
			r.Err = status.AsError()
		}
	}
}

// tooLarge is the reason of a group for which the resources do not suffice.
func (a *Attempt) tooLarge(nodes, room int, where string) *Reason {
	r := NewReason(fmt.Sprintf(
		"%s: %d pods must be placed together, but there are resources for %d of them at most%s",
		a.Group.WithKind(), a.Needed, room, where))
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
