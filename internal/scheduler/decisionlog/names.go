// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import "strings"

// handle stands for a name. none stands for "".
type handle uint32

const none handle = 0

// names keeps one copy of each name that decisions in the log have, as long as there are such
// decisions.
type names struct {
	handles map[string]handle
	// held has the name of handle h at h-1. free are the handles without a name.
	held []held
	free []handle
	// bytes is the length of all names.
	bytes int
}

type held struct {
	name string
	// users is the number of holders.
	users int
}

// hold returns the handle of a name. The holder must release it.
func (n *names) hold(name string) handle {
	if name == "" {
		return none
	}
	if h, ok := n.handles[name]; ok {
		n.held[h-1].users++
		return h
	}
	return n.add(strings.Clone(name)) // the name may be a part of something large
}

// holdBytes is hold for a name that is not empty, and not kept.
func (n *names) holdBytes(name []byte) handle {
	if h, ok := n.handles[string(name)]; ok {
		n.held[h-1].users++
		return h
	}
	return n.add(string(name))
}

// holdString is hold for a name that is no part of another string: it is not copied.
func (n *names) holdString(name string) handle {
	if _, ok := n.handles[name]; ok || name == "" {
		return n.hold(name)
	}
	return n.add(name)
}

// add adds a name with one holder.
func (n *names) add(name string) handle {
	var h handle
	if last := len(n.free) - 1; last >= 0 {
		h, n.free = n.free[last], n.free[:last]
	} else {
		n.held = append(n.held, held{})
		h = handle(len(n.held))
	}
	n.held[h-1] = held{name: name, users: 1}
	n.bytes += len(name)
	if n.handles == nil {
		n.handles = map[string]handle{}
	}
	n.handles[name] = h
	return h
}

// release is the reverse of hold.
func (n *names) release(h handle) {
	if h == none {
		return
	}
	x := &n.held[h-1]
	if x.users--; x.users == 0 {
		delete(n.handles, x.name)
		n.bytes -= len(x.name)
		*x = held{}
		n.free = append(n.free, h)
	}
}

func (n *names) get(h handle) string {
	if h == none {
		return ""
	}
	return n.held[h-1].name
}
