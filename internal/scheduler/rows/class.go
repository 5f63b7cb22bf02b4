// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"container/list"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/domains"
)

// podBytes is about what a pod takes that a class keeps alive.
const podBytes = 4096

// class is the pods with equal keys.
type class struct {
	key   string
	id    cache.ClassID
	like  *schedframework.PodInfo
	local *localRows

	// crosses are the twins that have something to do with the class, right up to pos in the log; 0 if they are not made.
	crosses []cross
	pos     uint64
	// relevant says of classes whether their pods change anything for crosses.
	relevant map[cache.ClassID]bool
	// unfit is kept for pods that fit nowhere.
	unfit unfit

	// used is the class's place in Engine.used, bytes what it was last accounted with, without its rows.
	used  *list.Element
	bytes int
}

// cross is the twin of a plugin with the weight of its score.
type cross struct {
	domains.Cross
	filters bool
	weight  int64
}

// generation returns what is known of the pod's profile. A new generation of a profile takes the place of the old one,
// and with it go those that were closed: of profiles that were deleted.
func (e *Engine) generation(p Profile) *generation {
	name := p.Framework.ProfileName()
	if g, ok := e.generations[name]; ok && g.framework == p.Framework {
		return g
	}
	for other, g := range e.generations {
		if other == name || g.isClosed() {
			for _, c := range g.classes {
				e.dropClass(c)
			}
			delete(e.generations, other)
		}
	}
	g := newGeneration(p)
	e.generations[name] = g
	return g
}

func (g *generation) isClosed() bool {
	select {
	case <-g.closed:
		return true
	default:
		return false
	}
}

// classOf returns the class of a pod. If it is new, so may be its local key.
func (e *Engine) classOf(ctx context.Context, g *generation, pod *corev1.Pod) (*class, Reason) {
	w := &e.key
	w.buf = w.buf[:0]
	ok := w.local(pod) && g.ownKeys(w, pod)
	local := len(w.buf)
	if !ok || !w.cross(pod) {
		return nil, UnknownPlugin
	}
	if c, ok := g.classes[string(w.buf)]; ok {
		e.used.MoveToFront(c.used)
		return c, None
	}
	rows, ok := g.locals[string(w.buf[:local])]
	if !ok {
		var err error
		if rows, err = g.newLocalRows(ctx, string(w.buf[:local]), pod); err != nil {
			klog.FromContext(ctx).V(5).Info("No class is made for the pod", "pod", klog.KObj(pod), "err", err)
			return nil, Failed
		}
	}
	// A copy, as whoever schedules the pod may set its node.
	own := *pod
	like, err := schedframework.NewPodInfo(&own)
	if err != nil {
		return nil, Failed
	}
	like.CalculateResource()
	e.lastID++
	c := &class{key: string(w.buf), id: e.lastID, like: like, local: rows}
	g.locals[rows.key] = rows
	g.classes[c.key] = c
	rows.classes++
	e.byID[c.id] = c
	c.used = e.used.PushFront(c)
	return c, None
}

// account counts what a class and its rows hold by now, and drops those that were not used for the longest while it is
// too much.
func (e *Engine) account(c *class) {
	bytes := podBytes + 2*len(c.key) + c.unfit.size()
	for _, cross := range c.crosses {
		bytes += cross.Bytes()
	}
	e.bytes += bytes - c.bytes
	c.bytes = bytes
	rowBytes := c.local.size()
	e.bytes += rowBytes - c.local.bytes
	c.local.bytes = rowBytes
	for e.bytes > e.maxBytes && e.used.Back().Value != c {
		e.dropClass(e.used.Back().Value.(*class))
	}
}

// dropClass forgets a class, and its rows with the last class that uses them.
func (e *Engine) dropClass(c *class) {
	g := c.local.gen
	delete(g.classes, c.key)
	delete(e.byID, c.id)
	e.used.Remove(c.used)
	e.bytes -= c.bytes
	c.local.classes--
	if c.local.classes == 0 {
		delete(g.locals, c.local.key)
		e.bytes -= c.local.bytes
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

// syncCrosses brings the twins up to the snapshot.
func (c *class) syncCrosses(e *Engine, twins *domains.Twins) error {
	log := e.snapshot.Log()
	changes, ok := log.Since(c.pos)
	if !ok || c.stale() {
		return c.makeCrosses(e, twins)
	}
	if len(c.crosses) > 0 && len(changes) > 0 {
		e.beginMarks()
		for _, change := range changes {
			if !c.cares(e, change) || !e.mark(change.Slot) {
				continue
			}
			for i := range c.crosses {
				c.crosses[i].Update(change.Slot)
			}
		}
	}
	c.pos = log.End()
	return nil
}

func (c *class) stale() bool {
	for i := range c.crosses {
		if c.crosses[i].Stale() {
			return true
		}
	}
	return false
}

// cares says whether a change can change anything for the twins.
func (c *class) cares(e *Engine, change cache.Change) bool {
	if change.Pod == 0 || change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
		return true
	}
	relevant, ok := c.relevant[change.Pod]
	if !ok {
		other, known := e.byID[change.Pod]
		if !known {
			return true
		}
		for i := range c.crosses {
			relevant = relevant || c.crosses[i].Relevant(other.like)
		}
		if len(c.relevant) >= maxRelevant {
			clear(c.relevant)
		}
		c.relevant[change.Pod] = relevant
	}
	return relevant
}

// maxRelevant bounds how many classes a class remembers to be relevant or not.
const maxRelevant = 4096

// makeCrosses makes the twins anew.
func (c *class) makeCrosses(e *Engine, twins *domains.Twins) error {
	g := c.local.gen
	c.crosses, c.pos, c.relevant, c.unfit = nil, 0, map[cache.ClassID]bool{}, unfit{}
	add := func(made domains.Cross, err error, filters bool, weight int64) error {
		if err == nil && made != nil {
			c.crosses = append(c.crosses, cross{made, filters, weight})
		}
		return err
	}
	if g.hasSpread {
		made, err := twins.Spread(c.like.Pod)
		if err := add(made, err, g.spreadFilters, g.spreadWeight); err != nil {
			return err
		}
	}
	if g.hasAffinity {
		made, err := twins.Affinity(c.like.Pod)
		if err := add(made, err, g.affinityFilters, g.affinityWeight); err != nil {
			return err
		}
	}
	c.pos = e.snapshot.Log().End()
	return nil
}

// alone says whether PodTopologySpread and InterPodAffinity have nothing to do for a pod: it has no constraints, nor do
// the default ones apply, and neither it nor any pod that runs has affinity terms.
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
