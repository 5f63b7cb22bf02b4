// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var update = flag.Bool("update", false, "write the golden files")

// inputs are configurations from the documentation of kube-scheduler, of scheduler-plugins, and of
// clouds and distributions.
func inputs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/input.*")
	if err != nil || len(files) < 20 {
		t.Fatalf("only %d inputs: %v", len(files), err)
	}
	return files
}

func TestConversionsMatchTheGoldenFiles(t *testing.T) {
	for _, file := range inputs(t) {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			result := convertedFile(t, file)
			output, err := result.YAML()
			if err != nil {
				t.Fatal(err)
			}
			var remarks strings.Builder
			for _, remark := range result.Remarks {
				remark.File = filepath.Base(remark.File)
				remarks.WriteString(remark.String() + "\n")
			}
			golden(t, filepath.Join(dir, "output.yaml"), string(output))
			golden(t, filepath.Join(dir, "remarks.txt"), remarks.String())
		})
	}
}

func convertedFile(t *testing.T, file string) *convert.Result {
	t.Helper()
	documents, err := manifests.Read([]string{file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := convert.Convert(documents, convert.Options{Registered: registered(t), AllowedHosts: defaultHosts(t)})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), write it with -update:\n%s", file, diff)
	}
}

// invalid are the inputs whose output livesched does not accept, with the invalid field.
var invalid = map[string]string{
	// The scheduler name has upper case letters, which Events cannot have.
	"everything-of-v1": "spec.schedulerName",
}

func TestConvertedObjectsAreValid(t *testing.T) {
	for _, file := range inputs(t) {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			output, err := convertedFile(t, file).YAML()
			if err != nil {
				t.Fatal(err)
			}
			documents, err := manifests.Parse("output", output)
			if err != nil {
				t.Fatal(err)
			}
			report := validate.Check(documents,
				validate.Options{Registered: registered(t), AllowedHosts: resolve.AnyHost()})
			var paths []string
			for _, object := range report.Objects {
				for _, finding := range object.Findings {
					if finding.Severity == validate.Error {
						paths = append(paths, finding.Path)
						t.Log(finding)
					}
				}
			}
			if got := strings.Join(paths, " "); got != invalid[name] {
				t.Errorf("got errors at %q, want them at %q", got, invalid[name])
			}
		})
	}
}
