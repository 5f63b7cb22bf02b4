// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// maxOwnMentions bounds the labels that count only because a pending pod's own selectors read them:
// a single odd pod must not make the classes of all others depend on its labels.
const maxOwnMentions = topology.DefaultMaxMentions / 4

// maxOwnTopologies bounds the topology keys of a pod: the snapshot maintains a limited number.
const maxOwnTopologies = 16

// classify returns the class of a pod, or of the part of it that determines the class, with
// trackers that are up to date with the snapshot. If the reason is not None, the pod takes the
// scalar path, but may have a class.
func (e *Engine) classify(ctx context.Context, in *instance, like *corev1.Pod, r *refresher,
	nominated *framework.NominatedNodes) (c *class, reason Reason) {
	// The labels that count by the selectors of pods on nodes and of services. Those that the pod's
	// own selectors read are known once it has a class.
	e.mentions.ReadSnapshot(e.snapshot, like.Namespace)
	if trackers := in.plan.topology; trackers != nil {
		trackers.ReadServices(e.mentions, like)
	}
	e.forgetIfMentionsChanged(ctx)
	e.lent.claims.prepare(in.plan, e.snapshot, like)
	e.keys.rules = &e.lent.claims.rules
	for {
		e.readNominated(in.plan, nominated)
		if c, reason = e.findClass(ctx, in, like, r); c != nil && reason == None {
			reason = e.prepareTrackers(ctx, c, like, r)
		}
		if !e.forgetIfMentionsChanged(ctx) {
			return c, reason
		}
		// A selector that was just found reads more labels. The class has another key now.
	}
}

// forgetIfMentionsChanged drops the classes that are out of date because other labels count now
// than when they were made: pods of one class may differ in labels that count now, and selectors of
// classes must be read again if Mentions has forgotten some. It reports whether anything has
// changed. The dropped classes in older entries of the change log then have no meaning any more.
func (e *Engine) forgetIfMentionsChanged(ctx context.Context) bool {
	changes, changed := e.mentions.Changes()
	if !changed {
		return false
	}
	e.logAllLabels(ctx, changes.Namespaces())
	e.classes.instruments.labelKeys.Set(float64(e.mentions.Most()))
	e.classes.dropIf(func(c *class) bool { return changes.Concern(c.like) })
	clear(e.nominatedRead) // some of their keys may be forgotten
	return true
}

// readNominated adds the labels that the anti-affinity terms of nominated pods read. A class has no
// answer beside such a pod unless all its pods are alike for these terms. It leaves out no pod of
// the nodes: the pod of this decision is a nominated one to the next.
func (e *Engine) readNominated(plan *Plan, nominated *framework.NominatedNodes) {
	pos := e.nominatedRead[nominated]
	if !plan.hasAffinity || pos == nominated.End() {
		return
	}
	names, ok := nominated.Since(pos)
	if !ok {
		names = nominated.Names()
	}
	for _, name := range names {
		for _, other := range plan.framework.Nominator().NominatedPodsForNode(name) {
			if info, ok := other.(*schedframework.PodInfo); ok && len(info.RequiredAntiAffinityTerms) > 0 {
				e.mentions.ReadTerms(info)
			}
		}
	}
	if len(e.nominatedRead) > maxNominatedRead {
		clear(e.nominatedRead)
	}
	e.nominatedRead[nominated] = nominated.End()
}

// maxNominatedRead bounds the priorities whose nominated pods have been read.
const maxNominatedRead = 64

// logAllLabels logs for each of the namespaces, "" for everywhere, whether all labels count from
// now on, or do not count any more.
func (e *Engine) logAllLabels(ctx context.Context, namespaces []string) {
	for _, namespace := range namespaces {
		all := e.mentions.In(namespace).All()
		if all == e.allLabels.Has(namespace) {
			continue
		}
		message := "Only labels that selectors read distinguish classes of pods of a namespace again"
		if all {
			message = "All labels distinguish classes of pods of a namespace now, because selectors read too many"
			e.allLabels.Insert(namespace)
		} else {
			e.allLabels.Delete(namespace)
		}
		klog.FromContext(ctx).Info(message, "namespace", cmp.Or(namespace, "all"), "limit", topology.DefaultMaxMentions)
	}
}

// findClass returns the class of a pod. If the class is new, its rows may be new, too. It returns
// no class and None if the pod's own selectors change which labels count.
func (e *Engine) findClass(ctx context.Context, in *instance, pod *corev1.Pod, r *refresher) (*class, Reason) {
	if !e.keys.write(in.plan, pod, e.mentions, e.snapshot) {
		return nil, UnknownPlugin
	}
	if c := e.classes.find(in.setup, e.keys.class()); c != nil {
		return c, None
	}
	like, err := likeOf(pod)
	if err != nil {
		return nil, Failed
	}
	constraints, reason := e.readSelectors(r.plan, like)
	if reason != None || e.mentions.Changing() {
		return nil, reason
	}
	rows, ok := in.setup.locals[string(e.keys.localPart())]
	if !ok {
		if rows, err = newLocalRows(ctx, in.setup, &e.keys, pod, r); err != nil {
			klog.FromContext(ctx).V(5).Info("No class is made for the pod", "pod", klog.KObj(pod), "err", err)
			return nil, Failed
		}
	}
	c := e.classes.add(string(e.keys.class()), like, rows)
	c.spread = constraints
	if e.classes.lookups.thrashing(time.Now()) {
		klog.FromContext(ctx).Info("Decisions are slow because the fast path evicts classes of pods that are needed "+
			"again soon. Raise --fast-path-memory-limit",
			"limit", resource.NewQuantity(int64(e.classes.max), resource.BinarySI), "classes",
			e.classes.residents.len())
	}
	return c, None
}

// readSelectors reads the labels that count because of a pod for which a class is to be made, and
// returns the spread constraints that apply to the pod, if any.
func (e *Engine) readSelectors(plan *Plan, like *schedframework.PodInfo) (*topology.SpreadConstraints, Reason) {
	if topology.CountKeys(like) > maxOwnTopologies {
		return nil, Topology
	}
	if e.mentions.CountNew(like) > maxOwnMentions {
		return nil, Selectors
	}
	e.mentions.ReadTerms(like)
	if plan.topology == nil || !plan.hasSpread {
		return nil, None
	}
	constraints, err := plan.spreadConstraints(e.mentions, like.Pod)
	if err != nil {
		return nil, Failed
	}
	return constraints, None
}

// prepareTrackers brings the trackers of a pod's class up to date with the snapshot.
func (e *Engine) prepareTrackers(ctx context.Context, c *class, pod *corev1.Pod, r *refresher) Reason {
	trackers := r.plan.topology
	switch {
	case c.local.named:
		return NodeNames
	case c.local.extended && r.plan.devices == "":
		return Devices
	case trackers == nil && !c.standsAlone(ctx, r, pod):
		return Topology
	case trackers == nil:
		return None
	}
	return e.syncTrackers(c, r)
}

// syncTrackers brings the trackers of a class up to date. If too many topology keys concern the
// class, it does not try again before much has changed.
func (e *Engine) syncTrackers(c *class, r *refresher) Reason {
	log := e.snapshot.Log()
	if log.End() < c.crowded {
		return Topology
	}
	switch err := c.syncTrackers(r, e.mentions); {
	case errors.Is(err, topology.ErrTopologies):
		c.dropTrackers(&e.classes.budget)
		c.crowded = log.End() + uint64(max(minGroups, e.snapshot.Slots()/8))
		return Topology
	case err != nil:
		e.classes.drop(c)
		return Failed
	}
	return None
}
