// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"os"
	"testing"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// FuzzConvert checks that no input causes a panic, that the output can be read again, and that
// livesched accepts objects in which validate finds no errors.
func FuzzConvert(f *testing.F) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, dir := range files {
		for _, name := range []string{"input.yaml", "input.json"} {
			if text, err := os.ReadFile("testdata/" + dir.Name() + "/" + name); err == nil {
				f.Add(text)
			}
		}
	}
	names := registered(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		documents, err := manifests.Parse("input", text)
		if err != nil {
			return
		}
		result, err := convert.Convert(documents, convert.Options{Registered: names})
		if err != nil {
			return
		}
		output, err := result.YAML()
		if err != nil {
			t.Fatalf("the objects cannot be written: %v", err)
		}
		written, err := manifests.Parse("output", output)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if want := len(result.Secrets) + len(result.Policies) + len(result.Profiles); len(written) != want {
			t.Fatalf("%d objects were written, but %d read", want, len(written))
		}
		if validate.Check(written, validate.Options{Registered: names, AllowedHosts: resolve.AnyHost()}).
			Count(validate.Error) > 0 {
			return // validate reports why
		}
		resolution := resolveConverted(result, names)
		for name, r := range resolution.ProfileResults {
			if !r.Accepted {
				t.Fatalf("%s is not accepted: %s\n%s", name, r.Message, output)
			}
		}
		for name, r := range resolution.PolicyResults {
			if !r.Accepted {
				t.Fatalf("%s is not accepted: %s\n%s", name, r.Message, output)
			}
		}
	})
}
