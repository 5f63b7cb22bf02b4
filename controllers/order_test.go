// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

func TestObjectsComeInTheOrderOfPriorityThenOfTime(t *testing.T) {
	o := newOrder()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.UID]{Queue: o})
	for _, add := range []struct {
		uid      types.UID
		priority int
	}{{"a", 0}, {"b", 0}, {"c", 1}, {"d", 2}, {"e", 2}, {"b", 0}, {"a", 3}, {"d", 1}} {
		o.prefer(add.uid, add.priority)
		q.Add(add.uid)
	}
	var got []types.UID
	take := func() {
		uid, _ := q.Get()
		got = append(got, uid)
		q.Done(uid)
	}
	for q.Len() > 0 {
		take()
	}
	if diff := cmp.Diff([]types.UID{"a", "d", "e", "c", "b"}, got); diff != "" {
		t.Error(diff)
	}

	got = nil
	q.Add("b")
	q.Add("a") // its priority counted once
	take()
	take()
	if diff := cmp.Diff([]types.UID{"b", "a"}, got); diff != "" {
		t.Error(diff)
	}
}
