// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
)

// lasting returns a PreBind that takes this long and returns a status.
func lasting(d time.Duration, status *fwk.Status) func(context.Context) *fwk.Status {
	return func(context.Context) *fwk.Status {
		time.Sleep(d) //nolint:forbidigo // of the bubble
		return status
	}
}

// announceSlowly is an announcement that takes a minute.
func (f *fixture) announceSlowly() error {
	time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
	f.note("announced")
	return nil
}

func TestTheNodeIsAnnounced(t *testing.T) {
	test := func(name string, setUp func(*fixture), want ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.second.flight = nothingToDo
				setUp(f)
				f.Run(f.ctx, f.cycle)
				f.expectLog(want...)
			})
		})
	}
	bound := []string{"first binds, assumed", "first has heard, assumed", "second has heard, assumed"}
	after := func(more ...string) []string { return append(more, bound...) }

	test("not if no plugin has work before Bind", func(f *fixture) {
		f.first.flight = nothingToDo
	}, bound...)
	test("not if PreBind ends soon", func(f *fixture) {
		f.first.preBind = lasting(announceAfter-1, nil)
	}, after("first prepares, assumed")...)
	test("while PreBind lasts", func(f *fixture) {
		f.first.preBind = lasting(announceAfter+1, nil)
	}, after("first prepares, assumed", "announced n1, assumed")...)
	test("while the pod waits on Permit", func(f *fixture) {
		f.first.flight = nothingToDo
		f.cycle.Framework.AddWaitingPod(f.cycle.Pod.Pod, map[string]time.Duration{"gate": 2 * announceAfter})
		f.announce = func() error {
			f.note("announced")
			f.waiting.Get("pod").Allow("gate")
			return nil
		}
	}, after("announced, in flight, assumed")...)
	test("before Bind, if it has begun", func(f *fixture) {
		f.first.preBind = lasting(announceAfter+1, nil)
		f.announce = f.announceSlowly
	}, after("first prepares, assumed", "announced, assumed")...)
	test("before the pod is unreserved, if it has begun", func(f *fixture) {
		f.first.preBind = lasting(announceAfter+1, broken)
		f.announce = f.announceSlowly
	}, "first prepares, assumed", "announced, assumed", "second unreserves, assumed", "first unreserves, assumed",
		`failed: running PreBind plugin "first": out of order`)
	test("or the pod is bound nevertheless", func(f *fixture) {
		f.first.preBind = lasting(announceAfter+1, nil)
		f.announce = func() error { return errors.New("no route to host") }
	}, after("first prepares, assumed")...)
	test("not if a plugin cannot tell whether it has work", func(f *fixture) {
		f.first.flight = broken
	}, "second unreserves, in flight, assumed", "first unreserves, in flight, assumed",
		`failed: running PreBindPreFlight "first": out of order, in flight`)
}
