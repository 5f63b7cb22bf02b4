// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

// memo remembers values by their encoding. It holds at most twice its limit and evicts the values
// that have not been looked up for longest: when the young generation reaches the limit, it becomes
// the old one, and the previous old one is dropped.
//
// A memo is not safe for concurrent use: its owner locks.
type memo[T any] struct {
	young, old map[string]T
	limit      int
}

func newMemo[T any](limit int) memo[T] { return memo[T]{young: map[string]T{}, limit: limit} }

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
	if len(m.young) >= m.limit {
		m.young, m.old = map[string]T{}, m.young
	}
	m.young[string(key)] = v
}

// getOrPut returns the value of a key; if there is none, it remembers v and returns it.
func (m *memo[T]) getOrPut(key []byte, v T) T {
	if known, ok := m.get(key); ok {
		return known
	}
	m.put(key, v)
	return v
}
