// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Places of a node under a topology key, which are also indices of what is kept per domain. Domains
// with another value than "" follow, in the order of their numbers.
const (
	unlabelled = 0 // the node lacks the label, or there is no node
	emptyValue = 1 // the label's value is ""
	firstPlace = 2
)

// places are where the nodes are under one topology key. It remembers where a slot was when it was
// last looked at, so that what the node added there can be taken back after it has moved.
type places struct {
	key  string
	topo *cache.Topology
	at   []int32 // by slot
	// single is true if no domain had more than one node when groups were last asked for. What
	// there is in a domain is then what its node adds, and says more about the node than its place
	// does.
	single bool
}

// regroup looks whether domains have more than one node, and says if that is news.
func (p *places) regroup() bool {
	was := p.single
	p.single = p.topo.Unique()
	return p.single != was
}

func newPlaces(snapshot *cache.Snapshot, key string) places {
	return places{key: key, topo: snapshot.Topo(key)}
}

// current reports whether the topology is the one that the snapshot keeps up. One that it dropped
// and made again numbers domains otherwise.
func (p *places) current(snapshot *cache.Snapshot) bool { return snapshot.Topo(p.key) == p.topo }

// now is where a slot is in the snapshot.
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

// bound is greater than every place.
func (p *places) bound() int { return p.topo.Bound() + firstPlace }

// grow makes a slice at least n long, with room for more.
func grow[T any](s []T, n int) []T {
	if len(s) >= n {
		return s
	}
	return slices.Grow(s, n-len(s))[:n]
}

// least is the smallest number of pods in any domain that counts. It is kept up while it can be,
// and worked out anew when asked for after all domains that had it have changed.
type least struct {
	known   bool
	pods    int32 // math.MaxInt32 if no domain counts
	domains int   // that have so few
}

// changed notes that a domain that had before pods has after pods; -1 stands for a domain that does
// not count.
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

// objectBytes is about what a tracker holds besides its arrays: the pod of its class above all.
const objectBytes = 4096
