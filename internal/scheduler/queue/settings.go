// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Settings holds everything that a reload replaces in one step; see Queue.Reconfigure. It must not
// be modified after it was passed to the queue.
type Settings struct {
	// Less orders Active, and Backoff within one window. All profiles share it, as there is one
	// queue. nil orders by priority, then by the time of queueing; that order is also used for pods
	// for which Less panics.
	Less fwk.LessFunc
	// Order identifies the order that Less implements. If two Settings have the same Order, and it
	// is not empty, queued pods are not sorted again on the change from one to the other.
	Order string
	// Profiles are the profiles by scheduler name. Pods with other scheduler names are not queued.
	Profiles map[string]*ProfileSettings
	// Canaries are further profiles, by scheduler names that are in Profiles, too.
	Canaries map[string]Canary
}

// ProfileSettings is the part of one profile that the queue needs.
type ProfileSettings struct {
	// Holder is the profile that the settings are of. Pop acquires it for each pod that it returns
	// with these settings. nil if there is nothing to keep alive.
	Holder Holder
	// PreEnqueue lists the plugins in the order in which they run. The queue calls them with its
	// lock held, as kube-scheduler does: they must be quick and must not call the queue.
	PreEnqueue []fwk.PreEnqueuePlugin
	// Hints decide which events may help a pod that a plugin refused.
	Hints HintMap
	// HintKeys describe what the hints of plugins read of a pod, by plugin. The queue calls the
	// hints of a plugin that is not among them for each pod that the plugin refused.
	HintKeys map[string]HintKey
	// IgnorePodGroups schedules the pods of scheduler-plugins' groups one by one: a plugin of the
	// profile takes care of these groups.
	IgnorePodGroups bool
	// InitialBackoff is how long a pod waits after its first failure. It doubles with each further
	// one, up to MaxBackoff. A MaxBackoff of 0 means no back-off.
	InitialBackoff, MaxBackoff time.Duration
	// MaxInUnschedulable is how long a pod stays Unschedulable or Gated before it is retried
	// without an event. 0 means DefaultMaxInUnschedulable.
	MaxInUnschedulable time.Duration
}

// Holder is a profile as the queue sees it: something that must stay open until a pod that was
// popped under its settings is bound or requeued.
type Holder interface {
	// Acquire takes a reference. The queue calls it under its lock, and only while the settings are
	// in force. It must not block, and must not call the queue.
	Acquire()
}

// DefaultMaxInUnschedulable is kube-scheduler's podMaxInUnschedulablePodsDuration.
const DefaultMaxInUnschedulable = 5 * time.Minute

// HintMap lists the plugins that registered for each event.
type HintMap map[fwk.ClusterEvent][]Hint

// Hint is a plugin's registration for an event.
type Hint struct {
	// Plugin is the name under which the plugin refuses pods.
	Plugin string
	// Fn decides whether the event may help a pod; nil means that it always may. The queue calls it
	// with its lock held, as kube-scheduler does: it must be quick and must not call the queue. An
	// error or a panic counts as Queue.
	Fn fwk.QueueingHintFn
}

// HintKey describes what the hints of a plugin read of the pod that they are called for. With many
// waiting pods, most of which are alike, it saves nearly all calls: the queue calls the hints for
// one of the pods with equal keys. The queue calls the functions with its lock held.
type HintKey struct {
	// Write writes all that the hints read of a pod, except where an event is about this pod
	// itself: for such an event, the queue calls the hints for the pod. If Write returns false, the
	// hints are called for this pod.
	Write func(w *mapkey.Writer, pod *corev1.Pod) bool
	// Differs reports whether the hints also read other things of a pod after this event, so that
	// the queue must call them for each pod. nil: they never do.
	Differs func(oldObj, newObj any) bool
}

// ruleSet is [Settings], prepared for use. Queue.mu guards it, since profileRules caches results.
type ruleSet struct {
	less  fwk.LessFunc
	order string
	// byPriority means that less orders by priority first.
	byPriority bool
	// profiles and canaries are by scheduler name. splits are those of the names with a canary,
	// to be put in force with the rules.
	profiles, canaries map[string]*profileRules
	splits             map[string]Canary
	// interesting caches for which events, without their labels, any profile has a hint.
	interesting map[fwk.ClusterEvent]bool
}

// profileRules is [ProfileSettings], prepared for use. It is not safe for concurrent use: Queue.mu
// guards it.
type profileRules struct {
	name string
	// settings are the ones that the rules were made from.
	settings *ProfileSettings
	// replaced is true once the scheduler name has newer rules, or none.
	replaced bool
	// split divides the pods of the scheduler name among two profiles, nil if it has one. canary
	// means that these are the rules of the second one.
	split              *split
	canary             bool
	maxInUnschedulable time.Duration
	// pending counts the waiting pods of the scheduler name.
	pending *tally

	// hints are in a fixed order, so that equal queues make equal decisions.
	hints []eventHints
	// asked are the plugins that have hint functions, by name.
	asked []askedPlugin
	// ungaters are the PreEnqueue plugins that implement Ungater, by name.
	ungaters map[string]Ungater
	// awaiters are those that implement Awaiter.
	awaiters []Awaiter
	// events lists the events that each plugin registered for.
	events map[string][]fwk.ClusterEvent
	// matches caches the hints that match an event. Without their labels there are about a hundred
	// different events.
	matches map[fwk.ClusterEvent][]Hint
	// lastEvent and lastMatch cache the latest result of matching, which is called for one event
	// and many pods in a row.
	lastEvent fwk.ClusterEvent
	lastMatch []Hint
}

type askedPlugin struct {
	name string
	key  HintKey
}

type eventHints struct {
	event fwk.ClusterEvent
	hints []Hint
}

// newRuleSet prepares Settings. It calls no plugin. It carries over the profileRules
// of old whose settings are the same, unless changed has their names. groups may be nil.
func newRuleSet(s *Settings, old *ruleSet, changed sets.Set[string], groups *podgroup.Registry) *ruleSet {
	rs := &ruleSet{less: defaultLess, byPriority: true, profiles: map[string]*profileRules{},
		canaries: map[string]*profileRules{}, interesting: map[fwk.ClusterEvent]bool{}}
	if s == nil {
		return rs
	}
	if s.Less != nil {
		rs.less, rs.order, rs.byPriority = s.Less, s.Order, s.Order == names.PrioritySort
	}
	for name, settings := range s.Profiles {
		if p := old.profiles[name]; p != nil && p.settings == settings && !changed.Has(name) {
			rs.profiles[name] = p
			continue
		}
		p := newProfileRules(name, settings, groups)
		if before := old.profiles[name]; before != nil {
			p.pending = before.pending
		} else {
			p.pending = newTally(name)
		}
		rs.profiles[name] = p
	}
	rs.splits = s.Canaries
	for name, canary := range s.Canaries {
		if rs.profiles[name] == nil {
			continue
		}
		p := old.canaries[name]
		if p == nil || p.settings != canary.Settings {
			p = newProfileRules(name, canary.Settings, groups)
			p.pending = rs.profiles[name].pending
		}
		rs.canaries[name] = p
	}
	return rs
}

// all yields the rules of all profiles and canaries.
func (r *ruleSet) all() iter.Seq[*profileRules] {
	return func(yield func(*profileRules) bool) {
		for _, rules := range []map[string]*profileRules{r.profiles, r.canaries} {
			for _, p := range rules {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// splitLocked puts the splits in force. old are the rules until now.
func (r *ruleSet) splitLocked(old *ruleSet, groups *podgroup.Registry) {
	for name, p := range r.profiles {
		p.canary, p.split = false, nil
		canary, divided := r.splits[name]
		if !divided {
			continue
		}
		if before := old.canaries[name]; before == r.canaries[name] && before.split != nil &&
			before.split.salt == canary.Salt {
			p.split = before.split
			p.split.share = canary.Share
		} else {
			p.split = &split{salt: canary.Salt, share: canary.Share, groups: groups}
		}
		r.canaries[name].canary, r.canaries[name].split = true, p.split
	}
}

func newProfileRules(name string, s *ProfileSettings, groups *podgroup.Registry) *profileRules {
	p := &profileRules{
		name:               name,
		settings:           s,
		maxInUnschedulable: s.MaxInUnschedulable,
		ungaters:           map[string]Ungater{},
		events:             map[string][]fwk.ClusterEvent{},
		matches:            map[fwk.ClusterEvent][]Hint{},
	}
	if p.maxInUnschedulable <= 0 {
		p.maxInUnschedulable = DefaultMaxInUnschedulable
	}
	for _, pl := range s.PreEnqueue {
		if u, ok := pl.(Ungater); ok {
			p.ungaters[pl.Name()] = u
		}
		if a, ok := pl.(Awaiter); ok {
			p.awaiters = append(p.awaiters, a)
		}
	}
	for event, hints := range s.Hints {
		p.hints = append(p.hints, eventHints{event: event, hints: hints})
	}
	if groups != nil {
		p.hints = append(p.hints,
			eventHints{event: nodeRelabeled, hints: []Hint{{Plugin: podgroup.TopologyGate, Fn: relabelHint(groups)}}})
	}
	slices.SortStableFunc(p.hints, func(a, b eventHints) int {
		return cmp.Or(cmp.Compare(a.event.Resource, b.event.Resource),
			cmp.Compare(a.event.ActionType, b.event.ActionType),
			cmp.Compare(a.event.CustomLabel, b.event.CustomLabel))
	})
	asked := sets.New[string]()
	for _, eh := range p.hints {
		for _, hint := range eh.hints {
			p.events[hint.Plugin] = append(p.events[hint.Plugin], eh.event)
			if hint.Fn != nil {
				asked.Insert(hint.Plugin)
			}
		}
	}
	for _, plugin := range sets.List(asked) {
		key := s.HintKeys[plugin]
		if plugin == podgroup.TopologyGate {
			key = relabelKey(groups)
		}
		p.asked = append(p.asked, askedPlugin{name: plugin, key: key})
	}
	return p
}

// matching returns the hints that match an event.
func (p *profileRules) matching(event fwk.ClusterEvent) []Hint {
	if event == p.lastEvent {
		return p.lastMatch
	}
	asked := event
	event.CustomLabel = "" // labels do not take part in matching
	hints, known := p.matches[event]
	if !known {
		for _, eh := range p.hints {
			if schedframework.MatchClusterEvents(eh.event, event) {
				hints = append(hints, eh.hints...)
			}
		}
		p.matches[event] = hints
	}
	p.lastEvent, p.lastMatch = asked, hints
	return hints
}

// interested reports whether any profile has a hint for the event.
func (r *ruleSet) interested(event fwk.ClusterEvent) bool {
	if schedframework.ClusterEventIsWildCard(event) {
		return true
	}
	event.CustomLabel = "" // labels do not take part in matching
	interesting, known := r.interesting[event]
	if !known {
		for p := range r.all() {
			interesting = interesting || len(p.matching(event)) != 0
		}
		r.interesting[event] = interesting
	}
	return interesting
}

// defaultLess is the order of kube-scheduler's PrioritySort plugin.
func defaultLess(a, b fwk.QueuedEntityInfo) bool {
	pa, pb := a.GetPriority(), b.GetPriority()
	return pa > pb || (pa == pb && a.GetTimestamp().Before(b.GetTimestamp()))
}
