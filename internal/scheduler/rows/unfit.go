// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// unfit is why the pods of a class fit nowhere.
type unfit struct {
	diagnosis *schedframework.Diagnosis
	// pos is the end of the log when that was found out.
	pos uint64
}

// refusalBytes is about what a diagnosis takes for a node.
const refusalBytes = 64

func (u *unfit) size() int {
	if u.diagnosis == nil {
		return 0
	}
	return refusalBytes * u.diagnosis.NodeToStatus.Len()
}

// Unfit returns why the pod of the last decision, which ended with NoFit, fits nowhere, if it was kept of another pod of
// its class and nothing has changed since. The statuses of the nodes are shared, and not to be written to.
func (e *Engine) Unfit() (schedframework.Diagnosis, bool) {
	u := &e.last.unfit
	if u.diagnosis == nil || u.pos != e.snapshot.Log().End() {
		return schedframework.Diagnosis{}, false
	}
	d := *u.diagnosis
	// Whoever takes the pod back to the queue adds to these.
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	return d, true
}

// KeepUnfit keeps for Unfit what the scalar path has come to after the last decision ended with NoFit. Nothing but what
// the class and the snapshot give may have gone into it. Before the next decision nobody writes to it.
func (e *Engine) KeepUnfit(d schedframework.Diagnosis) {
	c := e.last
	// The answers to pods with extended resources depend on device classes, too.
	if c.local.extended || e.byID[c.id] != c {
		return
	}
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	c.unfit = unfit{diagnosis: &d, pos: e.snapshot.Log().End()}
	e.account(c)
}

func cloned(s sets.Set[string]) sets.Set[string] {
	if s == nil {
		return nil
	}
	return s.Clone()
}
