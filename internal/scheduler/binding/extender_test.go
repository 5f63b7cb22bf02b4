// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// extenderBinder is an extender with only the methods that binding uses. The others are nil and
// panic.
type extenderBinder struct {
	fwk.Extender
	f                              *fixture
	name                           string
	binds, uninterested, ignorable bool
	err                            error
}

func (b *extenderBinder) Name() string                    { return b.name }
func (b *extenderBinder) IsBinder() bool                  { return b.binds }
func (b *extenderBinder) IsInterested(p *corev1.Pod) bool { return !b.uninterested && p.Name == "pod" }
func (b *extenderBinder) IsIgnorable() bool               { return b.ignorable }

func (b *extenderBinder) Bind(binding *corev1.Binding) error {
	b.f.note("%s binds %s/%s of %s to %s %s", b.name, binding.Namespace, binding.Name, binding.UID, binding.Target.Kind,
		binding.Target.Name)
	return b.err
}

func TestAPodThatAnExtenderBinds(t *testing.T) {
	const bound = "the extender binds default/pod of pod to Node n1, assumed"
	run := func(t *testing.T, extenders ...*extenderBinder) *fixture {
		t.Helper()
		f := newFixture(t)
		f.first.flight, f.second.flight = nothingToDo, nothingToDo
		f.cycle.Extenders = func(ctx context.Context) []fwk.Extender {
			if ctx.Err() != nil {
				t.Error("the extenders are bound to a context that has ended")
			}
			var all []fwk.Extender
			for _, e := range extenders {
				e.f = f
				all = append(all, e)
			}
			return all
		}
		f.Run(f.ctx, f.cycle)
		return f
	}

	t.Run("is not bound by a plugin", func(t *testing.T) {
		f := run(t, &extenderBinder{name: "no binder"},
			&extenderBinder{name: "uninterested", binds: true, uninterested: true},
			&extenderBinder{name: "the extender", binds: true}, &extenderBinder{name: "too late", binds: true})
		f.expectLog(bound, "first has heard, assumed", "second has heard, assumed")
		f.expectEvent("Normal Scheduled Successfully assigned default/pod to n1")
	})
	t.Run("that fails is undone", func(t *testing.T) {
		f := run(t, &extenderBinder{name: "the extender", binds: true, err: errors.New("out of ink")})
		f.expectLog(bound, "second unreserves, assumed", "first unreserves, assumed", "failed: out of ink")
	})
	t.Run("that fails and is ignorable is bound by a plugin", func(t *testing.T) {
		f := run(t, &extenderBinder{name: "the extender", binds: true, ignorable: true, err: errors.New("out of ink")})
		f.expectLog(bound, "first binds, assumed", "first has heard, assumed", "second has heard, assumed")
	})
	t.Run("that fails although it bound the pod leaves it bound", func(t *testing.T) {
		f := newFixture(t)
		f.first.flight, f.second.flight = nothingToDo, nothingToDo
		f.live = f.cycle.Pod.Pod
		f.cycle.Extenders = func(context.Context) []fwk.Extender {
			return []fwk.Extender{&extenderBinder{f: f, name: "the extender", binds: true, err: errors.New("too slow")}}
		}
		f.Run(f.ctx, f.cycle)
		f.expectLog(bound, "first has heard, assumed", "second has heard, assumed")
	})
	t.Run("that is not interested is bound by a plugin", func(t *testing.T) {
		f := run(t, &extenderBinder{name: "uninterested", binds: true, uninterested: true})
		f.expectLog("first binds, assumed", "first has heard, assumed", "second has heard, assumed")
	})
}
