// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

const chartDir = "charts/livesched"

var semantic = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+([-+].*)?)$`)

// chartVersion is the version of the release without its v. What is not a semantic version, which
// Helm would refuse, becomes a prerelease.
func (s source) chartVersion() string {
	if match := semantic.FindStringSubmatch(s.version); match != nil {
		return match[1]
	}
	return "0.0.0-build-" + s.version
}

// replacement is a string of the chart that a release replaces.
type replacement struct{ old, new string }

// addChart adds the Helm chart with the version of the release, and with the image by digest. It
// fails if a string that it replaces is not in its file exactly once: the release would install
// something else.
func (r *release) addChart(repository, digest string) error {
	replacements := map[string][]replacement{
		"Chart.yaml": {
			{"\nversion: 0.1.0\n", "\nversion: " + r.chartVersion() + "\n"},
			{"\nappVersion: latest\n", fmt.Sprintf("\nappVersion: %q\n", r.version)},
		},
		"values.yaml": {
			{"\n  repository: livesched\n", "\n  repository: " + repository + "\n"},
			{"\n  digest: \"\"\n", "\n  digest: " + digest + "\n"},
		},
	}
	var files []file
	root := os.DirFS(r.root)
	err := fs.WalkDir(root, chartDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".gotmpl" {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		inChart := strings.TrimPrefix(name, chartDir+"/")
		if content, err = replaceOnce(name, content, replacements[inChart]); err != nil {
			return err
		}
		delete(replacements, inChart)
		files = append(files, file{path: strings.TrimPrefix(name, "charts/"), mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return err
	}
	if len(replacements) > 0 {
		return fmt.Errorf("%s lacks %s", chartDir, strings.Join(slices.Sorted(maps.Keys(replacements)), ", "))
	}
	r.artifacts["livesched-"+r.chartVersion()+".tgz"], err = r.tarGz(files)
	return err
}

// replaceOnce replaces strings in a file. It fails if the file does not have each of them once.
func replaceOnce(name string, content []byte, replacements []replacement) ([]byte, error) {
	for _, r := range replacements {
		if n := bytes.Count(content, []byte(r.old)); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once", name, r.old, n)
		}
		content = bytes.Replace(content, []byte(r.old), []byte(r.new), 1)
	}
	return content, nil
}
