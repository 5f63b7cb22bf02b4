// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
)

func TestOutputFormatsAreChecked(t *testing.T) {
	for format, want := range map[string]string{
		"xml": "--output: must be json, yaml, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or " +
			"go-template=TEMPLATE, not \"xml\"",
		"jsonpath":      "--output: template format specified but no template given",
		"jsonpath={.a":  "--output: error parsing jsonpath {.a, unclosed action",
		"go-template={": "",
	} {
		code, _, errOut := runCommand(t, "doctor", "--server=https://127.0.0.1:1", "-o", format)
		if found := strings.Contains(errOut, "--output"); found != (want != "") || !strings.Contains(errOut, want) {
			t.Errorf("-o %s: %d %s", format, code, errOut)
		}
	}
}
