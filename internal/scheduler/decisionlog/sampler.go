// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

const (
	// TopNodes is the number of nodes whose scores by plugin are kept of a sampled decision.
	TopNodes = 5
	// sampleEvery is the least time between two samples, apart from samples of new classes.
	sampleEvery = 100 * time.Millisecond
	// newClasses is the number of new classes that are sampled in a second.
	newClasses = 10
	// restPerCost is how many times as long as the computation of a sample no other one is taken:
	// it bounds what samples cost in clusters with very many nodes.
	restPerCost = 100
	// decisionsPerSample is how many times as many decisions are kept as samples.
	decisionsPerSample = 16
)

// sampler chooses the decisions of which the scores by plugin are kept: the first of a class, and
// otherwise ten in a second. It is for the goroutine of the scheduling loop.
type sampler struct {
	// last is when the last decision was sampled that was not the first of its class.
	last time.Time
	// newest is the newest class that has been decided: the numbers of classes increase. since is
	// when the second began in which as many new classes as firsts were sampled.
	newest cache.ClassID
	since  time.Time
	firsts int
	// computed is when the last sample was computed, and no other is taken for the time of rest.
	computed time.Time
	rest     time.Duration
}

// take reports whether to sample the decision about a pod of a class (0: unknown).
func (s *sampler) take(class cache.ClassID, now time.Time) bool {
	isNew := class > s.newest
	s.newest = max(s.newest, class)
	if elapsed(s.computed, now) < s.rest {
		return false
	}
	if elapsed(s.last, now) >= sampleEvery {
		s.last = now
		return true
	}
	if !isNew {
		return false
	}
	if elapsed(s.since, now) >= time.Second {
		s.since, s.firsts = now, 0
	}
	s.firsts++
	return s.firsts <= newClasses
}

// elapsed returns the time since then, or a long time if the clock was set back.
func elapsed(then, now time.Time) time.Duration {
	if now.Before(then) {
		return time.Hour
	}
	return now.Sub(then)
}

// sample holds the scores of a sampled decision.
type sample struct {
	of  Number
	top []fwk.NodePluginScores
}

// Wants reports whether SetTop should be called for a decision that has placed a pod. Only the
// scheduling loop may call it, once for each.
func (l *Log) Wants(d *Decision) bool {
	return l != nil && l.sampler.take(d.Class, d.Time)
}

// SetTop adds to a decision the nodes with the highest totals, with their scores by plugin, none if
// they could not be computed. The log keeps them, so they must not change. They are forgotten
// before the decision if there are many samples. Only the scheduling loop may call it, at a time at
// which their computation has just ended, after a duration.
func (l *Log) SetTop(n Number, top []fwk.NodePluginScores, now time.Time, took time.Duration) {
	if l == nil {
		return
	}
	l.sampler.computed, l.sampler.rest = now, restPerCost*took
	if len(top) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has(n) {
		return
	}
	if len(l.samples) == 0 {
		l.samples = make([]sample, (l.size+decisionsPerSample-1)/decisionsPerSample)
	}
	i := l.sampled % uint64(len(l.samples))
	l.sampled++
	l.samples[i] = sample{of: n, top: top}
	l.at(n).sample = uint32(i) + 1
}

// top returns the scores of a decision if it was sampled.
func (l *Log) top(n Number) []fwk.NodePluginScores {
	if i := l.at(n).sample; i != 0 && l.samples[i-1].of == n {
		return l.samples[i-1].top
	}
	return nil
}
