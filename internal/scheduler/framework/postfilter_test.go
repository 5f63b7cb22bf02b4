// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestRunPostFilterPlugins(t *testing.T) {
	nominate := func(node string, s *fwk.Status) func() (*fwk.PostFilterResult, *fwk.Status) {
		return func() (*fwk.PostFilterResult, *fwk.Status) {
			return schedframework.NewPostFilterResultWithNominatedNode(node), s
		}
	}
	only := func(s *fwk.Status) func() (*fwk.PostFilterResult, *fwk.Status) {
		return func() (*fwk.PostFilterResult, *fwk.Status) { return nil, s }
	}
	unreached := func() (*fwk.PostFilterResult, *fwk.Status) { panic("not reached") }
	for _, test := range []struct {
		name      string
		a, b      func() (*fwk.PostFilterResult, *fwk.Status)
		skip      bool
		want      string
		nominated string // "-": there is no result
	}{
		{"the first success ends it", nominate("n1", nil), unreached, false, "Success", "n1"},
		{"a later plugin may succeed", only(unschedulable("a cannot")), nominate("n2", nil), false, "Success", "n2"},
		{
			"rejections are reported together, under the first plugin's name",
			only(unschedulable("a cannot")), only(unschedulable("b cannot")), false,
			"Unschedulable[a]: a cannot, b cannot", "-",
		},
		{
			"the last nomination counts",
			nominate("n1", unschedulable("a cannot")), nominate("", unschedulable("b cannot")), false,
			"Unschedulable[a]: a cannot, b cannot", "",
		},
		{
			"a result without a nomination does not",
			nominate("n1", unschedulable("a cannot")),
			func() (*fwk.PostFilterResult, *fwk.Status) { return &fwk.PostFilterResult{}, unschedulable("b cannot") },
			false, "Unschedulable[a]: a cannot, b cannot", "n1",
		},
		{"unresolvable ends it", only(unresolvable("never")), unreached, false,
			"UnschedulableAndUnresolvable[a]: never", "-"},
		{"an error ends it", only(fwk.AsStatus(errors.New("broken"))), unreached, false, "Error[a]: broken", "-"},
		{
			"a status without a meaning here is an error", only(fwk.NewStatus(fwk.Skip)), unreached, false,
			"Error[a]: it returned the status Skip, which has no meaning there", "-",
		},
		{"a state may ask to skip all", unreached, unreached, true,
			"Unschedulable: All PostFilter plugins are skipped", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{PostFilter: []fwk.PostFilterPlugin{
				&postFilter{named: "a", run: test.a}, &postFilter{named: "b", run: test.b},
			}})
			state := newState()
			state.SetSkipAllPostFilterPlugins(test.skip)
			result, status := f.RunPostFilterPlugins(quiet(t), state, makePod("p"),
				schedframework.NewDefaultNodeToStatus())
			expect(t, "status", describe(status), test.want)
			got := "-"
			if result != nil && result.NominatingInfo != nil {
				got = result.NominatedNodeName
			}
			expect(t, "nominated node", got, test.nominated)
		})
	}
}
