// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"maps"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/livesched/livesched/test/dashboarddata"
)

// TestScreenshots opens all pages in all sizes and themes. No page may scroll sideways.
func TestScreenshots(t *testing.T) {
	for _, size := range []struct {
		name          string
		width, height int64
		theme         string
	}{
		{"light", 1440, 900, "light"}, {"dark", 1440, 900, "dark"}, {"phone", 390, 844, "light"},
		{"narrow", 360, 640, "dark"}, {"wide", 1600, 900, "light"},
	} {
		for name, path := range pages {
			t.Run(name+"-"+size.name, func(t *testing.T) {
				b := newTabOf(t, cluster(400), &dashboarddata.Prometheus{}, size.width, size.height, size.theme)
				b.open(path)
				if size.name == "light" || size.name == "dark" || size.name == "phone" {
					b.screenshot(name + "-" + size.name)
				}
				if b.value("document.documentElement.scrollWidth <= innerWidth") != "true" {
					t.Errorf("%s scrolls sideways at %d", path, size.width)
				}
				b.quiet()
			})
		}
	}
}

// violations runs axe-core, and returns what it finds.
const violations = `axe.run().then((result) => result.passes.length < 10 ? ["nothing was checked"] :
	result.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`

// TestAccessibility lets axe-core look for violations of WCAG 2.2 AA and of best practices.
func TestAccessibility(t *testing.T) {
	source := axe(t)
	pages := maps.Clone(pages)
	pages["kind-gone"] = "/kinds/ml/gone"
	pages["missing"] = "/pods/ml/" + dashboarddata.Missing
	pages["stranded"] = "/nodes?state=stranded&resource=nvidia.com%2Fgpu&pod=ml%2Fllama-train-0"
	for _, theme := range []string{"light", "dark"} {
		for name, path := range pages {
			t.Run(name+"-"+theme, func(t *testing.T) {
				b := newTabOf(t, cluster(400), &dashboarddata.Prometheus{}, 1440, 900, theme)
				b.open(path)
				b.do(source)
				found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise))
				if err != nil {
					t.Fatal(err)
				}
				for _, violation := range found[:min(len(found), 12)] {
					t.Errorf("axe-core finds %d: %s", len(found), violation)
				}
			})
		}
	}
}
