// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
)

func TestTheNameOfWhatIsExplained(t *testing.T) {
	for _, test := range []struct {
		args       []string
		kind, name string
	}{
		{nil, "", ""}, {[]string{"pods"}, "", ""},
		{[]string{"pod", "a"}, "pod", "a"}, {[]string{"pod/a"}, "pod", "a"}, {[]string{"pods/a"}, "pod", "a"},
		{[]string{"po", "a"}, "pod", "a"},
		{[]string{"podgroup/a"}, "podgroup", "a"}, {[]string{"pg", "a"}, "podgroup", "a"},
		{[]string{"deploy/a"}, "deploy", "a"}, {[]string{"jobs.batch", "a"}, "jobs.batch", "a"},
	} {
		if got, err := explainedName(test.args); got != (objectName{test.kind, test.name}) || err != nil {
			t.Errorf("%v: got %v, %v", test.args, got, err)
		}
	}
	for _, args := range [][]string{{"a"}, {"/a"}, {"pod/"}, {"pod/a", "b"}, {"pod/a/b"}, {"podgroup/"}, {"deploy"}} {
		if _, err := explainedName(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestFlagsOfExplainThatContradictEachOther(t *testing.T) {
	for want, test := range map[string]struct {
		options explainOptions
		args    []string
	}{
		"--selector:":       {explainOptions{selector: "a=b"}, []string{"pod/a"}},
		"--all-namespaces:": {explainOptions{allNamespaces: true, namespace: "a"}, nil},
		"--node:":           {explainOptions{node: "a"}, []string{"deploy/a"}},
	} {
		if _, err := test.options.target(test.args); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", test.args, err, want)
		}
	}
}
