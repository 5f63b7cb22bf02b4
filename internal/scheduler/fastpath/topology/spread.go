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

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// spread is the tracker of PodTopologySpread (pkg/scheduler/framework/plugins/podtopologyspread of
// kube-scheduler 1.36).
type spread struct {
	sources *Sources
	// pod stands for all pods of the class. It must not be modified.
	pod      *corev1.Pod
	required nodeaffinity.RequiredNodeAffinity
	// constraints are those of the class that the tracker was made for.
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
	// regrouped counts the changes after which the nodes must be grouped again.
	regrouped uint64
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
func (c *SpreadConstraints) Tracker() (Tracker, error) {
	t := &spread{sources: c.sources, pod: c.pod, allKeys: !c.system, constraints: c}
	t.required = nodeaffinity.GetRequiredNodeAffinity(t.pod)
	t.build(c.hard, c.soft)
	if t.renumbered() {
		return nil, errTopologies
	}
	return t, nil
}

// build makes the tallies and counts the pods of all nodes.
func (t *spread) build(hard, soft []rule) {
	for _, r := range hard {
		t.hard = append(t.hard, t.newTally(r))
	}
	for _, r := range soft {
		t.soft = append(t.soft, t.newTally(r))
	}
	if len(t.counters) == 0 {
		return
	}
	for slot := range t.sources.snapshot.Slots() {
		t.Update(cache.Slot(slot))
	}
}

func (t *spread) newTally(r rule) tally {
	y := tally{
		rule: r, places: newPlaces(t.sources.snapshot, r.topologyKey), counter: t.counterOf(r.selector),
		perNode: r.topologyKey == corev1.LabelHostname,
	}
	if r.selects(t.pod) {
		y.self = 1
	}
	return y
}

// counterOf returns the index of the counter for a selector. Constraints often differ only in the
// topology key.
func (t *spread) counterOf(selector labels.Selector) int {
	for i := range t.counters {
		if reflect.DeepEqual(t.counters[i].selector, selector) {
			return i
		}
	}
	t.counters = append(t.counters, counter{selector: selector, byBinding: byBinding(selector)})
	return len(t.counters) - 1
}

// Stale implements Tracker.
func (t *spread) Stale() bool {
	renumbered := t.renumbered()
	return renumbered || t.constraints.Changed()
}

// renumbered reports whether a topology was dropped and built again. It requests every topology,
// which keeps the snapshot from dropping it.
func (t *spread) renumbered() bool {
	renumbered := false
	for y := range t.tallies {
		renumbered = !y.current(t.sources.snapshot) || renumbered
	}
	return renumbered
}

// tallies yields the tallies of all constraints.
func (t *spread) tallies(yield func(*tally) bool) {
	for _, tallies := range [...][]tally{t.hard, t.soft} {
		for i := range tallies {
			if !yield(&tallies[i]) {
				return
			}
		}
	}
}

// Relevant implements Tracker.
func (t *spread) Relevant(pod *schedframework.PodInfo) bool {
	if pod.Pod.Namespace != t.pod.Namespace {
		return false
	}
	for i := range t.counters {
		if c := &t.counters[i]; c.byBinding || c.matches(pod.Pod.Labels) {
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
func (t *spread) Update(slot cache.Slot) {
	if len(t.counters) == 0 {
		return
	}
	t.count(slot)
	var node *corev1.Node
	if info := t.sources.snapshot.Info(slot); info != nil {
		node = info.Node()
	}
	t.move(t.hard, slot, node, node != nil && !t.lacksKey(t.hard, slot))
	lacks := node != nil && t.allKeys && t.lacksKey(t.soft, slot)
	t.move(t.soft, slot, node, node != nil && !lacks)
	t.setLacks(slot, lacks)
	for i := range t.counters {
		c := &t.counters[i]
		c.pods = grow(c.pods, t.sources.snapshot.Slots())
		c.pods[slot] = c.fresh
	}
}

// count counts the pods on a node.
func (t *spread) count(slot cache.Slot) {
	for i := range t.counters {
		t.counters[i].fresh = 0
	}
	signatures := t.sources.snapshot.Signatures()
	t.counting.look(signatures)
	for _, id := range signatures.On(slot) {
		known, meaning := t.counting.has(id)
		if !known {
			meaning = t.learn(id, signatures.Of(id))
		}
		if meaning {
			for _, i := range t.counting.effects[id] {
				t.counters[i].fresh++
			}
		}
	}
}

// learn determines which counters count the pods of a signature, and reports whether any does.
// Terminating pods do not count.
func (t *spread) learn(id cache.SignatureID, of *cache.Signature) bool {
	var counters []int
	if of.Namespace == t.pod.Namespace && !of.Terminating {
		for i := range t.counters {
			if t.counters[i].matches(of.Labels) {
				counters = append(counters, i)
			}
		}
	}
	if counters == nil {
		t.counting.rememberNothing(id)
		return false
	}
	t.counting.remember(id, counters)
	return true
}

// lacksKey reports whether a node lacks the topology key of any of the constraints.
func (t *spread) lacksKey(tallies []tally, slot cache.Slot) bool {
	for i := range tallies {
		if tallies[i].now(slot) == unlabelled {
			return true
		}
	}
	return false
}

func (t *spread) setLacks(slot cache.Slot, lacks bool) {
	t.lacks = grow(t.lacks, t.sources.snapshot.Slots())
	if t.lacks[slot] {
		t.lacking--
	}
	if lacks {
		t.lacking++
	}
	t.lacks[slot] = lacks
}

// move recounts a node, as it is now, for the constraints of one kind. The inclusion policies may
// still exclude an eligible node.
func (t *spread) move(tallies []tally, slot cache.Slot, node *corev1.Node, eligible bool) {
	var verdicts inclusion
	for i := range tallies {
		y, c := &tallies[i], &t.counters[tallies[i].counter]
		y.grow(t.sources.snapshot.Slots())
		y.move(slot, eligible && verdicts.includes(t, y, node), c.at(slot), c.fresh)
	}
}

// inclusion caches the results of the node inclusion policies for one node.
type inclusion struct {
	asked, matches     bool // the pod's node selector and affinity
	inspected, tainted bool // with taints that the pod does not tolerate
}

func (v *inclusion) includes(t *spread, y *tally, node *corev1.Node) bool {
	if y.honorAffinity {
		if !v.asked {
			// Like upstream, ignore the error of a selector that does not parse.
			v.matches, _ = t.required.Match(node)
			v.asked = true
		}
		if !v.matches {
			return false
		}
	}
	if y.honorTaints {
		if !v.inspected {
			_, v.tainted = v1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, t.pod.Spec.Tolerations,
				helper.DoNotScheduleTaintsFilterFunc(), t.sources.features.EnableTaintTolerationComparisonOperators)
			v.inspected = true
		}
		return !v.tainted
	}
	return true
}

// Bytes implements Tracker.
func (t *spread) Bytes() int {
	bytes := objectBytes + cap(t.lacks) + 8*cap(t.totals) + t.counting.bytes(effectBytes)
	for i := range t.counters {
		bytes += 4 * cap(t.counters[i].pods)
	}
	for y := range t.tallies {
		bytes += 4*(cap(y.at)+cap(y.pods)+cap(y.nodes)+cap(y.found)) + cap(y.counts) + 8*(cap(y.seen)+cap(y.terms))
	}
	return bytes
}
