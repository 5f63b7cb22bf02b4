// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// refusals counts the statuses of the nodes for a pod that fits none, so that the status of one
// node can be replaced.
type refusals struct {
	byName map[string]*fwk.Status
	// reasons counts the nodes for each reason, by those for each plugin and code.
	reasons map[string]int
	by      map[rejection]int
	// codes counts how often the code of a node's status has changed.
	codes int
}

// rejection is the part of a status that the queue uses.
type rejection struct {
	plugin string
	code   fwk.Code
}

// newRefusals counts the statuses. Each node has one status.
func newRefusals(statuses *schedframework.NodeToStatus) *refusals {
	r := &refusals{byName: make(map[string]*fwk.Status, statuses.Len()), reasons: map[string]int{},
		by: map[rejection]int{}}
	statuses.ForEachExplicitNode(func(name string, status *fwk.Status) { r.set(name, status) })
	return r
}

// set replaces the status of a node.
func (r *refusals) set(name string, status *fwk.Status) {
	before := r.byName[name]
	if before != nil {
		r.count(before, -1)
	}
	if before.Code() != status.Code() {
		r.codes++
	}
	r.byName[name] = status
	r.count(status, 1)
}

// remove removes the status of a node that does not exist any more.
func (r *refusals) remove(name string) {
	if before := r.byName[name]; before != nil {
		r.count(before, -1)
		delete(r.byName, name)
		r.codes++
	}
}

func (r *refusals) count(status *fwk.Status, by int) {
	for _, reason := range status.Reasons() {
		add(r.reasons, reason, by)
	}
	add(r.by, rejection{status.Plugin(), status.Code()}, by)
}

// add changes a count, and removes it when it reaches zero.
func add[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// addPlugins adds the plugins that refuse nodes.
func (r *refusals) addPlugins(to *schedframework.Diagnosis) {
	for by := range r.by {
		to.AddPluginStatus(fwk.NewStatus(by.code).WithPlugin(by.plugin))
	}
}

// message returns the message of a [schedframework.FitError] with a number of nodes.
func (r *refusals) message(nodes int) string {
	counted := make([]string, 0, len(r.reasons))
	for reason, n := range r.reasons {
		counted = append(counted, fmt.Sprintf("%d %s", n, reason))
	}
	text := fmt.Sprintf(schedframework.NoNodeAvailableMsg+":", nodes)
	if len(counted) == 0 {
		return text
	}
	slices.Sort(counted)
	return text + " " + strings.Join(counted, ", ") + "."
}
