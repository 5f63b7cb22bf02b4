// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// maxOwnMentions bounds the labels that count only because a pending pod's own selectors read them:
// a single odd pod must not make the classes of all others depend on its labels.
const maxOwnMentions = topology.DefaultMaxMentions / 4

// maxOwnTopologies bounds the topology keys of a pod: the snapshot maintains a limited number.
const maxOwnTopologies = 16

// classify returns the class of a pod, or of the part of it that determines the class, with
// trackers that are up to date with the snapshot. If the reason is not None, the pod takes the
// scalar path, but may have a class.
func (e *Engine) classify(ctx context.Context, in *instance, like *corev1.Pod, r *refresher) (c *class, reason Reason) {
	// The labels that count by the selectors of pods on nodes and of services. Those that the pod's
	// own selectors read are known once it has a class.
	e.mentions.ReadSnapshot(e.snapshot)
	if trackers := in.plan.topology; trackers != nil {
		trackers.ReadServices(e.mentions, like)
	}
	e.forgetIfMentionsChanged(ctx)
	e.lent.claims.prepare(in.plan, e.snapshot, like)
	e.keys.rules = &e.lent.claims.rules
	for {
		if c, reason = e.findClass(ctx, in, like, r); reason == None {
			reason = e.prepareTrackers(ctx, c, like, r)
		}
		if !e.forgetIfMentionsChanged(ctx) {
			return c, reason
		}
		// A selector that was just found reads more labels. The class was dropped with all others.
	}
}

// forgetIfMentionsChanged drops all classes if other labels count now than when the classes were
// made: the pods of one class may differ in labels that count now, and selectors of classes must be
// read again if Mentions has forgotten some. It reports whether it did. The classes in older
// entries of the change log then have no meaning any more.
func (e *Engine) forgetIfMentionsChanged(ctx context.Context) bool {
	if !e.mentions.Changed() {
		return false
	}
	if all := e.mentions.All(); all != e.allLabels {
		e.allLabels = all
		message := "Only labels that selectors read distinguish classes of pods again"
		if all {
			message = "All labels distinguish classes of pods now, because selectors read too many"
		}
		klog.FromContext(ctx).Info(message, "limit", topology.DefaultMaxMentions)
	}
	e.classes.instruments.labelKeys.Set(float64(e.mentions.Len()))
	e.classes.dropAll()
	return true
}

// findClass returns the class of a pod. If the class is new, its rows may be new, too.
func (e *Engine) findClass(ctx context.Context, in *instance, pod *corev1.Pod, r *refresher) (*class, Reason) {
	if !e.keys.write(in.plan, pod, e.mentions, e.snapshot) {
		return nil, UnknownPlugin
	}
	if c := e.classes.find(in.setup, e.keys.class()); c != nil {
		return c, None
	}
	like, err := copyOf(pod)
	if err != nil {
		return nil, Failed
	}
	if topology.CountKeys(like) > maxOwnTopologies {
		return nil, Topology
	}
	if e.mentions.CountNew(like) > maxOwnMentions {
		return nil, Selectors
	}
	e.mentions.ReadTerms(like)
	rows, ok := in.setup.locals[string(e.keys.localPart())]
	if !ok {
		if rows, err = newLocalRows(ctx, in.setup, &e.keys, pod, r); err != nil {
			klog.FromContext(ctx).V(5).Info("No class is made for the pod", "pod", klog.KObj(pod), "err", err)
			return nil, Failed
		}
	}
	c := e.classes.add(string(e.keys.class()), like, rows)
	if e.classes.lookups.thrashing(time.Now()) {
		klog.FromContext(ctx).Info("Decisions are slow because the fast path evicts classes of pods that are needed "+
			"again soon. Raise --fast-path-memory-limit",
			"limit", resource.NewQuantity(int64(e.classes.max), resource.BinarySI), "classes",
			e.classes.residents.len())
	}
	return c, None
}

// prepareTrackers brings the trackers of a pod's class up to date with the snapshot.
func (e *Engine) prepareTrackers(ctx context.Context, c *class, pod *corev1.Pod, r *refresher) Reason {
	switch trackers := r.plan.topology; {
	case c.local.named:
		return NodeNames
	case c.local.extended && r.plan.devices == "":
		return Devices
	case trackers == nil && !c.standsAlone(ctx, r, pod):
		return Topology
	case trackers != nil && c.syncTrackers(r, e.mentions) != nil:
		e.classes.drop(c)
		return Failed
	}
	return None
}
