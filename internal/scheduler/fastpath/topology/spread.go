// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/memsize"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// spread is the tracker of PodTopologySpread (pkg/scheduler/framework/plugins/podtopologyspread of
// kube-scheduler 1.37).
type spread struct {
	sources *Sources
	// pod stands for all pods of the class. It must not be modified.
	pod      *corev1.Pod
	required nodeaffinity.RequiredNodeAffinity
	// kept is the size of these two.
	kept int
	// constraints are the constraints that the tracker was made for.
	constraints *SpreadConstraints

	counters []counter
	// counting holds the counters that count the pods of each signature.
	counting memo[[]int]
	// hard are the constraints that Filter uses, soft those that Score uses, in the order of the
	// pod.
	hard, soft []tally
	// allKeys is true if nodes that lack the key of any soft constraint are not scored and count
	// for none of them.
	allKeys bool
	// lacks is true for the slots of nodes that are not scored because they lack the key of a soft
	// constraint; lacking is their number.
	lacks   []bool
	lacking int
	// totals and normals are scratch space for Score.
	totals  []float64
	normals normals
	moved
}

// counter counts the pods of the class's namespace that a selector matches, node by node.
type counter struct {
	selector labels.Selector
	pods     []int32 // by slot
	fresh    int32   // on the node that is being updated
	// byBinding is true if the selector reads labels that pods get only when they are bound.
	byBinding bool
}

// Tracker returns the tracker of PodTopologySpread for pods with these constraints. It becomes
// stale when the constraints change.
func (c *SpreadConstraints) Tracker() Tracker {
	t := &spread{sources: c.sources, pod: c.pod, allKeys: !c.system, constraints: c}
	t.required = nodeaffinity.GetRequiredNodeAffinity(t.pod)
	t.kept = memsize.Of(t.pod) + memsize.Of(&t.required)
	t.build(c.hard, c.soft)
	t.moved.on = true
	return t
}

// build makes the tallies and counts the pods of all nodes.
func (s *spread) build(hard, soft []rule) {
	for _, r := range hard {
		s.hard = append(s.hard, s.newTally(r))
	}
	for _, r := range soft {
		s.soft = append(s.soft, s.newTally(r))
	}
	if len(s.counters) == 0 {
		return
	}
	for slot := range s.sources.snapshot.Slots() {
		s.Update(cache.Slot(slot))
	}
}

func (s *spread) newTally(r rule) tally {
	y := tally{
		rule: r, places: newPlaces(s.sources.snapshot, r.topologyKey), counter: s.counterOf(r.selector),
		perNode: r.topologyKey == corev1.LabelHostname,
	}
	if r.selects(s.pod) {
		y.self = 1
	}
	return y
}

// counterOf returns the index of the counter for a selector. Constraints often differ only in the
// topology key.
func (s *spread) counterOf(selector labels.Selector) int {
	for i := range s.counters {
		if reflect.DeepEqual(s.counters[i].selector, selector) {
			return i
		}
	}
	s.counters = append(s.counters, counter{selector: selector, byBinding: byBinding(selector)})
	return len(s.counters) - 1
}

// Stale implements Tracker.
func (s *spread) Stale() bool {
	renumbered := s.renumbered()
	return renumbered || s.constraints.Changed()
}

// renumbered reports whether a topology was dropped and built again. It requests every topology,
// which keeps the snapshot from dropping it.
func (s *spread) renumbered() bool {
	renumbered := false
	for y := range s.tallies {
		renumbered = !y.current(s.sources.snapshot) || renumbered
	}
	return renumbered
}

// tallies yields the tallies of all constraints.
func (s *spread) tallies(yield func(*tally) bool) {
	for _, tallies := range [...][]tally{s.hard, s.soft} {
		for i := range tallies {
			if !yield(&tallies[i]) {
				return
			}
		}
	}
}

// Relevant implements Tracker.
func (s *spread) Relevant(pod *schedframework.PodInfo) bool {
	if pod.Pod.Namespace != s.pod.Namespace {
		return false
	}
	for i := range s.counters {
		if c := &s.counters[i]; c.byBinding || c.matches(pod.Pod.Labels) {
			return true
		}
	}
	return false
}

// matches reports whether a pod of the class's namespace with these labels counts. A selector that
// selects everything counts no pods.
func (c *counter) matches(podLabels map[string]string) bool {
	return !c.selector.Empty() && c.selector.Matches(labels.Set(podLabels))
}

// at returns the number of pods in a slot when it was last counted.
func (c *counter) at(slot cache.Slot) int32 {
	if int(slot) < len(c.pods) {
		return c.pods[slot]
	}
	return 0
}

// Update implements Tracker.
func (s *spread) Update(slot cache.Slot) {
	if len(s.counters) == 0 {
		return
	}
	s.count(slot)
	var node *corev1.Node
	if info := s.sources.snapshot.Info(slot); info != nil {
		node = info.Node()
	}
	s.recount(s.hard, slot, node, node != nil && !s.lacksKey(s.hard, slot))
	lacks := node != nil && s.allKeys && s.lacksKey(s.soft, slot)
	s.recount(s.soft, slot, node, node != nil && !lacks)
	s.setLacks(slot, lacks)
	for i := range s.counters {
		c := &s.counters[i]
		c.pods = grow(c.pods, s.sources.snapshot.Slots())
		c.pods[slot] = c.fresh
	}
}

// count counts the pods on a node.
func (s *spread) count(slot cache.Slot) {
	for i := range s.counters {
		s.counters[i].fresh = 0
	}
	signatures := s.sources.snapshot.Signatures()
	s.counting.look(signatures)
	for _, id := range signatures.On(slot) {
		known, meaning := s.counting.has(id)
		if !known {
			meaning = s.learn(id, signatures.Of(id))
		}
		if meaning {
			for _, i := range s.counting.effects[id] {
				s.counters[i].fresh++
			}
		}
	}
}

// learn determines which counters count the pods of a signature, and reports whether any does.
// Terminating pods do not count.
func (s *spread) learn(id cache.SignatureID, of *cache.Signature) bool {
	var counters []int
	if of.Namespace == s.pod.Namespace && !of.Terminating {
		for i := range s.counters {
			if s.counters[i].matches(of.Labels) {
				counters = append(counters, i)
			}
		}
	}
	if counters == nil {
		s.counting.rememberNothing(id)
		return false
	}
	s.counting.remember(id, counters)
	return true
}

// lacksKey reports whether a node lacks the topology key of any of the constraints.
func (s *spread) lacksKey(tallies []tally, slot cache.Slot) bool {
	for i := range tallies {
		if tallies[i].now(slot) == unlabelled {
			return true
		}
	}
	return false
}

func (s *spread) setLacks(slot cache.Slot, lacks bool) {
	s.lacks = grow(s.lacks, s.sources.snapshot.Slots())
	if s.lacks[slot] {
		s.lacking--
	}
	if lacks {
		s.lacking++
	}
	s.lacks[slot] = lacks
}

// recount recounts a node, as it is now, for the constraints of one kind. The inclusion policies
// may still exclude an eligible node.
func (s *spread) recount(tallies []tally, slot cache.Slot, node *corev1.Node, eligible bool) {
	var verdicts inclusion
	for i := range tallies {
		y, c := &tallies[i], &s.counters[tallies[i].counter]
		y.grow(s.sources.snapshot.Slots())
		y.move(slot, eligible && verdicts.includes(s, y, node), c.at(slot), c.fresh, &s.moved)
	}
}

// inclusion caches the results of the node inclusion policies for one node.
type inclusion struct {
	asked, matches     bool // the pod's node selector and affinity
	inspected, tainted bool // with taints that the pod does not tolerate
}

func (i *inclusion) includes(t *spread, y *tally, node *corev1.Node) bool {
	if y.honorAffinity {
		if !i.asked {
			// Like upstream, ignore the error of a selector that does not parse.
			i.matches, _ = t.required.Match(node)
			i.asked = true
		}
		if !i.matches {
			return false
		}
	}
	if y.honorTaints {
		if !i.inspected {
			_, i.tainted = v1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints,
				t.pod.Spec.Tolerations,
				helper.DoNotScheduleTaintsFilterFunc(), t.sources.features.EnableTaintTolerationComparisonOperators)
			i.inspected = true
		}
		return !i.tainted
	}
	return true
}

// Bytes implements Tracker.
func (s *spread) Bytes() int {
	bytes := objectBytes + s.kept + s.constraints.Bytes() + cap(s.lacks) + 8*cap(s.totals) +
		s.counting.bytes(effectBytes) + 4*s.moved.slots.Cap()
	for i := range s.counters {
		bytes += 4 * cap(s.counters[i].pods)
	}
	for y := range s.tallies {
		bytes += 4*(cap(y.at)+cap(y.pods)+cap(y.nodes)+cap(y.found)) + cap(y.counts) + 8*(cap(y.seen)+cap(y.terms))
	}
	return bytes
}
