// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestOnlyFailuresOfPostFilterPluginsAreLoggedAsErrors(t *testing.T) {
	for name, test := range map[string]struct {
		status *fwk.Status
		level  ktesting.LogType // of the one entry
	}{
		"a plugin that failed":               {fwk.AsStatus(errors.New("sorry")), ktesting.LogError},
		"one whose PreFilter was not called": {fwk.AsStatus(fwk.ErrNotFound), ktesting.LogInfo},
		"the same, and the framework has put it so": {fwk.AsStatus(fwk.AsStatus(fwk.ErrNotFound).AsError()).
			WithPlugin("Quota"), ktesting.LogInfo},
		"a refusal": {fwk.NewStatus(fwk.Unschedulable, "no victims"), ""},
	} {
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
		logPostFilter(klog.NewContext(t.Context(), log), test.status)
		var levels []ktesting.LogType
		for _, entry := range log.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			levels = append(levels, entry.Type)
		}
		if test.level == "" && len(levels) > 0 || test.level != "" && (len(levels) != 1 || levels[0] != test.level) {
			t.Errorf("%s: logged %v, want %q", name, levels, test.level)
		}
	}
}
