// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

// memo remembers values by their encoding. It holds at most twice its limits and evicts the values
// that have not been looked up for longest: when the young generation reaches a limit, it becomes
// the old one, and the previous old one is dropped.
//
// A memo is not safe for concurrent use: its owner locks.
type memo[T any] struct {
	most       limits
	young, old map[string]T
	// bytes is the length of the keys of the young generation.
	bytes int
}

// limits bound one generation of a memo: the number of values, and the length of their keys.
// A value takes about as much memory as its key.
type limits struct{ values, bytes int }

func newMemo[T any](most limits) memo[T] { return memo[T]{young: map[string]T{}, most: most} }

// get returns the value of a key. A value found in the old generation moves to the young one.
func (m *memo[T]) get(key []byte) (T, bool) {
	if v, ok := m.young[string(key)]; ok {
		return v, true
	}
	v, ok := m.old[string(key)]
	if ok {
		m.put(key, v)
	}
	return v, ok
}

// put remembers a value. It copies the key.
func (m *memo[T]) put(key []byte, v T) {
	if len(m.young) >= m.most.values || m.bytes+len(key) > m.most.bytes {
		m.young, m.old, m.bytes = map[string]T{}, m.young, 0
	}
	m.young[string(key)] = v
	m.bytes += len(key)
}

// getOrPut returns the value of a key; if there is none, it remembers v and returns it.
func (m *memo[T]) getOrPut(key []byte, v T) T {
	if known, ok := m.get(key); ok {
		return known
	}
	m.put(key, v)
	return v
}
