// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/mapkey"
)

// waitingPods holds the pods that wait for an event: those in Unschedulable and Gated. They are
// sorted so that an event costs time by kinds of pods, not by pods:
//
//	kind        pods of one profile that the same plugins refused. An event that none of these
//	            plugins registered for skips the kind.
//	hint group  pods of a kind that differ in nothing that the hints of these plugins read. A hint
//	            is called for one of them.
//
// It has no lock: Queue.mu guards it, with the kinds and hint groups.
type waitingPods struct {
	// podList holds all of them.
	podList
	kinds map[kindKey]*kind
	// ordered holds the kinds in a fixed order, so that equal queues make equal decisions.
	ordered []*kind
	// arrivals counts the pods that came to wait; see entry.arrival.
	arrivals uint64

	key mapkey.Writer // used again and again
}

// kindKey is what the pods of a kind have in common.
type kindKey struct {
	profile *profileRules
	place   Place
	gate    string
	// unschedulable and pending name the plugins that refused the pods, in order.
	unschedulable, pending string
}

// kind holds the pods that wait for the same plugins.
type kind struct {
	kindKey
	pods int
	// groups are its hint groups, none of them empty; byKey has the ones with a key. The pods whose
	// key is unknown are in one without a key.
	groups  []*hintGroup
	byKey   map[string]*hintGroup
	unknown *hintGroup

	// concerned caches which events concern the kind. Without labels there are about a hundred.
	concerned map[fwk.ClusterEvent]bool
	index     int // in waitingPods.ordered
}

// hintGroup holds pods of a kind for which hints return the same.
type hintGroup struct {
	kind    *kind
	key     string
	entries []*entry
	index   int // in kind.groups
}

// alike reports whether the hints return the same for all pods of the hint group after an event.
func (h *hintGroup) alike(ev *clusterEvent) bool {
	if h == h.kind.unknown {
		return false
	}
	for _, plugin := range h.kind.profile.asked {
		if differs := plugin.key.Differs; differs != nil && differs(ev.oldObj, ev.newObj) &&
			h.entries[0].refusedBy(plugin.name) {
			return false
		}
	}
	return true
}

// add adds a pod that comes to wait.
func (w *waitingPods) add(e *entry) {
	w.arrivals++
	e.arrival = w.arrivals
	w.podList.add(e)
	w.join(e)
}

// remove removes a pod that does not wait any more.
func (w *waitingPods) remove(e *entry) {
	w.leave(e)
	w.podList.remove(e)
}

// sort puts a pod into the right hint group after it has changed.
func (w *waitingPods) sort(e *entry) {
	if e.hintGroup.kind.kindKey == kindOf(e) {
		key, known := w.keyOf(e)
		if known == (e.hintGroup != e.hintGroup.kind.unknown) && e.hintGroup.key == string(key) {
			return
		}
	}
	w.leave(e)
	w.join(e)
}

// join adds a pod to its hint group.
func (w *waitingPods) join(e *entry) {
	of := kindOf(e)
	k := w.kinds[of]
	if k == nil {
		k = &kind{kindKey: of, byKey: map[string]*hintGroup{}, concerned: map[fwk.ClusterEvent]bool{},
			index: len(w.ordered)}
		if w.kinds == nil {
			w.kinds = map[kindKey]*kind{}
		}
		w.kinds[of] = k
		w.ordered = append(w.ordered, k)
	}
	k.pods++
	g := k.hintGroupOf(w.keyOf(e))
	e.hintGroup, e.indexInHintGroup = g, len(g.entries)
	g.entries = append(g.entries, e)
}

// leave removes a pod from its hint group, and the group and the kind if they are empty then.
func (w *waitingPods) leave(e *entry) {
	g := e.hintGroup
	k := g.kind
	g.entries[len(g.entries)-1].indexInHintGroup = e.indexInHintGroup
	g.entries = replacedByLast(g.entries, e.indexInHintGroup)
	e.hintGroup = nil
	if len(g.entries) == 0 {
		k.drop(g)
	}
	k.pods--
	if k.pods == 0 {
		delete(w.kinds, k.kindKey)
		w.ordered[len(w.ordered)-1].index = k.index
		w.ordered = replacedByLast(w.ordered, k.index)
	}
}

// gated returns the number of gated pods.
func (w *waitingPods) gated() int {
	n := 0
	for _, k := range w.ordered {
		if k.place == Gated {
			n += k.pods
		}
	}
	return n
}

// keyOf returns what the hints of the plugins that refused a pod read of it. known is false if that
// is not known. The key is valid until the next call.
func (w *waitingPods) keyOf(e *entry) (key []byte, known bool) {
	w.key.Reset()
	for _, plugin := range e.profile.asked {
		if !e.refusedBy(plugin.name) {
			continue
		}
		if plugin.key.Write == nil || !plugin.key.Write(&w.key, e.pod) {
			return nil, false
		}
	}
	return w.key.Bytes(), true
}

// hintGroupOf returns the hint group of the pods with a key, and makes it if there is none.
func (k *kind) hintGroupOf(key []byte, known bool) *hintGroup {
	g := k.unknown
	if known {
		g = k.byKey[string(key)]
	}
	if g != nil {
		return g
	}
	g = &hintGroup{kind: k, key: string(key), index: len(k.groups)}
	k.groups = append(k.groups, g)
	if known {
		k.byKey[g.key] = g
	} else {
		k.unknown = g
	}
	return g
}

// drop removes a hint group.
func (k *kind) drop(g *hintGroup) {
	if g == k.unknown {
		k.unknown = nil
	} else {
		delete(k.byKey, g.key)
	}
	k.groups[len(k.groups)-1].index = g.index
	k.groups = replacedByLast(k.groups, g.index)
}

// concerns reports whether a plugin that refused the pods of the kind registered for an event.
func (k *kind) concerns(event fwk.ClusterEvent) bool {
	event.CustomLabel = "" // labels do not take part in matching
	concerned, known := k.concerned[event]
	if !known {
		concerned = k.groups[0].entries[0].awaits(event)
		k.concerned[event] = concerned
	}
	return concerned
}

// kindOf returns the kind that a pod belongs to.
func kindOf(e *entry) kindKey {
	return kindKey{
		profile:       e.profile,
		place:         e.place,
		gate:          e.info.GatingPlugin,
		unschedulable: joined(e.info.UnschedulablePlugins),
		pending:       joined(e.info.PendingPlugins),
	}
}

// joined returns the names in a set, in order, as one string.
func joined(names sets.Set[string]) string {
	if len(names) == 0 {
		return ""
	}
	return strings.Join(sets.List(names), "\x00")
}

// awaits reports whether a plugin that refused the pod registered for the event. All pods of a kind
// await the same events.
func (e *entry) awaits(event fwk.ClusterEvent) bool {
	if schedframework.ClusterEventIsWildCard(event) {
		return true
	}
	if e.place == Gated && !schedframework.MatchAnyClusterEvent(event, e.info.GatingPluginEvents) {
		return false
	}
	if len(e.info.UnschedulablePlugins) == 0 && len(e.info.PendingPlugins) == 0 {
		return true // no plugin refused the pod: any event retries it
	}
	return slices.ContainsFunc(e.profile.matching(event), func(h Hint) bool { return e.refusedBy(h.Plugin) })
}

// refusedBy reports whether a plugin refused the pod.
func (e *entry) refusedBy(plugin string) bool {
	return e.info.UnschedulablePlugins.Has(plugin) || e.info.PendingPlugins.Has(plugin)
}
