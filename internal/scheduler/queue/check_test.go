// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"k8s.io/klog/v2"
)

func TestTheSelfCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(q *Queue){
		"a wrong place":         func(q *Queue) { q.active.entries[0].place = Backoff },
		"a wrong index":         func(q *Queue) { q.active.entries[0].index++ },
		"an unknown pod":        func(q *Queue) { delete(q.pods, q.active.entries[0].pod.UID) },
		"a pod in no structure": func(q *Queue) { q.active.entries = nil },
		"a kind of no pods":     func(q *Queue) { q.unschedulable.ordered = append(q.unschedulable.ordered, &kind{}) },
	} {
		f := newFixture(t)
		f.Add(klog.Logger{}, newPod("a"))
		if err := f.checkLocked(); err != nil {
			t.Fatal(err)
		}
		damage(f.Queue)
		if f.checkLocked() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
