// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// affinity is the tracker of InterPodAffinity (pkg/scheduler/framework/plugins/interpodaffinity of
// kube-scheduler 1.36).
type affinity struct {
	sources *Sources
	*scope
	// pod is like all pods of the class, with the namespaces that its terms select among those that
	// they name.
	pod *schedframework.PodInfo
	// hardWeight is what a required affinity term of another pod adds to the score.
	hardWeight int32
	// scores is false if the plugin does not score the class.
	scores bool
	// all is true if the class has terms of its own, for which all pods have to be looked at.
	all bool
	// byBinding is true if a term of the class's own goes by labels that pods only get when they
	// are bound.
	byBinding bool
	// first is true if the pod matches its own required affinity terms, so that it may be the first
	// of its series.
	first bool

	// axes by topology key, those of the class's own terms first.
	axes []*axis
	// required and anti are the axes of the required terms, in their order, each once.
	required, anti []*axis
	// matches is the number of nodes with pods that match all required affinity terms and a label
	// of one of their keys.
	matches int
	normals normals
	// effects are what the pods of each signature add.
	effects memo[[]effect]
	// regrouped counts how often groups were to be made anew.
	regrouped uint64
}

// axis is one topology key, with the sums over its domains.
type axis struct {
	places
	// affine counts pods that match all required affinity terms, hostile pods that match a required
	// anti-affinity term, guarded required anti-affinity terms of other pods that match the
	// class's.
	affine, hostile, guarded sum[int32]
	// wanted adds up the weights of preferred terms, of the class's pods and of others, and the
	// like.
	wanted sum[int64]

	// found is what the node that is being updated adds, learnt what a pod does that is being
	// looked at.
	found, learnt amounts
}

// amounts is what some pods add to the sums of an axis.
type amounts struct {
	affine, hostile, guarded int32
	wanted                   int64
}

// effect is what a pod adds to one axis.
type effect struct {
	axis *axis
	amounts
}

// Affinity returns the tracker of InterPodAffinity with these arguments for the pods of the class
// that pod is of. The pod is copied. With an error they are for the plugin itself, which in most
// cases refuses them.
func (s *Sources) Affinity(args *schedconfig.InterPodAffinityArgs, pod *corev1.Pod) (Tracker, error) {
	// Terms are parsed anew rather than taken from a PodInfo that others share, as they are written
	// to.
	info, err := schedframework.NewPodInfo(pod.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("parsing pod: %w", err)
	}
	scope, err := s.newScope(info)
	if err != nil {
		return nil, err
	}
	preferring := len(info.PreferredAffinityTerms)+len(info.PreferredAntiAffinityTerms) > 0
	t := &affinity{
		sources: s, scope: scope, pod: info, hardWeight: args.HardPodAffinityWeight,
		scores: preferring || !args.IgnorePreferredTermsOfExistingPods,
		all:    preferring || len(info.RequiredAffinityTerms)+len(info.RequiredAntiAffinityTerms) > 0,
		first:  matchesAll(info.RequiredAffinityTerms, info.Pod),
	}
	for term := range ownTerms(info) {
		t.byBinding = t.byBinding || byBinding(term.Selector)
	}
	t.build()
	if t.renumbered() {
		return nil, errTopologies
	}
	return t, nil
}

// build finds out what the pods of each signature add, and looks at the nodes whose pods add
// something.
func (t *affinity) build() {
	t.required = t.axesOf(t.pod.RequiredAffinityTerms)
	t.anti = t.axesOf(t.pod.RequiredAntiAffinityTerms)
	snapshot := t.sources.snapshot
	signatures := snapshot.Signatures()
	t.effects.look(signatures)
	if t.all {
		for id := range signatures.Bound() {
			t.learn(id, signatures.Of(id))
		}
	} else {
		for _, id := range signatures.WithTerms() {
			t.learn(id, signatures.Of(id))
		}
	}
	if len(t.effects.effects) == 0 {
		return
	}
	for slot := range snapshot.Slots() {
		if slot := cache.Slot(slot); slices.ContainsFunc(signatures.On(slot), t.effects.means) {
			t.Update(slot)
		}
	}
}

func (t *affinity) axesOf(terms []fwk.AffinityTerm) []*axis {
	var axes []*axis
	seen := make(map[*axis]bool)
	for i := range terms {
		if x := t.axis(terms[i].TopologyKey); !seen[x] {
			seen[x] = true
			axes = append(axes, x)
		}
	}
	return axes
}

// axis returns that of a topology key, which may be new.
func (t *affinity) axis(key string) *axis {
	for _, x := range t.axes {
		if x.key == key {
			return x
		}
	}
	x := &axis{places: newPlaces(t.sources.snapshot, key)}
	x.look(t.sources.snapshot.Slots())
	t.axes = append(t.axes, x)
	return x
}

// Stale implements Tracker.
func (t *affinity) Stale() bool {
	renumbered := t.renumbered()
	return renumbered || t.changed()
}

// renumbered reports whether a topology was dropped and made anew. All are asked for, which keeps
// them.
func (t *affinity) renumbered() bool {
	renumbered := false
	for _, x := range t.axes {
		renumbered = !x.current(t.sources.snapshot) || renumbered
	}
	return renumbered
}

// Update implements Tracker.
func (t *affinity) Update(slot cache.Slot) {
	t.read(slot)
	before, after := false, false
	for _, x := range t.required {
		before = before || x.affine.at(slot) != 0
	}
	for _, x := range t.axes {
		x.move(slot, t.sources.snapshot.Slots())
	}
	for _, x := range t.required {
		after = after || x.affine.at(slot) != 0
	}
	switch {
	case after && !before:
		t.matches++
	case before && !after:
		t.matches--
	}
}

// effectBytes is about what it takes to remember a signature that adds something.
const effectBytes = 128

// Bytes implements Tracker.
func (t *affinity) Bytes() int {
	bytes := objectBytes + t.effects.bytes(effectBytes)
	for _, x := range t.axes {
		bytes += 4*cap(x.places.at) + x.affine.bytes(4) + x.hostile.bytes(4) + x.guarded.bytes(4) + x.wanted.bytes(8)
	}
	return bytes
}
