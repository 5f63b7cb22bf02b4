// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func returning(s *fwk.Status, nodes ...string) func() (*fwk.PreFilterResult, *fwk.Status) {
	return func() (*fwk.PreFilterResult, *fwk.Status) {
		if nodes == nil {
			return nil, s
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(nodes...)}, s
	}
}

func TestRunPreFilterPlugins(t *testing.T) {
	skip := fwk.NewStatus(fwk.Skip)
	for _, test := range []struct {
		name        string
		a, b, c     func() (*fwk.PreFilterResult, *fwk.Status)
		status      string
		nodes       []string // nil: all
		restricting []string
		skipped     []string
	}{
		{
			name:   "all nodes remain if no plugin restricts them",
			status: "Success",
		}, {
			name:        "the results are intersected, and name the plugins that restrict",
			a:           returning(nil, "n1", "n2"),
			c:           returning(nil, "n2", "n3"),
			status:      "Success",
			nodes:       []string{"n2"},
			restricting: []string{"a", "c"},
		}, {
			name:    "the result of a plugin that skips is ignored",
			a:       returning(skip, "n1"),
			status:  "Success",
			skipped: []string{"a"},
		}, {
			name:        "a plugin that leaves no node ends it",
			a:           returning(nil, []string{}...),
			b:           func() (*fwk.PreFilterResult, *fwk.Status) { panic("not reached") },
			status:      "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin a",
			nodes:       []string{},
			restricting: []string{"a"},
		}, {
			name:        "plugins that together leave no node end it",
			a:           returning(nil, "n1"),
			b:           returning(nil, "n2"),
			c:           func() (*fwk.PreFilterResult, *fwk.Status) { panic("not reached") },
			status:      "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin(s) [a b] simultaneously",
			nodes:       []string{},
			restricting: []string{"a", "b"},
		}, {
			name:   "an unresolvable rejection ends it",
			a:      returning(unresolvable("no way")),
			b:      func() (*fwk.PreFilterResult, *fwk.Status) { panic("not reached") },
			status: "UnschedulableAndUnresolvable[a]: no way",
		}, {
			name:        "a resolvable rejection lets the others run",
			a:           returning(unschedulable("not now")),
			b:           returning(nil, "n1"),
			c:           returning(skip),
			status:      "Unschedulable[a]: not now",
			nodes:       []string{"n1"},
			restricting: []string{"b"},
			skipped:     []string{"c"},
		}, {
			name:   "an error ends it and names the plugin",
			a:      returning(fwk.AsStatus(errors.New("broken"))),
			b:      func() (*fwk.PreFilterResult, *fwk.Status) { panic("not reached") },
			status: `Error[a]: running PreFilter plugin "a": broken`,
		}, {
			name:   "a status without a meaning here is an error",
			b:      returning(fwk.NewStatus(fwk.Wait)),
			status: `Error[b]: running PreFilter plugin "b": it returned the status Wait, which has no meaning there`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{PreFilter: []fwk.PreFilterPlugin{
				&preFilter{named: "a", run: test.a},
				&preFilter{named: "b", run: test.b},
				&preFilter{named: "c", run: test.c},
			}})
			state := newState()
			result, status, restricting := f.RunPreFilterPlugins(quiet(t), state, makePod("p"))
			expect(t, "status", describe(status), test.status)
			expect(t, "all nodes", result.AllNodes(), test.nodes == nil)
			if test.nodes != nil {
				if diff := cmp.Diff(test.nodes, sets.List(result.NodeNames)); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(sets.New(test.restricting...), restricting); diff != "" && restricting != nil {
				t.Errorf("restricting plugins (-want +got):\n%s", diff)
			}
			if restricting == nil && status.IsSuccess() {
				t.Error("the set of restricting plugins is nil though the status is a success")
			}
			if diff := cmp.Diff(sets.New(test.skipped...), state.GetSkipFilterPlugins()); diff != "" {
				t.Errorf("skipped plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunPreFilterExtensions(t *testing.T) {
	var called []string
	recording := func(name string, s *fwk.Status) func(fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
		return func(pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
			called = append(called, name+" "+pod.GetPod().Name+" "+node.Node().Name)
			return s
		}
	}
	f := newTestFramework(&Plugins{PreFilter: []fwk.PreFilterPlugin{
		&preFilter{named: "without"},
		&preFilter{named: "skipped", add: recording("skipped", nil), remove: recording("skipped", nil)},
		&preFilter{named: "good", add: recording("good", nil), remove: recording("good", nil)},
		&preFilter{named: "bad", add: recording("bad", unschedulable("no")), remove: recording("bad", nil)},
		&preFilter{named: "last", add: recording("last", nil), remove: recording("last", nil)},
	}})
	state := newState()
	state.SetSkipFilterPlugins(sets.New("skipped"))
	other, err := schedframework.NewPodInfo(makePod("other"))
	if err != nil {
		t.Fatal(err)
	}
	node := makeNodes("n1")[0]

	status := f.RunPreFilterExtensionAddPod(quiet(t), state, makePod("p"), other, node)
	expect(t, "status of add", describe(status), `Error: running AddPod on PreFilter plugin "bad": no`)
	if diff := cmp.Diff([]string{"good other n1", "bad other n1"}, called); diff != "" {
		t.Errorf("calls of add (-want +got):\n%s", diff)
	}
	called = nil
	status = f.RunPreFilterExtensionRemovePod(quiet(t), state, makePod("p"), other, node)
	expect(t, "status of remove", describe(status), "Success")
	if diff := cmp.Diff([]string{"good other n1", "bad other n1", "last other n1"}, called); diff != "" {
		t.Errorf("calls of remove (-want +got):\n%s", diff)
	}
}
