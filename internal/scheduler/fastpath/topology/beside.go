// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"

	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// This file decides whether a pod fits a node beside the pods that are nominated to it. As in
// kube-scheduler, a nominated pod counts only while its own node is being filtered, so it changes
// the answer for no other node.

// Beside is what the pods that are nominated to a node mean to the pods of a class. It remains
// valid as long as the Tracker is not stale, and may be used for any node.
type Beside struct {
	// keys are the topology keys of the required anti-affinity terms by which the pods keep those
	// of the class away, or the other way round.
	keys []string
	// counted is, for each hard spread constraint, the number of pods that its selector matches. It
	// is nil if there are none.
	counted []int32
	// followsOthers is true if KeepsBeside depends on the pods of other nodes.
	followsOthers bool
}

// FollowsOthers reports whether KeepsBeside depends on the pods of other nodes.
func (b *Beside) FollowsOthers() bool { return b.followsOthers }

// Beside implements Tracker.
func (a *affinity) Beside(pods []fwk.PodInfo) (b Beside) {
	for _, other := range pods {
		own, theirs := a.pod.RequiredAntiAffinityTerms, other.GetRequiredAntiAffinityTerms()
		for i := range own {
			if own[i].Matches(other.GetPod(), nil) {
				b.keys = append(b.keys, own[i].TopologyKey)
			}
		}
		for i := range theirs {
			if theirs[i].Matches(a.pod.Pod, a.labels) {
				b.keys = append(b.keys, theirs[i].TopologyKey)
			}
		}
	}
	b.followsOthers = len(b.keys) > 0 && !a.requires()
	return b
}

// requires reports whether the class has required terms of its own.
func (a *affinity) requires() bool { return len(a.required)+len(a.anti) > 0 }

// KeepsBeside implements Tracker. The pods are in every domain of the node. That they match
// required affinity terms does not matter: Keep has found others that do, or the node may have the
// first. The plugin ignores them for pods that it skips: those without required terms that the
// terms of no running pod concern.
func (a *affinity) KeepsBeside(slot cache.Slot, b *Beside) bool {
	if len(b.keys) == 0 || !a.requires() && !a.guards() {
		return true
	}
	nodeLabels := a.sources.snapshot.Info(slot).Node().Labels
	for _, key := range b.keys {
		if _, ok := nodeLabels[key]; ok {
			return false
		}
	}
	return true
}

// guards reports whether a required anti-affinity term of a pod on a node concerns the class's
// pods.
func (a *affinity) guards() bool {
	for _, x := range a.axes {
		if x.guarded.contributing > 0 {
			return true
		}
	}
	return false
}

// Beside implements Tracker. The plugin counts pods of its own namespace, even if they terminate or
// the selector is empty (updateWithPod).
func (s *spread) Beside(pods []fwk.PodInfo) (b Beside) {
	for _, other := range pods {
		pod := other.GetPod()
		if pod.Namespace != s.pod.Namespace {
			continue
		}
		for i := range s.hard {
			if !s.counters[s.hard[i].counter].selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if b.counted == nil {
				b.counted, b.followsOthers = make([]int32, len(s.hard)), true
			}
			b.counted[i]++
		}
	}
	return b
}

// KeepsBeside implements Tracker.
func (s *spread) KeepsBeside(slot cache.Slot, b *Beside) bool {
	for i, more := range b.counted {
		if y := &s.hard[i]; y.counts[slot] && !y.keepsBeside(y.at[slot], more) {
			return false
		}
	}
	return true
}

// keepsBeside reports whether the constraint allows the pods in a place in which more pods count.
func (t *tally) keepsBeside(place, more int32) bool {
	lowest := 0
	if t.domains >= int(t.minDomains) {
		lowest = int(t.leastBeside(place, more))
	}
	return int(t.pods[place]+more)+t.self-lowest <= int(t.maxSkew)
}

// leastBeside returns the lowest number of pods in a domain if more pods count in a place.
func (t *tally) leastBeside(place, more int32) int32 {
	lowest := t.least.of(t.pods, t.nodes)
	if t.pods[place] != lowest {
		return lowest
	}
	others := int32(math.MaxInt32)
	for i, n := range t.pods {
		if int32(i) == place || t.nodes[i] == 0 {
			continue
		}
		if n == lowest {
			return lowest
		}
		others = min(others, n)
	}
	return min(others, t.pods[place]+more)
}
