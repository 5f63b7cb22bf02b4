// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

func TestRunFilterPlugins(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b    *fwk.Status
		skipped []string
		want    string
	}{
		{name: "a node that no plugin rejects fits", want: "Success"},
		{name: "the first rejection counts", a: unschedulable("full"), b: unresolvable("no"),
			want: "Unschedulable[a]: full"},
		{name: "unresolvable stays unresolvable", b: unresolvable("no"), want: "UnschedulableAndUnresolvable[b]: no"},
		{name: "pending is a rejection", b: fwk.NewStatus(fwk.Pending, "soon"), want: "Pending[b]: soon"},
		{name: "an error names the plugin", a: fwk.AsStatus(errors.New("broken")),
			want: `Error[a]: running "a" filter plugin: broken`},
		{
			name: "a status without a meaning here is an error", a: fwk.NewStatus(fwk.Skip),
			want: `Error[a]: running "a" filter plugin: it returned the status Skip, which has no meaning there`,
		},
		{name: "a plugin whose PreFilter skipped is left out", a: unschedulable("full"), skipped: []string{"a"},
			want: "Success"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{Filter: []fwk.FilterPlugin{
				&filter{named: "a", run: func(fwk.NodeInfo) *fwk.Status { return test.a }},
				&filter{named: "b", run: func(fwk.NodeInfo) *fwk.Status { return test.b }},
			}})
			state := newState()
			state.SetSkipFilterPlugins(sets.New(test.skipped...))
			status := f.RunFilterPlugins(quiet(t), state, makePod("p"), makeNodes("n1")[0])
			expect(t, "status", describe(status), test.want)
		})
	}
}

// The cases are from kube-scheduler 1.22's RunFilterPlugins with runAllFilters and of
// PluginToStatus.Merge.
func TestAllFiltersRunOnRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b, c *fwk.Status
		skipped []string
		want    string
		reasons int
	}{
		{name: "a node that no plugin rejects fits", want: "Success"},
		{
			name: "all reasons are reported, in the order of the plugins, the first plugin is named",
			a:    unschedulable("full"), c: fwk.NewStatus(fwk.Unschedulable, "far", "dark"),
			want: "Unschedulable[a]: full, far, dark", reasons: 3,
		},
		{name: "unresolvable outweighs, whichever plugin returns it", a: unschedulable("full"), b: unresolvable("no"),
			c: unresolvable("never"), want: "UnschedulableAndUnresolvable[b]: full, no, never"},
		{name: "unresolvable stays unresolvable", a: unresolvable("no"), b: unschedulable("full"),
			want: "UnschedulableAndUnresolvable[a]: no, full"},
		{name: "an error ends it and is reported alone", a: unschedulable("full"),
			b: fwk.AsStatus(errors.New("broken")), c: unresolvable("no"),
			want: `Error[b]: running "b" filter plugin: broken`},
		{name: "a plugin whose PreFilter skipped is left out", a: unschedulable("full"), b: unresolvable("no"),
			skipped: []string{"b"}, want: "Unschedulable[a]: full"},
	} {
		t.Run(test.name, func(t *testing.T) {
			statuses := map[named]*fwk.Status{"a": test.a, "b": test.b, "c": test.c}
			plugins := &Plugins{}
			for _, name := range []named{"a", "b", "c"} {
				plugins.Filter = append(plugins.Filter,
					&filter{named: name, run: func(fwk.NodeInfo) *fwk.Status { return statuses[name] }})
			}
			f := New(Config{ProfileName: "test", Plugins: plugins, CheckAllFilters: true})
			for range 2 { // plugins may return the same status again
				state := newState()
				state.SetSkipFilterPlugins(sets.New(test.skipped...))
				status := f.RunFilterPlugins(quiet(t), state, makePod("p"), makeNodes("n1")[0])
				expect(t, "status", describe(status), test.want)
				if test.reasons > 0 {
					expect(t, "number of reasons", len(status.Reasons()), test.reasons)
				}
			}
		})
	}
}

// nominations is a nominator that never changes.
type nominations map[string][]fwk.PodInfo

func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo { return n[node] }

// Nominations implements Nominator. Running plugins does not call it.
func (nominations) Nominations(*corev1.Pod, uint64) NominationChanges { panic("not expected") }

// nominator is a nominator for upstream's runtime.
type nominator struct {
	fwk.PodNominator
	nominations
}

func (n nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	return n.nominations.NominatedPodsForNode(node)
}

func nominated(t *testing.T, name string, priority int32) fwk.PodInfo {
	t.Helper()
	pod := makePod(name)
	pod.Spec.Priority = ptr.To(priority)
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestRunFilterPluginsWithNominatedPods(t *testing.T) {
	for _, test := range []struct {
		name      string
		nominated []fwk.PodInfo
		refuse    func(pods int) *fwk.Status
		add       *fwk.Status
		want      string
		passes    []int // pods on the node in each pass
	}{
		{name: "without nominated pods there is one pass", want: "Success", passes: []int{0}},
		{
			name:      "pods of the same or a higher priority are counted in a separate pass",
			nominated: []fwk.PodInfo{nominated(t, "equal", 5), nominated(t, "higher", 6), nominated(t, "lower", 4)},
			want:      "Success", passes: []int{2, 0},
		}, {
			name:      "the pod itself and pods of lower priority are not counted",
			nominated: []fwk.PodInfo{nominated(t, "p", 5), nominated(t, "lower", 4)},
			want:      "Success", passes: []int{0},
		}, {
			name:      "a rejection with the nominated pods is final",
			nominated: []fwk.PodInfo{nominated(t, "higher", 6)},
			refuse: func(pods int) *fwk.Status {
				if pods > 0 {
					return unschedulable("full")
				}
				return nil
			},
			want: "Unschedulable[filter]: full", passes: []int{1},
		}, {
			name:      "the node must also fit without the nominated pods",
			nominated: []fwk.PodInfo{nominated(t, "higher", 6)},
			refuse: func(pods int) *fwk.Status {
				if pods == 0 {
					return unschedulable("lonely")
				}
				return nil
			},
			want: "Unschedulable[filter]: lonely", passes: []int{1, 0},
		}, {
			name:      "an error while a nominated pod is added is an error",
			nominated: []fwk.PodInfo{nominated(t, "higher", 6)},
			add:       fwk.AsStatus(errors.New("broken")),
			want:      `Error: running AddPod on PreFilter plugin "pre": broken`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var passes []int
			added := 0
			f := New(Config{
				Plugins: &Plugins{
					PreFilter: []fwk.PreFilterPlugin{&preFilter{named: "pre",
						add: func(fwk.PodInfo, fwk.NodeInfo) *fwk.Status { added++; return test.add },
					}},
					Filter: []fwk.FilterPlugin{&filter{named: "filter", run: func(node fwk.NodeInfo) *fwk.Status {
						passes = append(passes, len(node.GetPods()))
						if test.refuse == nil {
							return nil
						}
						return test.refuse(len(node.GetPods()))
					}}},
				},
				Nominator: nominations{"n1": test.nominated, "n2": {nominated(t, "elsewhere", 9)}},
			})
			pod := makePod("p")
			pod.Spec.Priority = ptr.To[int32](5)
			node := makeNodes("n1")[0]
			status := f.RunFilterPluginsWithNominatedPods(quiet(t), newState(), pod, node)
			expect(t, "status", describe(status), test.want)
			if diff := cmp.Diff(test.passes, passes); diff != "" {
				t.Errorf("pods on the node by pass (-want +got):\n%s", diff)
			}
			if len(passes) > 0 && added != passes[0] {
				t.Errorf("%d pods were told to PreFilter, %d were on the node", added, passes[0])
			}
			expect(t, "pods left on the snapshot's node", len(node.GetPods()), 0)
		})
	}
}

// counting keeps the number of added pods in the cycle state.
type counting struct{ preFilter }

type addedPods int

func (n addedPods) Clone() fwk.StateData { return n }

func (p *counting) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *counting) AddPod(
	_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo,
) *fwk.Status {
	before, err := state.Read("added")
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write("added", before.(addedPods)+1)
	return nil
}

func TestNominatedPodsDoNotChangeTheCycleState(t *testing.T) {
	f := New(Config{
		Plugins: &Plugins{
			PreFilter: []fwk.PreFilterPlugin{&counting{preFilter{named: "counting"}}},
			Filter:    []fwk.FilterPlugin{&filter{named: "filter"}},
		},
		Nominator: nominations{"n1": {nominated(t, "higher", 6)}},
	})
	state := newState()
	state.Write("added", addedPods(0))
	status := f.RunFilterPluginsWithNominatedPods(quiet(t), state, makePod("p"), makeNodes("n1")[0])
	expect(t, "status", describe(status), "Success")
	after, err := state.Read("added")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "added pods in the state of the cycle", after.(addedPods), 0)
}
