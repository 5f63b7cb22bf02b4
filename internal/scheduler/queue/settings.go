// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Settings is what a reload replaces as one: see Queue.Reconfigure. Immutable once handed over.
type Settings struct {
	// Less orders Active, and Backoff within one window. One for all profiles, as there is one
	// queue. nil means by priority, then by the time of queueing, which is also what orders pods
	// for which Less panics.
	Less fwk.LessFunc
	// Order names what Less makes of pods: settings of one order, unless it is empty, order them
	// equally, and queued pods are not put in order again.
	Order string
	// Profiles by scheduler name. Pods of other names are not queued.
	Profiles map[string]*ProfileSettings
}

// ProfileSettings is what the queue needs to know of one profile.
type ProfileSettings struct {
	// PreEnqueue plugins, in the order in which they are asked. They are called under the queue's
	// lock, as kube-scheduler's are: they must be quick and must not call the queue.
	PreEnqueue []fwk.PreEnqueuePlugin
	// Hints tells which events may help a pod that a plugin refused.
	Hints HintMap
	// InitialBackoff is how long a pod waits after its first failure. It doubles with each further
	// one, up to MaxBackoff. A MaxBackoff of 0 means no back-off.
	InitialBackoff, MaxBackoff time.Duration
	// MaxInUnschedulable is how long a pod stays Unschedulable, or Gated, before it is tried again
	// without an event. 0 means DefaultMaxInUnschedulable.
	MaxInUnschedulable time.Duration
}

// DefaultMaxInUnschedulable is kube-scheduler's podMaxInUnschedulablePodsDuration.
const DefaultMaxInUnschedulable = 5 * time.Minute

// HintMap lists, per event, the plugins that want to hear of it.
type HintMap map[fwk.ClusterEvent][]Hint

// Hint is a plugin's interest in an event.
type Hint struct {
	// Plugin is the name under which the plugin refuses pods.
	Plugin string
	// Fn says whether the event may help a pod. nil: it always may. It is called under the queue's
	// lock, as kube-scheduler's are: it must be quick and must not call the queue. An error or a
	// panic counts as Queue.
	Fn fwk.QueueingHintFn
}

// generation is Settings, prepared for use. Guarded by Queue.mu because of the memos in profile.
type ruleSet struct {
	less     fwk.LessFunc
	order    string
	profiles map[string]*profileRules
}

// profile is ProfileSettings, prepared for use. It is not safe for concurrent use: Queue.mu guards
// it.
type profileRules struct {
	name string
	// settings that the profile was made of.
	settings *ProfileSettings
	// replaced says that the name has another profile now, or none.
	replaced                   bool
	preEnqueue                 []preEnqueuePlugin
	initialBackoff, maxBackoff time.Duration
	maxInUnschedulable         time.Duration
	// pending counts the profile's pods per place; see pendingOf.
	pending [places]prometheus.Gauge

	// hints in a fixed order, so that equal queues decide equally.
	hints []eventHints
	// events lists what each plugin is interested in.
	events map[string][]fwk.ClusterEvent
	// matches remembers which hints an event concerns. Events come in some hundred kinds, labels
	// aside.
	matches map[fwk.ClusterEvent][]Hint
	// lastEvent and lastMatch are the latest answer of matching: it is asked of one event for many
	// pods.
	lastEvent fwk.ClusterEvent
	lastMatch []Hint
}

type preEnqueuePlugin struct {
	name   string
	plugin fwk.PreEnqueuePlugin
}

type eventHints struct {
	event fwk.ClusterEvent
	hints []Hint
}

// newGeneration prepares Settings. It calls plugins for their names only. Profiles with the
// settings that they have in old are carried over, unless they are among those that changed.
func newRuleSet(s *Settings, old *ruleSet, changed sets.Set[string]) *ruleSet {
	g := &ruleSet{less: defaultLess, profiles: map[string]*profileRules{}}
	if s == nil {
		return g
	}
	if s.Less != nil {
		g.less, g.order = s.Less, s.Order
	}
	for name, settings := range s.Profiles {
		if p := old.profiles[name]; p != nil && p.settings == settings && !changed.Has(name) {
			g.profiles[name] = p
			continue
		}
		g.profiles[name] = newProfileRules(name, settings)
	}
	return g
}

func newProfileRules(name string, s *ProfileSettings) *profileRules {
	p := &profileRules{
		name:               name,
		settings:           s,
		initialBackoff:     s.InitialBackoff,
		maxBackoff:         s.MaxBackoff,
		maxInUnschedulable: s.MaxInUnschedulable,
		pending:            pendingOf(name),
		events:             map[string][]fwk.ClusterEvent{},
		matches:            map[fwk.ClusterEvent][]Hint{},
	}
	if p.maxInUnschedulable <= 0 {
		p.maxInUnschedulable = DefaultMaxInUnschedulable
	}
	for _, plugin := range s.PreEnqueue {
		p.preEnqueue = append(p.preEnqueue, preEnqueuePlugin{name: plugin.Name(), plugin: plugin})
	}
	for event, hints := range s.Hints {
		p.hints = append(p.hints, eventHints{event: event, hints: hints})
	}
	slices.SortFunc(p.hints, func(a, b eventHints) int {
		return cmp.Or(cmp.Compare(a.event.Resource, b.event.Resource), cmp.Compare(a.event.ActionType, b.event.ActionType),
			cmp.Compare(a.event.CustomLabel, b.event.CustomLabel))
	})
	for _, eh := range p.hints {
		for _, hint := range eh.hints {
			p.events[hint.Plugin] = append(p.events[hint.Plugin], eh.event)
		}
	}
	return p
}

// matching returns the hints that concern an event.
func (p *profileRules) matching(event fwk.ClusterEvent) []Hint {
	if event == p.lastEvent {
		return p.lastMatch
	}
	asked := event
	event.CustomLabel = "" // it does not take part in matching
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

// interested says whether an event may move pods of any profile.
func (g *ruleSet) interested(event fwk.ClusterEvent) bool {
	if schedframework.ClusterEventIsWildCard(event) {
		return true
	}
	for _, p := range g.profiles {
		if len(p.matching(event)) != 0 {
			return true
		}
	}
	return false
}

// defaultLess is the order of kube-scheduler's PrioritySort plugin.
func defaultLess(a, b fwk.QueuedPodInfo) bool {
	pa, pb := corev1helpers.PodPriority(a.GetPodInfo().GetPod()), corev1helpers.PodPriority(b.GetPodInfo().GetPod())
	return pa > pb || (pa == pb && a.GetTimestamp().Before(b.GetTimestamp()))
}
