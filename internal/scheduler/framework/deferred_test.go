// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// onDemand is a PostFilter plugin that runs PreFilter itself.
type onDemand struct{ postFilter }

func (o *onDemand) RunsDeferredPreFilter() {}

func TestDeferredPreFilterRunsBeforeThePluginsThatMayReadTheState(t *testing.T) {
	for _, test := range []struct {
		name     string
		deferred bool
		second   bool // a second plugin, which does not implement DeferredPreFilterPlugin
		allowed  *fwk.PreFilterResult
		status   *fwk.Status
		runs     int
		want     string
	}{
		{"not deferred", false, true, nil, nil, 0, "Unschedulable[first]: first cannot, second cannot"},
		{"no plugin reads the state", true, false, nil, nil, 0, "Unschedulable[first]: first cannot"},
		{"a plugin may read it", true, true, nil, nil, 1, "Unschedulable[first]: first cannot, second cannot"},
		{"PreFilter fails", true, true, nil, fwk.AsStatus(errors.New("broken")), 1,
			"Error: running PreFilter plugin \"p\": broken"},
		{"PreFilter refuses the pod", true, true, nil, unschedulable("never"), 1,
			"Error: PreFilter refuses a pod that it is known to accept: never"},
		{"PreFilter allows one node", true, true, &fwk.PreFilterResult{NodeNames: sets.New("n1")}, nil, 1,
			"Error: PreFilter allows only 1 nodes for a pod for which it is known to allow all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs := 0
			plugins := &Plugins{
				PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "p", run: func() (*fwk.PreFilterResult, *fwk.Status) {
					runs++
					return test.allowed, test.status
				}}},
				PostFilter: []fwk.PostFilterPlugin{&onDemand{refusing("first")}},
			}
			if test.second {
				second := refusing("second")
				plugins.PostFilter = append(plugins.PostFilter, &second)
			}
			f, state, pod := newTestFramework(plugins), newState(), makePod("pod")
			if test.deferred {
				f.DeferPreFilter(state, pod)
			}
			_, status := f.RunPostFilterPlugins(quiet(t), state, pod, schedframework.NewDefaultNodeToStatus())
			expect(t, "status", describe(status), test.want)
			expect(t, "runs of PreFilter", runs, test.runs)
		})
	}
}

func refusing(name string) postFilter {
	return postFilter{named: named(name), run: func() (*fwk.PostFilterResult, *fwk.Status) {
		return nil, unschedulable(name + " cannot")
	}}
}

func TestDeferredPreFilterRunsUntilItSucceeds(t *testing.T) {
	runs := 0
	f := newTestFramework(&Plugins{PreFilter: []fwk.PreFilterPlugin{
		&preFilter{named: "p", run: func() (*fwk.PreFilterResult, *fwk.Status) {
			if runs++; runs == 1 {
				return nil, fwk.AsStatus(errors.New("broken"))
			}
			return nil, nil
		}}}})
	ctx, state, pod := quiet(t), newState(), makePod("pod")
	f.DeferPreFilter(state, pod)
	for i, fails := range []bool{true, false, false} {
		if err := RunDeferredPreFilter(ctx, state); (err != nil) != fails {
			t.Errorf("call %d: %v", i, err)
		}
	}
	expect(t, "runs", runs, 2)

	f.DeferPreFilter(state, pod)
	f.RunPreFilterPlugins(ctx, state, pod)
	if err := RunDeferredPreFilter(ctx, state); err != nil {
		t.Error(err)
	}
	expect(t, "runs after one that was not deferred", runs, 3)
}
