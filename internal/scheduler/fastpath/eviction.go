// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"container/list"
	"hash/maphash"
)

// residents holds the classes of a classTable in the order in which they are evicted: first those
// that were used once, then the least recently used one. So pods that are all different evict
// nothing else.
//
// If more classes are used in turn than fit, the least recently used class is the one that is
// needed next, and none would ever be found. A class that comes back after it was evicted therefore
// counts as used once, and is evicted soon, so that the others stay. Only one in admitEvery stays
// in the place of another, because the others may not be used any more.
type residents struct {
	// once holds the classes that were used once, often the others, the most recently used first.
	once, often *list.List
	// cameBack is the number of classes that came back.
	cameBack int
}

const admitEvery = 8

// residence is the place of a class in residents.
type residence struct {
	in   *list.List
	used *list.Element
}

func newResidents() residents { return residents{once: list.New(), often: list.New()} }

func (r *residents) len() int { return r.once.Len() + r.often.Len() }

// add adds a class, which may have been evicted before. It reports whether the class is to stay.
func (r *residents) add(c *class, cameBack bool) (stays bool) {
	if cameBack {
		r.cameBack++
		stays = r.cameBack%admitEvery == 0
	}
	c.in = r.once
	if stays {
		c.in = r.often
	}
	c.used = c.in.PushFront(c)
	return stays
}

// use records another use of a class.
func (r *residents) use(c *class) {
	if c.in == r.often {
		r.often.MoveToFront(c.used)
		return
	}
	r.remove(c)
	c.in, c.used = r.often, r.often.PushFront(c)
}

func (r *residents) remove(c *class) { c.in.Remove(c.used) }

// victim returns the class to evict to make room for another one, or nil if there is no other.
func (r *residents) victim(c *class) *class {
	for _, from := range [...]*list.List{r.once, r.often} {
		if last := from.Back(); last != nil && last.Value != c {
			return last.Value.(*class)
		}
	}
	return nil
}

// hash identifies the class among all of a classTable, except for rare collisions.
func (c *class) hash() uint64 { return maphash.String(c.local.setup.seed, c.key) }

// maxEvicted is the number of evicted classes that are remembered at least.
const maxEvicted = 8 << 10

// evicted remembers the classes that were evicted last, by their hashes. The zero value is empty.
type evicted struct {
	young, old map[uint64]struct{}
}

func (e *evicted) add(hash uint64) {
	if e.young == nil || len(e.young) >= maxEvicted {
		e.young, e.old = map[uint64]struct{}{}, e.young
	}
	e.young[hash] = struct{}{}
}

// remove forgets a class, and reports whether it was remembered.
func (e *evicted) remove(hash uint64) bool {
	_, young := e.young[hash]
	_, old := e.old[hash]
	delete(e.young, hash)
	delete(e.old, hash)
	return young || old
}
