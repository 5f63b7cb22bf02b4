// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// term is what the API server knows of the lease: which process has it, and when that one sent the
// request which took or renewed it last.
type term struct {
	// known is false before the first write, and after etcd was restored.
	known   bool
	holder  *process
	renewed time.Time
}

// noteTerm notes a write that the API server has executed.
func (w *World) noteTerm(x *exchange) {
	switch x.message() {
	case messageLease:
		if bytes.Contains(x.body, []byte(x.from.name)) {
			if w.term.holder != x.from {
				w.log.add("%s has the lease", x.from.name)
				if w.takesHastily(x.from) {
					w.hasty = time.Now()
				}
			}
			w.term = term{true, x.from, x.sent}
		} else { // it was released
			w.term = term{known: true}
		}
	case messageBinding:
		// Nothing protects a node from a binding that was sent in time, and comes when another
		// process leads.
		if w.term.known && w.term.holder != x.from {
			w.noteLateBinding(x)
		}
	case messageStatus:
		// Nor does anything protect the condition that the leader has written. The leader writes it
		// again after its next attempt.
		w.overwritten[x.req.URL.Path] = w.term.known && w.term.holder != x.from
	}
}

// noteStatus notes a status that was written, and whether by the leader, which waits for the
// answer. Otherwise others may take the write as failed, or do not expect it.
func (w *World) noteStatus(x *exchange, byLeader bool) {
	switch {
	case strings.Contains(x.req.URL.Path, "/resourceclaims/") && !byLeader:
		w.uncertain[x.req.URL.Path] = time.Now()
	case writesPodGroup(x):
		name, unwritten := path.Base(path.Dir(x.req.URL.Path)), w.cluster.gangs.unwritten
		if !byLeader {
			unwritten[name] = time.Now()
		} else if x.sent.After(unwritten[name]) {
			delete(unwritten, name)
		}
	}
}

// checkTerm checks that a process writes only while it leads, but for Events, and does not begin to
// lead while it stops: until that process is gone, nobody would lead.
func (w *World) checkTerm(x *exchange) {
	switch {
	case w.takesLease(x) && !x.from.stopping.IsZero() && x.from.stopping.Before(time.Now()):
		w.fail("%v takes the lease, %v after it has begun to stop", x, time.Since(x.from.stopping))
	case !x.isWrite() || x.message() == messageLease || x.message() == messageEvent:
	case !w.term.known || time.Since(w.hasty) < leaseDuration:
	case w.term.holder == nil:
		w.fail("%v, while no process has the lease", x)
	case w.term.holder != x.from:
		w.fail("%v, while %s has the lease", x, w.term.holder.name)
	case time.Since(w.term.renewed) > renewDeadline:
		w.fail("%v, %v after it has renewed the lease", x, time.Since(w.term.renewed))
	}
}

// noteLateBinding notes that the pod of a binding, and what its node has left, are unlike what the
// leader knows.
func (w *World) noteLateBinding(x *exchange) {
	w.counts["bindings that came late"]++
	pod := path.Dir(x.req.URL.Path)
	w.cluster.boundLate[strings.TrimPrefix(pod, "/api/v1/namespaces/")] = time.Now()
	if node, _, _ := unstructured.NestedString(fieldsOf(x.body), "target", "name"); node != "" {
		w.cluster.filled[node] = time.Now()
	}
}

// wasBoundLate reports whether a pod was just bound for a process that does not lead any more.
func (w *World) wasBoundLate(pod *corev1.Pod) bool {
	at, ok := w.cluster.boundLate[pod.Namespace+"/pods/"+pod.Name]
	return ok && time.Since(at) < lateness
}

// takesLease reports whether a process that does not lead would begin to.
func (w *World) takesLease(x *exchange) bool {
	return x.message() == messageLease && w.term.known && w.term.holder != x.from &&
		bytes.Contains(x.body, []byte(x.from.name))
}

// renewDeadline is how long a process of the world leads after it has sent the last request that
// renewed the lease.
const renewDeadline = 10 * time.Second

// excuse lets nodes be over their resources for a while.
func (w *World) excuse(why string) {
	w.log.add("excused: %s", why)
	w.counts["excused: "+why]++
	w.excused = time.Now().Add(time.Minute)
}
