// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"fmt"
	"testing"
)

func TestAMemoEvictsTheValuesThatHaveNotBeenReadForLongest(t *testing.T) {
	m := newMemo[int](limits{10, 1 << 20})
	key := func(i int) []byte { return fmt.Append(nil, i) }
	for i := range 1000 {
		m.put(key(i), i)
		if v, ok := m.get(key(0)); !ok || v != 0 {
			t.Fatalf("after %d puts: a value that is read all the time is gone", i)
		}
		if n := len(m.young) + len(m.old); n > 20 {
			t.Fatalf("%d values are kept, want at most 20", n)
		}
	}
	if _, ok := m.get(key(500)); ok {
		t.Error("a value that nothing has read for long is still there")
	}
	if v, ok := m.get(key(999)); !ok || v != 999 {
		t.Error("the latest value is gone")
	}
}

func TestAMemoIsBoundedInBytes(t *testing.T) {
	const maxBytes = 100_000
	m := newMemo[int](limits{1000, maxBytes})
	key := func(i int) []byte { return fmt.Appendf(nil, "%010000d", i) }
	for i := range 1000 {
		m.put(key(i), i)
		if _, ok := m.get(key(0)); !ok {
			t.Fatalf("after %d puts: a value that is read all the time is gone", i)
		}
		bytes := 0
		for _, generation := range []map[string]int{m.young, m.old} {
			for key := range generation {
				bytes += len(key)
			}
		}
		if bytes > 2*maxBytes {
			t.Fatalf("keys of %d bytes are kept, want at most %d", bytes, 2*maxBytes)
		}
	}
	huge := make([]byte, 2*maxBytes)
	m.put(huge, 1)
	if _, ok := m.get(huge); !ok {
		t.Error("a value whose key exceeds the limit alone is gone at once")
	}
	if m.put(key(1), 1); len(m.young) != 1 {
		t.Errorf("%d values are young beside a key that exceeds the limit", len(m.young)-1)
	}
}
