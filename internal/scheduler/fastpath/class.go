// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"container/list"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// podBytes is about what a pod takes that a class keeps alive.
const podBytes = 4096

// class is the pods with equal keys.
type class struct {
	key   string
	id    cache.ClassID
	like  *schedframework.PodInfo
	local *localRows

	// crosses are the twins that have something to do with the class, once crossed says that they
	// are made. constraints are what the one of PodTopologySpread is made from; nil if there are
	// none.
	crosses     []*cross
	crossed     bool
	constraints *topology.Constraints
	// groups are those of the nodes that the class last used; nil if none.
	groups *groups
	// unfit is kept for pods that fit nowhere.
	unfit unfit
	// beside is what is known of nodes that pods are nominated to, and which the class's pods fit
	// otherwise.
	beside map[cache.Slot]beside

	// used is the class's place in Engine.used, bytes what it was last accounted with, without what
	// it may share.
	used  *list.Element
	bytes int
}

// instanceOf returns what is kept for an instance. A new instance of a profile takes the place of
// the old one, and with it go those that were closed: of profiles that were deleted.
func (e *Engine) instanceOf(plan *Plan) *instance {
	name := plan.framework.ProfileName()
	if g, ok := e.instances[name]; ok && g.Plan == plan {
		return g
	}
	for other, g := range e.instances {
		if other == name || g.isClosed() {
			for _, c := range g.classes {
				e.dropClass(c)
			}
			delete(e.instances, other)
		}
	}
	g := newInstance(plan)
	e.instances[name] = g
	return g
}

// classOf returns the class of a pod. If it is new, so may be its local key.
func (e *Engine) classOf(ctx context.Context, g *instance, pod *corev1.Pod) (*class, Reason) {
	w := &e.key
	w.Reset()
	ok := w.local(pod) && g.ownKeys(w, pod)
	local := w.Len()
	if !ok || !w.cross(pod, e.mentions) {
		return nil, UnknownPlugin
	}
	if c, ok := g.classes[string(w.Bytes())]; ok {
		e.used.MoveToFront(c.used)
		return c, None
	}
	// A copy, as whoever schedules the pod may set its node.
	own := *pod
	like, err := schedframework.NewPodInfo(&own)
	if err != nil {
		return nil, Failed
	}
	like.CalculateResource()
	e.mentions.ReadTerms(like)
	rows, ok := g.locals[string(w.Bytes()[:local])]
	if !ok {
		if rows, err = e.newLocalRows(ctx, g, string(w.Bytes()[:local]), pod); err != nil {
			klog.FromContext(ctx).V(5).Info("No class is made for the pod", "pod", klog.KObj(pod), "err", err)
			return nil, Failed
		}
	}
	e.lastID++
	c := &class{key: string(w.Bytes()), id: e.lastID, like: like, local: rows}
	g.locals[rows.key] = rows
	g.classes[c.key] = c
	rows.classes++
	e.byID[c.id] = c
	c.used = e.used.PushFront(c)
	return c, None
}

// readMentions has those labels count that pods on nodes and services ask about now. What the pod's
// own selectors ask about is known once there is a class.
func (e *Engine) readMentions(twins *topology.Factory, pod *corev1.Pod) {
	e.mentions.ReadSnapshot(e.snapshot)
	if twins != nil {
		twins.ReadServices(e.mentions, pod)
	}
	e.forgetIfGrown()
}

// forgetIfGrown forgets all classes if labels count now that did not when they were made: pods of
// one class may differ in these. It says whether it did. What the change log says of the classes
// means nothing from then on.
func (e *Engine) forgetIfGrown() bool {
	if !e.mentions.Grown() {
		return false
	}
	for _, g := range e.instances {
		for _, c := range g.classes {
			e.dropClass(c)
		}
	}
	return true
}

// account counts what a class, its rows, twins and groups hold by now, and drops those that were
// not used for the longest while it is too much.
func (e *Engine) account(c *class) {
	bytes := podBytes + 2*len(c.key) + c.unfit.size() + besideBytes*len(c.beside)
	if c.constraints != nil {
		bytes += podBytes
	}
	e.count(&c.bytes, bytes)
	for _, x := range c.crosses {
		e.count(&x.bytes, x.Bytes()+x.relevant.size())
	}
	if c.groups != nil {
		e.count(&c.groups.bytes, c.groups.size())
	}
	e.accountRows(c.local)
	for e.bytes > e.maxBytes && e.used.Back().Value != c {
		e.dropClass(e.used.Back().Value.(*class))
	}
}

// count counts what something holds instead of what it was last accounted with.
func (e *Engine) count(accounted *int, now int) {
	e.bytes += now - *accounted
	*accounted = now
}

// dropClass forgets a class, and its rows, twins and groups with the last class that uses them.
func (e *Engine) dropClass(c *class) {
	g := c.local.gen
	c.dropCrosses(e)
	delete(g.classes, c.key)
	delete(e.byID, c.id)
	e.used.Remove(c.used)
	e.bytes -= c.bytes
	c.local.classes--
	if c.local.classes == 0 {
		delete(g.locals, c.local.key)
		e.release(c.local)
	}
}

// dropRows forgets rows with all the classes that use them.
func (e *Engine) dropRows(l *localRows) {
	for _, c := range l.gen.classes {
		if c.local == l {
			e.dropClass(c)
		}
	}
}

// alone says whether PodTopologySpread and InterPodAffinity have nothing to do for a pod: it has no
// constraints, nor do the default ones apply, and neither it nor any pod that runs has affinity
// terms.
func (e *Engine) alone(ctx context.Context, c *class, pod *corev1.Pod) bool {
	g := c.local.gen
	if g.hasAffinity && (e.snapshot.WithAffinity().Len() > 0 || hasTerms(c.like)) {
		return false
	}
	if !g.hasSpread {
		return true
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return false
	}
	// The plugin itself knows of the default constraints.
	state := schedframework.NewCycleState()
	if g.spreadFilters && !g.spread.AllSkip(ctx, state, pod, nil) {
		return false
	}
	if g.spreadWeight == 0 {
		return true
	}
	status := g.spread.RunPreScorePlugins(ctx, state, pod, nil)
	return status.IsSuccess() && state.GetSkipScorePlugins().Len() > 0
}

func hasTerms(pod *schedframework.PodInfo) bool {
	return len(pod.RequiredAffinityTerms)+len(pod.RequiredAntiAffinityTerms)+
		len(pod.PreferredAffinityTerms)+len(pod.PreferredAntiAffinityTerms) > 0
}
