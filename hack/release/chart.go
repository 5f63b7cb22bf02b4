// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
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

// addChart adds the Helm chart with the version of the release, and with the image by digest.
func (r *release) addChart(repository, digest string) error {
	replacements := map[string]*strings.Replacer{
		"Chart.yaml": strings.NewReplacer(
			"\nversion: 0.1.0\n", "\nversion: "+r.chartVersion()+"\n",
			"appVersion: latest\n", fmt.Sprintf("appVersion: %q\n", r.version)),
		"values.yaml": strings.NewReplacer(
			"\n  repository: livesched\n", "\n  repository: "+repository+"\n",
			"\n  digest: \"\"\n", "\n  digest: "+digest+"\n"),
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
		if replacer := replacements[path.Base(name)]; replacer != nil {
			content = []byte(replacer.Replace(string(content)))
		}
		files = append(files, file{path: strings.TrimPrefix(name, "charts/"), mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return err
	}
	r.artifacts["livesched-"+r.chartVersion()+".tgz"], err = r.tarGz(files)
	return err
}
