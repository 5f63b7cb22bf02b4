// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/livesched/livesched/test/dashboarddata"
)

// TestTwoProfilesAreCompared goes from the first page to the heat maps of two profiles.
func TestTwoProfilesAreCompared(t *testing.T) {
	b := newTab(t, cluster(5000), 1440, 900, "light")
	b.open("/")
	b.click("#profiles a[href*='/compare']")
	b.until(`document.querySelector("select[name=profile]")?.value === "binpack"`)
	b.do(`document.querySelector("select[name=profile]").value = "default";
		document.querySelector("select[name=with]").value = "binpack"`)
	b.click("form.filters button")
	b.until(`document.getElementById("compared-headline")`)
	b.settle()
	if headline := b.text("#compared-headline"); !strings.Contains(headline, "uses 89 nodes fewer") {
		t.Errorf("the headline is %q", headline)
	}
	tops := b.value(`[0, 1].map((i) => document.getElementById("map-" + i).getBoundingClientRect().top).join()`)
	if first, second, _ := strings.Cut(tops, ","); first != second {
		t.Errorf("the maps are not side by side: %s", tops)
	}
	differs := `(() => { const [a, b] = [0, 1].map((i) => document.getElementById("map-" + i).toDataURL()); return a !== b; })()`
	if b.value(differs) != "true" {
		t.Error("both maps show the same")
	}
	b.do(`globalThis.before = document.getElementById("map-1").toDataURL();
		const resource = document.getElementById("map-resource");
		resource.value = "nvidia.com/gpu"; resource.dispatchEvent(new Event("change"))`)
	b.until(`document.getElementById("map-1").toDataURL() !== before`)
	b.run(chromedp.Focus(chromedp.CSS("#map-1")), chromedp.KeyEvent(kb.ArrowRight))
	if cell := b.text("#cell-1"); !strings.Contains(cell, "% of nvidia.com/gpu free") || b.text("#cell-0") == cell {
		t.Errorf("the keys reach %q", cell)
	}
	t.Logf("maps of 5,000 nodes: %s and %s ms", b.value(`document.getElementById("map-0").dataset.milliseconds`),
		b.value(`document.getElementById("map-1").dataset.milliseconds`))
	b.screenshot("compare-5000-light")
	b.quiet()
}

// TestProfilesAreComparedWithoutNodes compares for a user who may not list nodes.
func TestProfilesAreComparedWithoutNodes(t *testing.T) {
	s := cluster(400)
	s.Errors = map[string]error{"NodeAllocations": dashboarddata.Forbidden()}
	b := newTab(t, s, 390, 844, "dark")
	b.open("/compare?profile=default&with=binpack")
	if text := b.text("main"); !strings.Contains(text, "You need the permission to list nodes") ||
		!strings.Contains(text, "1,377 pods on other nodes") {
		t.Errorf("the page shows %q", text)
	}
	b.quiet()
}
