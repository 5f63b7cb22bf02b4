// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "testing"

func TestSourcesAreCountedUntilTheyAreRemoved(t *testing.T) {
	var s sources
	if got := s.sum(); got != 0 {
		t.Errorf("nothing counts %v", got)
	}
	pods := 3
	first, second := s.add(func() int { return pods }), s.add(func() int { return 4 })
	if got := s.sum(); got != 7 {
		t.Errorf("3 and 4 count %v", got)
	}
	pods = 5
	second()
	second()
	if got := s.sum(); got != 5 {
		t.Errorf("5, and one that is removed, count %v", got)
	}
	first()
	if got := s.sum(); got != 0 {
		t.Errorf("when all are removed they count %v", got)
	}
}
