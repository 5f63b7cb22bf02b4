// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// unfit is why the pods of a class fit nowhere.
type unfit struct {
	diagnosis *schedframework.Diagnosis
	// text says so in words. Finding them takes a look at all nodes: they are found for the second pod.
	text string
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

// Unfit is the error about a pod of which it was known why it fits nowhere. It wraps the FitError.
type Unfit struct {
	schedframework.FitError
	// text is the FitError's, without what PostFilter adds.
	text string
}

// Error is what the FitError would say, which counts the reasons of all nodes each time.
func (u *Unfit) Error() string {
	if u.Diagnosis.PostFilterMsg == "" {
		return u.text
	}
	return u.text + " " + u.Diagnosis.PostFilterMsg
}

// Unwrap returns the FitError.
func (u *Unfit) Unwrap() error { return &u.FitError }

// Unfit returns why the pod of the last decision, which ended with NoFit, fits nowhere, if that was kept of another pod of
// its class and nothing has changed since; otherwise nil, as for pods that name nodes or that the rest was run for. The statuses of the nodes are shared,
// and not to be written to.
func (e *Engine) Unfit(pod *corev1.Pod) *Unfit {
	known := &e.last.unfit
	if known.diagnosis == nil || known.pos != e.snapshot.Log().End() || len(e.nominated) > 0 || e.lastNamed || e.rest.state != nil {
		return nil
	}
	u := &Unfit{FitError: schedframework.FitError{Pod: pod, NumAllNodes: e.NumNodes(), Diagnosis: *known.diagnosis}}
	if known.text == "" {
		known.text = u.FitError.Error()
	}
	u.text = known.text
	// Whoever takes the pod back to the queue adds to these.
	d := &u.Diagnosis
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	return u
}

// KeepUnfit keeps for Unfit what the scalar path has come to after the last decision ended with NoFit. Nothing but what
// the class and the snapshot give may have gone into it. Before the next decision nobody writes to it.
func (e *Engine) KeepUnfit(d schedframework.Diagnosis) {
	c := e.last
	// The answers to pods with extended resources depend on device classes, too.
	if c.local.extended || e.byID[c.id] != c || len(e.nominated) > 0 || e.lastNamed || e.rest.state != nil {
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
