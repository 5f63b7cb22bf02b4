// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"fmt"
	"testing"
)

func TestAMemoEvictsTheValuesThatHaveNotBeenReadForLongest(t *testing.T) {
	m := newMemo[int](10)
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
