// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Places of a node under a topology key. They are also indices of the data kept per domain. Domains
// with a value other than "" follow, in the order of their numbers.
const (
	unlabelled = 0 // the node lacks the label, or there is no node
	emptyValue = 1 // the label's value is ""
	firstPlace = 2
)

// places holds the place of each node under one topology key. It keeps the place at the last
// update, so that the node's contribution there can be subtracted after it has moved.
type places struct {
	key  string
	topo *cache.Topology
	at   []int32 // by slot
}

func newPlaces(snapshot *cache.Snapshot, key string) places {
	return places{key: key, topo: snapshot.Topo(key)}
}

// current reports whether the snapshot still maintains this topology. One that it dropped and built
// again numbers domains differently.
func (p *places) current(snapshot *cache.Snapshot) bool { return snapshot.Topo(p.key) == p.topo }

// now returns the current place of a slot in the snapshot.
func (p *places) now(slot cache.Slot) int32 {
	domain := p.topo.Domains()[slot]
	switch {
	case domain < 0:
		return unlabelled
	case p.topo.Value(domain) == "":
		return emptyValue
	}
	return domain + firstPlace
}

// small reports whether a place is a domain with few nodes.
func (p *places) small(place int32) bool {
	return place >= firstPlace && !p.topo.Large(place-firstPlace)
}

// bound is greater than every place.
func (p *places) bound() int { return p.topo.Bound() + firstPlace }

// grow extends a slice to a length of at least n, with spare capacity.
func grow[T any](s []T, n int) []T {
	if len(s) >= n {
		return s
	}
	return slices.Grow(s, n-len(s))[:n]
}

// least is the smallest number of pods in any domain that counts. It is updated incrementally where
// possible, and recomputed on demand once no domain has that number any more.
type least struct {
	known   bool
	pods    int32 // math.MaxInt32 if no domain counts
	domains int   // that have this number
}

// changed records that the number of pods in a domain changed from before to after; -1 stands for a
// domain that does not count.
func (l *least) changed(before, after int32) {
	if !l.known || before == after {
		return
	}
	if before == l.pods {
		l.domains--
	}
	switch {
	case after < 0 || after > l.pods:
	case after < l.pods:
		l.pods, l.domains = after, 1
	default:
		l.domains++
	}
	l.known = l.domains > 0
}

// of returns the minimum over the domains that have nodes.
func (l *least) of(pods, nodes []int32) int32 {
	if l.known {
		return l.pods
	}
	*l = least{known: true, pods: math.MaxInt32}
	for i, n := range pods {
		switch {
		case nodes[i] == 0 || n > l.pods:
		case n < l.pods:
			l.pods, l.domains = n, 1
		default:
			l.domains++
		}
	}
	return l.pods
}

// objectBytes estimates the memory of a tracker besides its arrays and what it keeps of its class.
const objectBytes = 1024
