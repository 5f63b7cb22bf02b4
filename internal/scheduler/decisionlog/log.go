// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decisionlog records the latest decisions of the scheduling loop, to answer later why a
// pod is on its node.
//
//	loop      Append      a decision: bound to be, or unschedulable      the ring is full: the
//	          SetTop      of some, the best nodes by plugin
//	          Finish      whether the pod was bound                      oldest one is overwritten
//	          Explain     why it was not bound
//	readers   OfPod       the latest decision for a pod
//	          Last        the last decisions, in order
//	          Select      those that a filter selects, the latest first
//
// The log is in memory and belongs to one process: a new leader starts with an empty one.
package decisionlog

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// DefaultSize is the default number of decisions that are kept.
//
// A decision takes 144 bytes, without the name of its pod and its message. The name of a pod is the
// string of the object that was decided: as long as an informer has this object, it takes no memory
// of its own, and later as much as it is long. Messages take MessageBytesPerDecision at most, on
// average.
const DefaultSize = 64 << 10

// Number identifies a decision in a Log. The decisions of a Log are numbered from 1. 0: the
// decision was not recorded.
type Number uint64

// Log is a ring of the latest decisions. A nil Log records nothing and has no decisions.
//
// Append, Wants, SetTop and ExplainFrom are called by the scheduling loop, Finish and Explain also
// by the goroutines that bind, and the rest by any goroutine. A mutex guards everything but
// sampler. Each method holds it for microseconds at most, whatever the size of the log, so that
// readers do not hold up the loop.
type Log struct {
	mu   sync.Mutex
	size int
	// last is the number of the latest decision.
	last Number
	// ring has the decision with number n at n % size. It is nil until the first decision, so that
	// followers need no memory for it.
	ring []entry
	// pods has the names of the pods, at the same places. They are the strings of the pods'
	// objects: these are strings of their own, so that they keep nothing else of the objects in
	// memory.
	pods []string
	// heads has the latest decision of the pods whose hash has the same last bits; see
	// entry.before.
	heads []Number
	names names
	// text is the space in which Append writes a domain as text.
	text []byte
	// messages are the messages of decisions with higher numbers than forgotten.
	messages  names
	forgotten Number
	// samples is a ring of the latest samples. sampled counts them all.
	samples []sample
	sampled uint64

	// sampler belongs to the scheduling loop.
	sampler sampler
}

// New returns a Log of a number of decisions, or nil if it is 0.
func New(size int) *Log {
	if size <= 0 {
		return nil
	}
	return &Log{size: size}
}

// Append records a decision and returns its number. It overwrites the oldest one if the log is
// full. It allocates no memory, except for names that no other decision in the log has.
func (l *Log) Append(d *Decision) Number {
	if l == nil {
		return 0
	}
	pod := keyOf(d.Pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		l.ring, l.pods, l.heads = make([]entry, l.size), make([]string, l.size), make([]Number, l.size)
	}
	l.last++
	e, head := l.at(l.last), l.head(pod)
	l.release(e)
	*e = entry{
		pod: pod, before: *head,
		time: d.Time.UnixNano(), total: d.Total, class: d.Class, changes: d.Changes, placed: int32(d.Placed),
		namespace: l.names.hold(d.Namespace), group: l.names.hold(d.Group),
		node: l.names.hold(d.Node), profile: l.names.hold(d.Profile), revision: l.names.hold(d.Revision),
		nodes: int32(d.Nodes), evaluated: int32(d.Evaluated), feasible: int32(d.Feasible), tied: int32(d.Tied),
		attempt: int32(d.Attempt), result: d.Result, nominated: d.Nominated, partial: d.Partial,
	}
	if len(d.Domain) > 0 {
		l.text = d.Domain.AppendTo(l.text[:0])
		e.domain = l.names.holdBytes(l.text)
	}
	l.pods[l.last%Number(l.size)] = d.Name
	*head = l.last
	return l.last
}

// Finish sets the result of a decision, unless it has been overwritten.
func (l *Log) Finish(n Number, result Result) {
	if l == nil || n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(n) {
		l.at(n).result = result
	}
}

// OfPod returns the latest decision for a pod that is in the log.
func (l *Log) OfPod(uid types.UID) (Decision, bool) {
	if l == nil {
		return Decision{}, false
	}
	pod := keyOf(uid)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		return Decision{}, false
	}
	for n := *l.head(pod); l.has(n); n = l.at(n).before {
		if l.at(n).pod == pod {
			return l.decision(n), true
		}
	}
	return Decision{}, false
}

// Last returns the last n decisions, or all that the log has if these are fewer, in the order in
// which they were made: see Select.
func (l *Log) Last(n int) (decisions []Decision) {
	if l == nil || n <= 0 {
		return nil
	}
	// There is no error: the context does not end.
	_ = l.Select(context.Background(), &Filter{}, func(d *Decision) bool {
		decisions = append(decisions, *d)
		return len(decisions) < n
	})
	slices.Reverse(decisions)
	return decisions
}

// Newest returns the number of the latest decision.
func (l *Log) Newest() Number {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// has reports whether the log has the decision with a number.
func (l *Log) has(n Number) bool { return n != 0 && n <= l.last && l.last-n < Number(l.size) }

func (l *Log) at(n Number) *entry { return &l.ring[n%Number(l.size)] }

func (l *Log) podName(n Number) string { return l.pods[n%Number(l.size)] }

func (l *Log) head(pod key) *Number { return &l.heads[pod.hash()%uint64(len(l.heads))] }

// decision returns the decision with a number. The log must have it.
func (l *Log) decision(n Number) Decision {
	e := l.at(n)
	return Decision{
		Number: n, Pod: e.pod.uid(), Namespace: l.names.get(e.namespace), Name: l.podName(n),
		Group: l.names.get(e.group), Time: time.Unix(0, e.time), Total: e.total, Class: e.class, Changes: e.changes,
		Placed: int(e.placed),
		Node:   l.names.get(e.node), Profile: l.names.get(e.profile), Revision: l.names.get(e.revision),
		Nodes: int(e.nodes), Evaluated: int(e.evaluated), Feasible: int(e.feasible), Tied: int(e.tied),
		Attempt: int(e.attempt), Result: e.result, Nominated: e.nominated, Partial: e.partial,
		Domain: l.domain(e), Top: l.top(n),
		Message: l.messages.get(e.message),
	}
}

// domain returns the domain of an entry.
func (l *Log) domain(e *entry) podgroup.Domain {
	if e.domain == none {
		return nil
	}
	return podgroup.ParseDomain(l.names.get(e.domain))
}

// release releases the names of an entry that is overwritten.
func (l *Log) release(e *entry) {
	for _, held := range [...]handle{e.namespace, e.group, e.node, e.profile, e.revision, e.domain} {
		l.names.release(held)
	}
	l.messages.release(e.message)
}
