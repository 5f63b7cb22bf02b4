// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

// memo remembers values by what they are encoded as. It holds at most twice its limit, and forgets
// those that have not been asked for longest: when the young ones reach the limit, they become the
// old ones, and the old ones go.
//
// It has no lock; its owner has.
type memo[T any] struct {
	young, old map[string]T
	limit      int
}

func newMemo[T any](limit int) memo[T] { return memo[T]{young: map[string]T{}, limit: limit} }

// get returns the value of a key.
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

// put remembers a value. The key is copied.
func (m *memo[T]) put(key []byte, v T) {
	if len(m.young) >= m.limit {
		m.young, m.old = map[string]T{}, m.young
	}
	m.young[string(key)] = v
}
