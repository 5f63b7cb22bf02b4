// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"testing"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
)

func TestFindingsHaveTheFormatOfCompilers(t *testing.T) {
	object := &validate.Object{File: "a,b:c.yaml", Line: 3, Document: 2, Kind: "SchedulerProfile", Name: "mine"}
	for name, test := range map[string]struct {
		object        *validate.Object
		finding       validate.Finding
		line, command string
	}{
		"an error": {
			object, validate.Finding{Severity: validate.Error, Reason: "UnknownPlugin", Path: "spec.x", Line: 7,
				Detail: "100%\nwrong"},
			"a,b:c.yaml:7: error: SchedulerProfile mine: spec.x: 100%\nwrong (UnknownPlugin)",
			"::error file=a%2Cb%3Ac.yaml,line=7,title=SchedulerProfile mine::spec.x: 100%25%0Awrong (UnknownPlugin)",
		},
		"without a line": {
			object, validate.Finding{Severity: validate.Warning, Path: "spec", Detail: "odd"},
			"a,b:c.yaml:3: warning: SchedulerProfile mine: spec: odd",
			"::warning file=a%2Cb%3Ac.yaml,line=3,title=SchedulerProfile mine::spec: odd",
		},
		"in the cluster": {
			&validate.Object{Kind: "SchedulerProfile", Name: "other"},
			validate.Finding{Severity: validate.Error, Path: "spec", Detail: "broken"},
			"cluster: error: SchedulerProfile other: spec: broken",
			"::error title=SchedulerProfile other::spec: broken",
		},
	} {
		if got := findingLine(test.object, &test.finding); got != test.line {
			t.Errorf("%s: %s", name, got)
		}
		if got := workflowCommand(test.object, &test.finding); got != test.command {
			t.Errorf("%s: %s", name, got)
		}
	}
}
