// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What a release replaces in the files of a chart.
const (
	stampedChart  = "apiVersion: v2\nversion: 0.1.0\nappVersion: latest\n"
	stampedValues = "image:\n  repository: livesched\n  digest: \"\"\n"
)

func TestTheChartOfAReleaseInstallsWhatWasReleased(t *testing.T) {
	r := release{source: source{root: "../..", version: "v1.2.3"}, artifacts: map[string][]byte{}}
	if err := r.addChart("registry.example.com/livesched", "sha256:0123"); err != nil {
		t.Fatal(err)
	}
	files := extract(t, r.artifacts["livesched-1.2.3.tgz"])
	var chart struct{ Name, Version, AppVersion string }
	var values struct {
		Image struct{ Repository, Tag, Digest string }
	}
	parse(t, files["livesched/Chart.yaml"], &chart)
	parse(t, files["livesched/values.yaml"], &values)
	if chart.Name != "livesched" || chart.Version != "1.2.3" || chart.AppVersion != "v1.2.3" {
		t.Errorf("Chart.yaml has %+v", chart)
	}
	if got := values.Image; got.Repository != "registry.example.com/livesched" || got.Digest != "sha256:0123" ||
		got.Tag != "" {
		t.Errorf("values.yaml has the image %+v", got)
	}
	for _, name := range []string{"values.schema.json", "templates/deployment.yaml", "templates/_helpers.tpl",
		"files/rbac/role.yaml"} {
		if len(files["livesched/"+name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if _, ok := files["livesched/README.md.gotmpl"]; ok {
		t.Error("the template of the README is in the chart")
	}
}

func TestAChartThatAReleaseCannotStampIsRefused(t *testing.T) {
	const chart, values = stampedChart, stampedValues
	for _, test := range []struct{ name, chart, values, want string }{
		{"as it is", chart, values, ""},
		{"another version", strings.Replace(chart, "0.1.0", "0.2.0", 1), values,
			`charts/livesched/Chart.yaml has "\nversion: 0.1.0\n" 0 times, not once`},
		{"another version of the app", strings.Replace(chart, "latest", "v1", 1), values,
			`charts/livesched/Chart.yaml has "\nappVersion: latest\n" 0 times, not once`},
		{"another repository", chart, strings.Replace(values, "livesched", "elsewhere", 1),
			`charts/livesched/values.yaml has "\n  repository: livesched\n" 0 times, not once`},
		{"no digest", chart, strings.Replace(values, "digest", "sum", 1),
			`charts/livesched/values.yaml has "\n  digest: \"\"\n" 0 times, not once`},
		{"a second image", chart, values + "sidecar:\n  digest: \"\"\n",
			`charts/livesched/values.yaml has "\n  digest: \"\"\n" 2 times, not once`},
		{"no values", chart, "", "charts/livesched lacks values.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			// A file of the same name in another directory is not the one that is meant.
			for name, content := range map[string]string{"Chart.yaml": test.chart, "values.yaml": test.values,
				"files/values.yaml": "image: {}\n"} {
				if content == "" {
					continue
				}
				name = filepath.Join(root, chartDir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
					os.WriteFile(name, []byte(content), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			r := release{source: source{root: root, version: "v1.2.3"}, artifacts: map[string][]byte{}}
			got := ""
			if err := r.addChart("registry.example.com/livesched", "sha256:0123"); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got error %q, want %q", got, test.want)
			}
			if packed := len(r.artifacts) > 0; packed != (test.want == "") {
				t.Errorf("packed: %v", packed)
			}
		})
	}
}

func TestTheVersionOfAChartIsSemantic(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":            "1.2.3",
		"1.2.3-rc.1":        "1.2.3-rc.1",
		"v1.2.3-4-g0123abc": "1.2.3-4-g0123abc",
		"0123456":           "0.0.0-build-0123456",
		"dev":               "0.0.0-build-dev",
	} {
		if got := (source{version: version}).chartVersion(); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

// extract returns the content of each file in an archive.
func extract(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}
