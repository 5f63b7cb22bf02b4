// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// model implements the rules of the queue in the simplest way: pods in a map, a list of events per
// pod in flight, linear searches everywhere. It receives the same calls as the queue.
type model struct {
	now func() time.Time
	// the informers' newest version of this very pod, nil if it is not pending any more
	known    func(*corev1.Pod) *corev1.Pod
	settings *Settings
	pods     map[types.UID]*modelPod
	nominees map[types.UID]modelNominee
	dropped  []string // by the present reload
	// answers of PreEnqueue plugins and hints
	preEnqueue func(plugin string, pod *corev1.Pod) answer
	hint       func(plugin string, pod *corev1.Pod, newObj any) answer
}

// answer is the result of a plugin in a test.
type answer int

const (
	yes answer = iota
	no
	fails
	panics
)

type modelPod struct {
	pod                        *corev1.Pod
	place                      Place
	timestamp, checked, until  time.Time
	attempts, refusals, errors int
	failures                   int // of PreEnqueue, in a row
	refusedBy, pendingBy       sets.Set[string]
	gate                       string
	missed                     strategy         // while it is gated
	by                         *ProfileSettings // that have evaluated or popped it
	flushed                    bool
	// in flight
	started   time.Time
	deleted   bool
	failed    bool // what its last attempt set in motion
	events    []clusterEvent
	firstTime time.Time // of the attempts; zero before the first
}

type modelNominee struct {
	node    string
	earlier []string
	pod     *corev1.Pod
}

// profile returns the settings that decide about a pod, nil if none do.
func (m *model) profile(pod *corev1.Pod) *ProfileSettings {
	name := pod.Spec.SchedulerName
	if canary, divided := m.settings.Canaries[name]; divided && m.settings.Profiles[name] != nil &&
		canary.Takes((*podgroup.Registry)(nil).OwnerOf(pod)) {
		return canary.Settings
	}
	return m.settings.Profiles[name]
}

// outdated reports whether a waiting pod was evaluated by other settings than those that decide
// about it now.
func (m *model) outdated(p *modelPod) bool { return p.place != InFlight && p.by != m.profile(p.pod) }

func (m *model) in(places ...Place) []*modelPod {
	var pods []*modelPod
	for _, p := range m.pods {
		if slices.Contains(places, p.place) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (m *model) add(pod *corev1.Pod) {
	known := m.known(pod)
	if m.profile(pod) == nil || known == nil || known.Spec.NodeName != pod.Spec.NodeName || !waits(pod) {
		return
	}
	if p := m.pods[pod.UID]; p != nil {
		if p.place == InFlight {
			p.deleted = false
		}
		return
	}
	p := &modelPod{pod: known, timestamp: m.now(), refusedBy: sets.New[string](), pendingBy: sets.New[string]()}
	m.pods[pod.UID] = p
	m.enqueue(p, immediately)
	m.nominate(known, known.Status.NominatedNodeName)
}

func (m *model) update(oldPod, newPod *corev1.Pod, queueUnknown bool) {
	if oldPod.UID != newPod.UID {
		m.delete(oldPod)
	}
	m.current(newPod.UID)
	if m.profile(newPod) == nil {
		if p := m.pods[newPod.UID]; p != nil && p.place == InFlight {
			p.pod, p.deleted = newPod, false
			delete(m.nominees, newPod.UID)
			return
		}
		m.delete(newPod)
		return
	}
	p := m.current(newPod.UID)
	if p == nil {
		if queueUnknown {
			m.add(newPod)
		}
		return
	}
	if oldPod.UID != newPod.UID {
		oldPod = p.pod
	}
	p.pod = newPod
	changes := schedframework.PodSchedulingPropertiesChange(newPod, oldPod, true)
	if p.place == InFlight {
		p.deleted = false
		for _, event := range changes {
			m.keep(clusterEvent{event: event, oldObj: oldPod, newObj: newPod})
		}
		return
	}
	m.nominateByStatus(newPod, oldPod.Status.NominatedNodeName)
	m.current(newPod.UID) // its owner may be another one
	if p.place == Unschedulable || p.place == Gated {
		for _, event := range changes {
			if s := m.worth(p, clusterEvent{event: event, oldObj: oldPod, newObj: newPod}); s != stay {
				m.enqueue(p, s)
				return
			}
		}
	}
}

// waits reports whether a pod waits for a node, or for room for its resize.
func waits(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" || len(pod.Status.Conditions) > 0 }

func (m *model) delete(pod *corev1.Pod) {
	delete(m.nominees, pod.UID)
	if p := m.pods[pod.UID]; p != nil && p.place == InFlight {
		p.deleted = true
		return
	}
	delete(m.pods, pod.UID)
}

// candidates returns the pods that Pop may return: those that no other pod precedes.
func (m *model) candidates() []*modelPod {
	pods := m.in(Active)
	if len(pods) == 0 {
		var window []*modelPod
		for _, p := range m.in(Backoff) {
			switch {
			case len(window) == 0 || p.until.Before(window[0].until):
				window = []*modelPod{p}
			case p.until.Equal(window[0].until):
				window = append(window, p)
			}
		}
		pods = window
	}
	var first []*modelPod
	for _, p := range pods {
		if !slices.ContainsFunc(pods, func(o *modelPod) bool { return m.less(o, p) }) {
			first = append(first, p)
		}
	}
	return first
}

func (m *model) less(a, b *modelPod) bool { return m.settings.Less(a.queued(), b.queued()) }

// queued returns what a queue sort may read.
func (p *modelPod) queued() *schedframework.QueuedPodInfo {
	return &schedframework.QueuedPodInfo{PodInfo: &schedframework.PodInfo{Pod: p.pod},
		QueueingParams: schedframework.QueueingParams{Timestamp: p.timestamp, Attempts: p.attempts}}
}

func (m *model) pop(p *modelPod) {
	p.place = InFlight
	p.attempts++
	p.gate = ""
	p.events = nil
	m.noteAttempt(p)
	p.started = p.firstTime
}

func (m *model) noteAttempt(p *modelPod) {
	if p.firstTime.IsZero() {
		p.firstTime = m.now()
	}
}

func (m *model) done(uid types.UID) {
	if p := m.pods[uid]; p != nil && p.place == InFlight {
		delete(m.pods, uid)
	}
}

// requeue returns a popped pod to the queue; old is its state at its Pop.
func (m *model) requeue(old modelPod, refusedBy, pendingBy []string) (kept bool) {
	p := m.pods[old.pod.UID]
	if p != nil && (p.place != InFlight || !p.started.Equal(old.started)) {
		return true
	}
	newest := m.known(old.pod)
	switch {
	case newest == nil || (p != nil && p.deleted):
		delete(m.pods, old.pod.UID)
		delete(m.nominees, old.pod.UID)
		return false
	case m.profile(newest) == nil:
		delete(m.pods, old.pod.UID)
		return false
	}
	if newest.Spec.NodeName != "" {
		delete(m.nominees, old.pod.UID)
	}
	released := p == nil
	if released {
		p = &modelPod{firstTime: old.firstTime, attempts: old.attempts, refusals: old.refusals, errors: old.errors}
		m.pods[old.pod.UID] = p
	}
	reassigned := !released && p.by != m.profile(newest)
	p.pod, p.by = newest, m.profile(newest)
	p.refusedBy, p.pendingBy = sets.New(refusedBy...), sets.New(pendingBy...)
	p.timestamp = m.now()
	p.flushed, p.failures = false, 0
	isError := p.refusedBy.Len()+p.pendingBy.Len() == 0
	if isError {
		p.errors++
	} else {
		p.refusals++
		p.errors = 0
	}
	s := stay
	if p.failed {
		s = afterFailure
	}
	if released || isError {
		s = afterBackoff
	}
	for _, ev := range p.events {
		s = max(s, m.worth(p, ev))
	}
	if reassigned {
		s = immediately
	}
	p.events, p.failed, p.missed = nil, false, stay
	if s == stay {
		p.place, p.checked = Unschedulable, m.now()
		return true
	}
	p.place = nowhere
	m.enqueue(p, s)
	return true
}

func (m *model) worth(p *modelPod, ev clusterEvent) strategy {
	rejectors := p.refusedBy.Union(p.pendingBy)
	if rejectors.Len() == 0 {
		return afterBackoff
	}
	if ev.event.Resource == fwk.WildCard {
		if pod, ok := ev.newObj.(*corev1.Pod); ok && pod.UID != p.pod.UID {
			return stay
		}
		return afterBackoff
	}
	s := stay
	if left := leftBy(ev); p.place != Gated && left != "" && left == m.nominees[p.pod.UID].node {
		s = afterBackoff
	}
	for event, hints := range m.profile(p.pod).Hints {
		for _, hint := range hints {
			if !schedframework.MatchClusterEvents(event, ev.event) || !rejectors.Has(hint.Plugin) {
				continue
			}
			if hint.Fn != nil && m.hint(hint.Plugin, p.pod, ev.newObj) == no {
				continue
			}
			if p.pendingBy.Has(hint.Plugin) {
				s = immediately
			} else {
				s = max(s, afterBackoff)
			}
		}
	}
	return s
}

// leftBy returns the node that a pod has left by an event.
func leftBy(ev clusterEvent) string {
	if pod, ok := ev.oldObj.(*corev1.Pod); ok && ev.event == schedframework.EventAssignedPodDelete {
		return pod.Spec.NodeName
	}
	return ""
}

// keep records an event for all pods in flight.
func (m *model) keep(ev clusterEvent) {
	for _, p := range m.in(InFlight) {
		p.events = append(p.events, ev)
	}
}

func (m *model) interesting(event fwk.ClusterEvent) bool {
	profiles := slices.Collect(maps.Values(m.settings.Profiles))
	for name, canary := range m.settings.Canaries {
		if m.settings.Profiles[name] != nil {
			profiles = append(profiles, canary.Settings)
		}
	}
	for _, profile := range profiles {
		for e := range profile.Hints {
			if schedframework.MatchClusterEvents(e, event) {
				return true
			}
		}
	}
	return event.Resource == fwk.WildCard
}

func (m *model) move(event fwk.ClusterEvent, oldObj, newObj any, precheck func(*corev1.Pod) bool) {
	if !m.interesting(event) {
		return
	}
	ev := clusterEvent{event: event, oldObj: oldObj, newObj: newObj}
	for _, p := range m.in(Unschedulable, Gated) {
		if m.outdated(p) || precheck != nil && !precheck(p.pod) || p.place == Gated && !m.gateHears(p, event) {
			continue
		}
		if s := m.worth(p, ev); s != stay {
			m.enqueue(p, s)
		}
	}
	m.keep(ev)
}

func (m *model) gateHears(p *modelPod, event fwk.ClusterEvent) bool {
	for e, hints := range m.profile(p.pod).Hints {
		if schedframework.MatchClusterEvents(e, event) &&
			slices.ContainsFunc(hints, func(h Hint) bool { return h.Plugin == p.gate }) {
			return true
		}
	}
	return event.Resource == fwk.WildCard
}

func (m *model) activate(pod *corev1.Pod) {
	p := m.current(pod.UID)
	switch {
	case p == nil || p.place == Active:
	case p.place == InFlight:
		m.keep(clusterEvent{event: schedframework.EventForceActivate, newObj: pod})
	case (p.place == Backoff || p.place == ErrorBackoff) && p.failures == 0:
		p.place = Active
		m.noteAttempt(p)
	default:
		m.enqueue(p, immediately)
	}
}

func (m *model) ungate(pod *corev1.Pod, plugin string) {
	if p := m.current(pod.UID); p != nil && p.place == Gated && p.gate == plugin {
		m.enqueue(p, p.missed)
	}
}

func (m *model) retryLater(pod *corev1.Pod) {
	switch p := m.current(pod.UID); {
	case p == nil:
	case p.place == InFlight:
		p.failed = true
	case p.place == Unschedulable || p.place == Gated:
		m.enqueue(p, afterFailure)
	}
}

// enqueue moves a pod as close to being popped as its gates and back-off allow.
func (m *model) enqueue(p *modelPod, s strategy) {
	p.by = m.profile(p.pod)
	wasParked := p.place == Unschedulable || p.place == Gated
	verdict, plugin := yes, ""
	plugins := slices.Clone(m.profile(p.pod).PreEnqueue)
	// The gating plugin runs first.
	slices.SortStableFunc(plugins, func(a, b fwk.PreEnqueuePlugin) int {
		switch {
		case a.Name() == b.Name():
			return 0
		case a.Name() == p.gate:
			return -1
		case b.Name() == p.gate:
			return 1
		}
		return 0
	})
	for _, pl := range plugins {
		if verdict = m.preEnqueue(pl.Name(), p.pod); verdict != yes {
			plugin = pl.Name()
			break
		}
	}
	p.gate = ""
	switch verdict {
	case fails, panics:
		p.failures++
		p.missed = stay
		p.place, p.until = ErrorBackoff, m.now().Add(m.backoff(p, p.failures)).Truncate(time.Second)
		return
	case no:
		p.failures = 0
		p.gate = plugin
		if !wasParked {
			p.checked = m.now()
		}
		p.refusedBy.Insert(plugin)
		p.place = Gated
		p.missed = max(p.missed, s)
		return
	}
	p.failures, p.missed = 0, stay
	if end, has := m.backoffEnd(p); has && s != immediately && !end.Before(m.now().Truncate(time.Second)) {
		p.place, p.until = Backoff, end
		if s == afterFailure || p.refusedBy.Len()+p.pendingBy.Len() == 0 {
			p.place = ErrorBackoff
		}
		return
	}
	p.place = Active
	m.noteAttempt(p)
}

func (m *model) backoffEnd(p *modelPod) (time.Time, bool) {
	failures := p.errors
	if failures == 0 {
		failures = p.refusals
	}
	if failures == 0 || m.profile(p.pod).MaxBackoff == 0 {
		return time.Time{}, false
	}
	return p.timestamp.Add(m.backoff(p, failures)).Truncate(time.Second), true
}

func (m *model) backoff(p *modelPod, failures int) time.Duration {
	profile := m.profile(p.pod)
	d := profile.InitialBackoff
	for range failures - 1 {
		d = min(2*d, profile.MaxBackoff)
	}
	return min(d, profile.MaxBackoff)
}

func (m *model) moveCompleted() {
	for _, p := range m.in(Backoff, ErrorBackoff) {
		if !p.until.Before(m.now().Truncate(time.Second)) {
			continue
		}
		if m.outdated(p) {
			m.current(p.pod.UID)
			continue
		}
		if p.failures > 0 {
			m.enqueue(p, immediately)
			continue
		}
		p.place = Active
		m.noteAttempt(p)
	}
}

func (m *model) flush() {
	for _, p := range m.in(Unschedulable, Gated) {
		if m.outdated(p) {
			continue
		}
		since := p.timestamp
		if p.checked.After(since) {
			since = p.checked
		}
		if m.now().Sub(since) <= m.profile(p.pod).MaxInUnschedulable {
			continue
		}
		m.enqueue(p, afterBackoff)
		if p.place == Gated {
			p.checked = m.now()
		} else {
			p.flushed = true
		}
	}
}

// noSettings are the settings of a profile that is gone. No pod has them later.
var noSettings = &ProfileSettings{}

// reconfigure is the critical section of a reload. It returns the priorities of the pods whose
// nominations ended.
//
// The queue forgets a profile that is gone, with its canary. The same settings are another profile
// when they come back, for pods that are still in flight, too.
func (m *model) reconfigure(s *Settings) (ended []int32) {
	m.settings, m.dropped = s, nil
	for _, p := range m.pods {
		if s.Profiles[p.pod.Spec.SchedulerName] == nil {
			p.by = noSettings
		}
	}
	for uid, n := range m.nominees {
		if m.profile(n.pod) == nil {
			delete(m.nominees, uid)
			ended = append(ended, *n.pod.Spec.Priority)
		}
	}
	return ended
}

// current renews a pod that a reload has not reached yet. It returns nil if the pod leaves the
// queue.
func (m *model) current(uid types.UID) *modelPod {
	p := m.pods[uid]
	if p == nil || !m.outdated(p) {
		return p
	}
	if m.profile(p.pod) == nil {
		m.dropped = append(m.dropped, p.pod.Namespace+"/"+p.pod.Name)
		delete(m.pods, uid)
		return nil
	}
	p.refusedBy, p.pendingBy = sets.New[string](), sets.New[string]()
	p.failures = 0
	m.enqueue(p, immediately)
	return p
}

// nominationEnded reports that pods of a priority and below may have room.
func (m *model) nominationEnded(priority int32) {
	m.move(schedframework.EventAssignedPodDelete, nil, nil,
		func(pod *corev1.Pod) bool { return *pod.Spec.Priority <= priority })
}

// nominateByStatus follows an update of a pod, whose status named a node before.
func (m *model) nominateByStatus(pod *corev1.Pod, before string) {
	node := pod.Status.NominatedNodeName
	nominee := m.nominees[pod.UID]
	if seen := slices.Index(nominee.earlier, node); nominee.node != "" && node == before {
		node = nominee.node
	} else if seen >= 0 {
		node, nominee.earlier = nominee.node, nominee.earlier[seen+1:]
	} else {
		nominee.earlier = nil
	}
	m.nominate(pod, node, nominee.earlier...)
}

// nominateInMemory nominates a pod before its status names the node.
func (m *model) nominateInMemory(pod *corev1.Pod, node string) {
	nominee := m.nominees[pod.UID]
	earlier := nominee.earlier
	if nominee.node == pod.Status.NominatedNodeName {
		earlier = nil
	} else if nominee.node != "" && nominee.node != node {
		earlier = nil
		for _, other := range nominee.earlier {
			if other != nominee.node {
				earlier = append(earlier, other)
			}
		}
		earlier = append(earlier, nominee.node)
	}
	m.nominate(pod, node, earlier...)
}

func (m *model) nominate(pod *corev1.Pod, node string, earlier ...string) {
	delete(m.nominees, pod.UID)
	if known := m.known(pod); node != "" && m.profile(pod) != nil && known != nil && known.Spec.NodeName == "" {
		m.nominees[pod.UID] = modelNominee{node: node, earlier: earlier, pod: pod}
	}
}
