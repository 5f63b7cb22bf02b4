// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import "github.com/livesched/livesched/internal/truncate"

const (
	// MessageBytesPerDecision is about how much memory messages take at most, for each decision
	// that the log can hold. The oldest messages are forgotten first. Equal messages are kept once.
	MessageBytesPerDecision = 64
	// leastMessageBytes is what messages may take in a small log.
	leastMessageBytes = 64 << 10
	// maxMessage is the size of the longest message that is kept whole, as in an Event.
	maxMessage = 1 << 10
)

// Explain sets the message of a decision, unless it has been overwritten. The log keeps the string,
// so it should be no part of a larger one. It allocates no memory for a message that is already in
// the log.
func (l *Log) Explain(n Number, message string) {
	if l == nil || n == 0 {
		return
	}
	message = truncate.ToBytes(message, maxMessage)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(n) {
		l.explain(n, message)
	}
}

// ExplainFrom sets the message of the decisions from first on that found a pod unschedulable, and
// have no message yet. Only the scheduling loop may call it.
func (l *Log) ExplainFrom(first Number, message string) {
	if l == nil || first == 0 {
		return
	}
	message = truncate.ToBytes(message, maxMessage)
	for more := true; more; first += chunk {
		more = l.explainChunk(first, message)
	}
}

// explainChunk is ExplainFrom for up to chunk decisions. It reports whether there are others.
func (l *Log) explainChunk(first Number, message string) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := min(first+chunk, l.last+1)
	for n := first; n < end; n++ {
		if l.has(n) && l.at(n).result == Unschedulable && l.at(n).message == none {
			l.explain(n, message)
		}
	}
	return end <= l.last
}

// explain sets the message of a decision that the log has. If messages take too much memory, it
// forgets older ones.
func (l *Log) explain(n Number, message string) {
	if n <= l.forgotten {
		return
	}
	e := l.at(n)
	l.messages.release(e.message)
	e.message = l.messages.holdString(message)
	room := max(l.size*MessageBytesPerDecision, leastMessageBytes)
	for range chunk { // no more, to hold the mutex for a short time
		if l.messages.bytes <= room || l.forgotten == l.last {
			return
		}
		l.forgotten++
		if l.has(l.forgotten) {
			oldest := l.at(l.forgotten)
			l.messages.release(oldest.message)
			oldest.message = none
		}
	}
}
