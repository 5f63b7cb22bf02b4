// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// A circuit breaker keeps an extender that fails from holding up all other pods: it opens after
// some failures in a row, and then makes one call from time to time, until one succeeds. No pod
// waits for these calls: see probes.
//
// It also opens when failures between successes take too much time. Otherwise an extender whose
// calls fail slowly and succeed in turn would never be kept from holding up other pods.
const (
	// maxFailures is the number of failures in a row after which a circuit opens.
	maxFailures = 5
	// maxWasted is the time that failures may take before the circuit opens.
	maxWasted = 10 * time.Second
	// wasteShare bounds the part of the time that failures take in the long run: one in wasteShare.
	// A success forgives this part of the time since the last call.
	wasteShare = 5
	// maxRemembered bounds the time of failures that successes have to make up for.
	maxRemembered = 2 * time.Minute
	// minPause is the pause before the first probe. It doubles with each probe that fails, and each
	// time that the circuit opens again before its failures are forgiven.
	minPause = time.Second
	maxPause = time.Minute
)

// The Events about circuits.
const (
	reasonUnavailable = "ExtenderUnavailable"
	reasonAvailable   = "ExtenderAvailable"
	actionCall        = "CallExtender"
)

// Policy is the policy of an extender.
type Policy struct {
	Name string
	UID  types.UID
}

// Breakers holds the circuit breakers of the process: one for each verb of each extender of a
// policy. Profiles that build on one policy share them, and so do the instances of a profile before
// and after a reload, unless the extender's configuration changes.
//
// Any goroutine may use it.
type Breakers struct {
	recorder events.EventRecorderLogger // nil records no Events

	mu  sync.Mutex // guards all
	all map[string]*sharedCircuits
}

// NewBreakers returns the breakers of a process, which record Events on policies.
func NewBreakers(recorder events.EventRecorderLogger) *Breakers {
	return &Breakers{recorder: recorder, all: map[string]*sharedCircuits{}}
}

// sharedCircuits are the circuits of an extender by verb. Breakers.mu guards users.
type sharedCircuits struct {
	byVerb map[string]*circuit
	users  int
}

// acquire returns the circuits of an extender, to be given back with release.
func (b *Breakers) acquire(policy Policy, name string,
	cfg *resolve.Extender) (key string, circuits map[string]*circuit, err error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return "", nil, err
	}
	key = string(policy.UID) + "/" + policy.Name + "/" + string(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := b.all[key]
	if shared == nil {
		shared = &sharedCircuits{byVerb: map[string]*circuit{}}
		for _, verb := range []string{cfg.FilterVerb, cfg.PrioritizeVerb, cfg.PreemptVerb, cfg.BindVerb} {
			if verb != "" {
				shared.byVerb[verb] = newCircuit(b.recorder, policy, name, verb)
			}
		}
		b.all[key] = shared
	}
	shared.users++
	return key, shared.byVerb, nil
}

func (b *Breakers) release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := b.all[key]
	if shared.users--; shared.users > 0 {
		return
	}
	delete(b.all, key)
	for _, c := range shared.byVerb {
		c.forget()
	}
	for _, left := range b.all { // one with another timeout, for instance, has the same metrics
		for _, c := range left.byVerb {
			c.publish()
		}
	}
}

// verdict is what a call shows about the extender.
type verdict int

const (
	works verdict = iota
	broken
	unknown // the call was given up, for a reason that is not the extender's
)

// verdictOf returns what a call with a context shows about the extender.
func verdictOf(ctx context.Context, err error) verdict {
	var about *problemError
	switch {
	case err == nil, errors.As(err, &about) && about.said:
		return works
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errBudget), errors.Is(err, lease.ErrOver):
		return unknown
	}
	return broken
}

// circuit is the circuit breaker of one verb of an extender. It is closed at first: calls pass. Any
// goroutine may use it.
type circuit struct {
	recorder           events.EventRecorderLogger
	policy             Policy
	extender, verbName string

	mu sync.Mutex // guards the fields below
	// failures are those in a row.
	failures int
	// wasted is the time that failures took, as far as it is not forgiven. It counts calls until
	// the time last, without probes that failed.
	wasted time.Duration
	last   time.Time
	// open means that calls are refused until the time retry. Then one call passes: probing means
	// that it has not ended. pause is the latest pause, and 0 once nothing is wasted.
	open    bool
	retry   time.Time
	pause   time.Duration
	probing bool
}

func newCircuit(recorder events.EventRecorderLogger, policy Policy, extender, verb string) *circuit {
	c := &circuit{recorder: recorder, policy: policy, extender: extender, verbName: verb}
	c.publish()
	return c
}

// publish sets the metric of the circuit.
func (c *circuit) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishLocked()
}

func (c *circuit) publishLocked() {
	open := 0.0
	if c.open {
		open = 1
	}
	metrics.ExtenderCircuitOpen.WithLabelValues(c.labels()...).Set(open)
}

func (c *circuit) labels() []string { return []string{c.policy.Name, c.extender, c.verbName} }

// forget removes the metrics of the circuit.
func (c *circuit) forget() {
	metrics.ExtenderCircuitOpen.DeleteLabelValues(c.labels()...)
	metrics.ExtenderFailures.DeleteLabelValues(c.labels()...)
}

// admit reports whether a call may be made, and whether it is the one that tries an open circuit.
// conclude must follow it then.
func (c *circuit) admit(now time.Time) (admitted, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.open:
		return true, false
	case c.probing || now.Before(c.retry):
		return false, false
	}
	c.probing = true
	return true, true
}

// conclude counts a call that has ended, and took some time. It may have begun before the circuit
// opened.
func (c *circuit) conclude(now time.Time, took time.Duration, probe bool, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe {
		c.probing = false
	}
	switch v {
	case works:
		c.worksLocked(now)
	case broken:
		c.failedLocked(now, took, probe)
	}
}

func (c *circuit) worksLocked(now time.Time) {
	c.failures = 0
	c.wasted = max(0, c.wasted-now.Sub(c.last)/wasteShare)
	c.last = now
	if c.wasted == 0 {
		c.pause = 0
	}
	if c.open {
		c.open = false
		c.reportLocked(corev1.EventTypeNormal, reasonAvailable, "answers again, and is called as before")
	}
}

func (c *circuit) failedLocked(now time.Time, took time.Duration, probe bool) {
	metrics.ExtenderFailures.WithLabelValues(c.labels()...).Inc()
	if c.open {
		if probe {
			c.pause = min(2*c.pause, maxPause)
			c.retry = now.Add(c.pause)
		}
		return
	}
	c.failures++
	c.wasted = min(c.wasted+took, maxRemembered)
	c.last = now
	if c.failures < maxFailures && c.wasted < maxWasted {
		return
	}
	c.open = true
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.retry = now.Add(c.pause)
	c.reportLocked(corev1.EventTypeWarning, reasonUnavailable, fmt.Sprintf(
		"is not called for now: its last calls failed (%d in a row; failed calls took %v recently). livesched tries "+
			"it again from time to time, and its log has the reasons. Until then, pods that need it fail, or are "+
			"scheduled without it if it is ignorable",
		c.failures, c.wasted.Round(time.Millisecond)))
}

// reportLocked tells the operator that the circuit has opened or closed.
func (c *circuit) reportLocked(eventType, reason, what string) {
	c.publishLocked()
	klog.Background().Info("An extender became available or unavailable", "policy", c.policy.Name, "extender",
		c.extender, "verb", c.verbName, "available", !c.open)
	if c.recorder == nil {
		return
	}
	policy := &corev1.ObjectReference{APIVersion: "livesched.io/v1alpha1", Kind: "SchedulingPolicy",
		Name: c.policy.Name, UID: c.policy.UID}
	c.recorder.Eventf(policy, nil, eventType, reason, actionCall, "Extender %q, %s: %s", c.extender, c.verbName, what)
}
