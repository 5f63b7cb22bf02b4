// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRunReservePlugins(t *testing.T) {
	for _, test := range []struct {
		name  string
		b     *fwk.Status
		want  string
		calls []string
	}{
		{"all reserve", nil, "Success", []string{"+a", "+b", "+c", "-c", "-b", "-a"}},
		{"a rejection ends it, and all plugins unreserve", unschedulable("no"), "Unschedulable[b]: no",
			[]string{"+a", "+b", "-c", "-b", "-a"}},
		{"an error ends it, and all plugins unreserve", fwk.AsStatus(errors.New("broken")),
			`Error: running Reserve plugin "b": broken`, []string{"+a", "+b", "-c", "-b", "-a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			plugin := func(name string, s *fwk.Status) *reserve {
				return &reserve{
					named: named(name),
					run:   func() *fwk.Status { calls = append(calls, "+"+name); return s },
					undo:  func() { calls = append(calls, "-"+name) },
				}
			}
			f := newTestFramework(&Plugins{Reserve: []fwk.ReservePlugin{
				plugin("a", nil), plugin("b", test.b), plugin("c", nil),
			}})
			state := newState()
			status := f.RunReservePluginsReserve(quiet(t), state, makePod("p"), "n1")
			expect(t, "status", describe(status), test.want)
			f.RunReservePluginsUnreserve(quiet(t), state, makePod("p"), "n1")
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
