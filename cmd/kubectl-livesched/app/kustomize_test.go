// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateReadsAKustomization(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kustomization.yaml": "namePrefix: team-\nresources: [a.yaml]\n",
		"a.yaml": "apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: a}\nspec: " +
			"{colour: red}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errOut := runCommand(t, "validate", "-k", dir)
	if code != exitFound || !strings.Contains(out, "kustomize build "+dir+":") ||
		!strings.Contains(out, ": error: SchedulerProfile team-a: spec.colour: ") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	for _, test := range []struct{ args, want string }{
		{"-k " + filepath.Join(dir, "none"), "with kustomize: "},
		{"-k a -f b", "the flags --filename and --kustomize exclude each other"},
		{"", "specify --filename or --kustomize\nSee '"},
	} {
		code, _, errOut := runCommand(t, append([]string{"validate"}, strings.Fields(test.args)...)...)
		if code != exitFailed || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: %d %s", test.args, code, errOut)
		}
	}
}
