// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRunBindPlugins(t *testing.T) {
	skip := fwk.NewStatus(fwk.Skip)
	for _, test := range []struct {
		name  string
		given []*fwk.Status
		want  string
		calls int
	}{
		{"without plugins the pod is not bound", nil, "Skip", 0},
		{"the first that does not skip binds", []*fwk.Status{skip, nil, nil}, "Success", 2},
		{"all skip", []*fwk.Status{skip, skip}, "Skip", 2},
		{"a rejection ends it", []*fwk.Status{unschedulable("no"), nil}, "Unschedulable[a]: no", 1},
		{"an error ends it", []*fwk.Status{skip, fwk.AsStatus(errors.New("broken")), nil},
			`Error: running Bind plugin "b": broken`, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			plugins := &Plugins{}
			for i, s := range test.given {
				plugins.Bind = append(plugins.Bind, &bind{
					named: named("abc"[i : i+1]),
					run:   func() *fwk.Status { calls++; return s },
				})
			}
			status := newTestFramework(plugins).RunBindPlugins(quiet(t), newState(), makePod("p"), "n1")
			expect(t, "status", describe(status), test.want)
			expect(t, "calls", calls, test.calls)
		})
	}
}

func TestRunPostBindPlugins(t *testing.T) {
	var calls []string
	f := newTestFramework(&Plugins{PostBind: []fwk.PostBindPlugin{
		&postBind{named: "a", run: func() { calls = append(calls, "a") }},
		&postBind{named: "b", run: func() { calls = append(calls, "b") }},
	}})
	f.RunPostBindPlugins(quiet(t), newState(), makePod("p"), "n1")
	if diff := cmp.Diff([]string{"a", "b"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
