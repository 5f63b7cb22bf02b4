// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	runbooks    = "../../../docs/operate/runbooks"
	runbooksURL = "https://github.com/livesched/livesched/blob/main/docs/operate/runbooks/"
)

func TestAlertsSayWhatToDo(t *testing.T) {
	for alert, rule := range readRules(t) {
		if !strings.HasPrefix(alert, "Livesched") {
			t.Errorf("%s: the name does not say that livesched is concerned", alert)
		}
		if severity := rule.Labels["severity"]; !slices.Contains([]string{"critical", "warning"}, severity) {
			t.Errorf("%s: severity %q", alert, severity)
		}
		if summary := rule.Annotations["summary"]; summary == "" || utf8.RuneCountInString(summary) > 60 ||
			strings.HasSuffix(summary, ".") {
			t.Errorf("%s: the summary is missing, too long for a title or ends with a full stop: %q", alert, summary)
		}
		if description := rule.Annotations["description"]; !strings.HasSuffix(description, ".") {
			t.Errorf("%s: the description is not made of sentences: %q", alert, description)
		}
		if url := rule.Annotations["runbook_url"]; url != runbooksURL+alert+".md" {
			t.Errorf("%s: runbook_url %q", alert, url)
		}
	}
}

func TestEachAlertHasARunbook(t *testing.T) {
	rules := readRules(t)
	for alert := range rules {
		content, err := os.ReadFile(filepath.Join(runbooks, alert+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"# " + alert + "\n", "\n## Meaning\n", "\n## Impact\n", "\n## Look\n",
			"\n## Mend\n"} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s.md lacks %q", alert, strings.TrimSpace(want))
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(runbooks, "Livesched*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if _, exists := rules[strings.TrimSuffix(filepath.Base(page), ".md")]; !exists {
			t.Errorf("%s describes no alert", page)
		}
	}
}
