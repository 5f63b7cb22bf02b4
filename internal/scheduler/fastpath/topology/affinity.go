// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/memsize"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// affinity is the tracker of InterPodAffinity (pkg/scheduler/framework/plugins/interpodaffinity of
// kube-scheduler 1.37).
type affinity struct {
	sources *Sources
	*scope
	// pod stands for all pods of the class. Its terms name their own namespaces and those that
	// their namespace selectors match. podBytes is its size.
	pod      *schedframework.PodInfo
	podBytes int
	// hardWeight is added to the score for a required affinity term of another pod.
	hardWeight int32
	// scores is false if the plugin does not score the class.
	scores bool
	// all is true if the class has terms of its own: then every pod must be matched against them.
	all bool
	// byBinding is true if one of the class's own terms selects by labels that pods get only when
	// they are bound.
	byBinding bool
	// first is true if the pod matches its own required affinity terms, so that it may be the first
	// of its series.
	first bool

	// axes holds one axis for each topology key, the keys of the class's own terms first. A term of
	// which no node has the key has no effect, and may have no axis: ignored is then true, and
	// labelsAt is the epoch of the nodes' labels at which that was so.
	axes     []*axis
	ignored  bool
	labelsAt uint64
	// required and anti are the axes of the required terms, in the order of the terms, each axis
	// once.
	required, anti []*axis
	// matches is the number of nodes that have a label for one of the keys of the required affinity
	// terms and run pods that match all these terms.
	matches int
	normals normals
	// effects holds the contribution of the pods of each signature.
	effects memo[[]effect]
	moved
}

// axis is one topology key with the sums over its domains.
type axis struct {
	places
	// affine counts pods that match all required affinity terms. hostile counts pods that match a
	// required anti-affinity term. guarded counts the required anti-affinity terms of other pods
	// that match the class's pods.
	affine, hostile, guarded sum[int32]
	// wanted sums the weights of preferred terms, both of the class's pods and of others, and
	// hardWeight for the required affinity terms of others.
	wanted sum[int64]

	// found is the contribution of the node that is being updated, and learnt the contribution of
	// the pod that is being evaluated.
	found, learnt amounts
}

// amounts is a contribution of pods to the sums of an axis.
type amounts struct {
	affine, hostile, guarded int32
	wanted                   int64
}

// effect is the contribution of a pod to one axis.
type effect struct {
	axis *axis
	amounts
}

// Affinity returns the tracker of InterPodAffinity with these arguments for pods of the class of
// pod. It keeps the pod, which must not change any more. If it returns an error, the plugin itself
// must handle the pods; in most cases it refuses them.
func (s *Sources) Affinity(args *schedconfig.InterPodAffinityArgs, pod *corev1.Pod) (Tracker, error) {
	// Parse the terms instead of using a shared PodInfo: newScope writes to them.
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return nil, fmt.Errorf("parsing pod: %w", err)
	}
	scope, err := s.newScope(info)
	if err != nil {
		return nil, err
	}
	preferring := len(info.PreferredAffinityTerms)+len(info.PreferredAntiAffinityTerms) > 0
	t := &affinity{
		sources: s, scope: scope, pod: info, podBytes: memsize.Of(info), hardWeight: args.HardPodAffinityWeight,
		scores: preferring || !args.IgnorePreferredTermsOfExistingPods,
		all:    preferring || len(info.RequiredAffinityTerms)+len(info.RequiredAntiAffinityTerms) > 0,
		first:  matchesAll(info.RequiredAffinityTerms, info.Pod),
	}
	for term := range ownTerms(info) {
		t.byBinding = t.byBinding || byBinding(term.Selector)
	}
	t.build()
	t.moved.on = true
	if t.tooMany() {
		return nil, ErrTopologies
	}
	return t, nil
}

// build computes the contribution of each signature, and updates the nodes whose pods contribute
// something.
func (a *affinity) build() {
	a.required = a.axesOf(a.pod.RequiredAffinityTerms)
	a.anti = a.axesOf(a.pod.RequiredAntiAffinityTerms)
	snapshot := a.sources.snapshot
	signatures := snapshot.Signatures()
	a.effects.look(signatures)
	a.labelsAt = snapshot.LabelsEpoch()
	for id := range a.candidates(signatures) {
		if known, _ := a.effects.has(id); known {
			continue
		}
		if a.learn(id, signatures.Of(id)); a.tooMany() {
			return
		}
	}
	if len(a.effects.effects) == 0 {
		return
	}
	for slot := range snapshot.Slots() {
		if slot := cache.Slot(slot); slices.ContainsFunc(signatures.On(slot), a.effects.means) {
			a.Update(slot)
		}
	}
}

// candidates yields the numbers of all signatures whose pods may contribute something, and of
// others, some of them twice: those with terms, and those of the namespaces in which the class's
// own terms select pods.
func (a *affinity) candidates(signatures *cache.Signatures) iter.Seq[cache.SignatureID] {
	lists, everywhere := [][]cache.SignatureID{signatures.WithTerms()}, false
	names := sets.New[string]()
	for term := range ownTerms(a.pod) {
		everywhere = everywhere || !labels.MatchesNothing(term.NamespaceSelector)
		names = names.Union(term.Namespaces)
	}
	for name := range names {
		lists = append(lists, signatures.InNamespace(name))
	}
	return func(yield func(cache.SignatureID) bool) {
		if everywhere {
			for id := range signatures.Bound() {
				if !yield(id) {
					return
				}
			}
			return
		}
		for _, list := range lists {
			for _, id := range list {
				if !yield(id) {
					return
				}
			}
		}
	}
}

func (a *affinity) axesOf(terms []fwk.AffinityTerm) []*axis {
	var axes []*axis
	seen := make(map[*axis]bool)
	for i := range terms {
		if x := a.axis(terms[i].TopologyKey); !seen[x] {
			seen[x] = true
			axes = append(axes, x)
		}
	}
	return axes
}

// axis returns the axis of a topology key, and adds it if it is new.
func (a *affinity) axis(key string) *axis {
	for _, x := range a.axes {
		if x.key == key {
			return x
		}
	}
	x := &axis{places: newPlaces(a.sources.snapshot, key)}
	x.look(a.sources.snapshot.Slots())
	a.axes = append(a.axes, x)
	return x
}

// The number of topology keys of a class is limited by the memory for them, so that the terms of
// some pods do not take the topologies of all others away. minAxes are always allowed.
const (
	minAxes      = 48
	maxAxesBytes = 16 << 20
	axisBytes    = 4 << 10 // besides the column
)

func (a *affinity) tooMany() bool {
	return len(a.axes) > max(minAxes, maxAxesBytes/(axisBytes+4*a.sources.snapshot.Slots()))
}

// axisOf returns the axis of the topology key of a term, or nil if the term has no effect because
// no node has the key.
func (a *affinity) axisOf(key string) *axis {
	known := slices.ContainsFunc(a.axes, func(x *axis) bool { return x.key == key })
	if !known && !a.sources.snapshot.HasLabel(key) {
		a.ignored = true
		return nil
	}
	return a.axis(key)
}

// Stale implements Tracker.
func (a *affinity) Stale() bool {
	renumbered := a.renumbered()
	keysCame := a.ignored && a.labelsAt != a.sources.snapshot.LabelsEpoch()
	return renumbered || keysCame || a.tooMany() || a.changed()
}

// renumbered reports whether a topology was dropped and built again. It requests every topology,
// which keeps the snapshot from dropping it.
func (a *affinity) renumbered() bool {
	renumbered := false
	for _, x := range a.axes {
		renumbered = !x.current(a.sources.snapshot) || renumbered
	}
	return renumbered
}

// Update implements Tracker.
func (a *affinity) Update(slot cache.Slot) {
	a.read(slot)
	before, after := false, false
	for _, x := range a.required {
		before = before || x.affine.at(slot) != 0
	}
	for _, x := range a.axes {
		x.move(slot, a.sources.snapshot.Slots(), &a.moved)
	}
	for _, x := range a.required {
		after = after || x.affine.at(slot) != 0
	}
	switch {
	case after && !before:
		a.matches++
	case before && !after:
		a.matches--
	}
}

// effectBytes estimates the memory for a signature that contributes something.
const effectBytes = 128

// Bytes implements Tracker.
func (a *affinity) Bytes() int {
	bytes := objectBytes + a.podBytes + a.effects.bytes(effectBytes) + 4*a.moved.slots.Cap()
	for _, x := range a.axes {
		bytes += 4*cap(x.places.at) + x.affine.bytes(4) + x.hostile.bytes(4) + x.guarded.bytes(4) + x.wanted.bytes(8)
	}
	return bytes
}
