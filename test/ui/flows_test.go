// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/livesched/livesched/test/dashboarddata"
)

func TestFromTheFirstPageToWhyAPodWaits(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/")
	if title := b.text("h1"); !strings.HasPrefix(title, "312 pods wait in 7 kinds.") {
		t.Errorf("the first line is %q", title)
	}
	b.until(`document.querySelector("#help").innerText.includes("Free 2 nvidia.com/gpu")`)
	b.until(`document.querySelector(".kinds .second").innerText.includes("No node can take it now")`)
	b.click(".kinds .first a") // the only click
	b.until(`document.querySelector("#explanation")?.innerText.includes("lacks at least 2 nvidia.com/gpu")`)
	b.quiet()
}

func TestThemeIsKept(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/")
	background := func() string { return b.value("getComputedStyle(document.documentElement).backgroundColor") }
	light := background()
	b.do(`const t = document.getElementById("theme"); t.value = "dark"; t.dispatchEvent(new Event("change"))`)
	dark := background()
	b.open("/nodes")
	if kept := background(); dark == light || kept != dark {
		t.Errorf("light %s, dark %s, on the next page %s", light, dark, kept)
	}
	b.quiet()
}

func TestFiltersOfNodes(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/nodes")
	b.run(chromedp.SendKeys(chromedp.CSS("#name"), "ip-10-20-0-5."))
	b.until(`document.querySelector("#nodes").innerText.includes("1 nodes, of 400") && location.search.includes("ip-10-20-0-5")`)
	if focus := b.value("document.activeElement.id"); focus != "name" {
		t.Errorf("the focus is at %q", focus)
	}
	b.open("/nodes?pool=a100&sort=nvidia.com%2Fgpu&order=desc")
	if first := b.text("#nodes tbody tr"); !strings.Contains(first, "a100") {
		t.Errorf("the first node is %q", first)
	}
	b.quiet()
}

func TestPartsThatAreForbidden(t *testing.T) {
	s := cluster(400)
	s.Errors = map[string]error{"NodeAllocations": dashboarddata.Forbidden()}
	b := newTab(t, s, 1440, 900, "light")
	b.open("/")
	if text := b.text("#room"); !strings.Contains(text, "you may not list nodes") {
		t.Errorf("in place of the room: %q", text)
	}
	if b.value(`document.getElementById("map").hidden`) != "true" || !strings.HasPrefix(b.text("h1"), "312 pods") {
		t.Error("the map is shown, or the other parts are not")
	}
	b.screenshot("forbidden-light")
	b.quiet()
}

// TestUpdatesKeepFocusAndScroll polls all parts while the focus is in one of them.
func TestUpdatesKeepFocusAndScroll(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/")
	b.do(`document.querySelector(".kinds tbody:nth-of-type(5) a").focus(); scrollTo(0, 200);
		globalThis.focused = document.activeElement.id; globalThis.why = document.querySelector("[id^=why-]");
		globalThis.before = document.getElementById("kinds-part");
		htmx.trigger(globalThis.before, "refresh")`)
	b.until(`document.getElementById("kinds-part") !== before`)
	b.until(`document.activeElement.id === focused`)
	if scroll := b.value("scrollY"); scroll != "200" {
		t.Errorf("the page has scrolled from 200 to %s", scroll)
	}
	if b.value(`document.contains(why) && why.innerText.includes("No node can take it now")`) != "true" {
		t.Error("the explanation of a row was lost")
	}
	b.quiet()
}

// TestUpdatesKeepWhatIsUnfoldedAndScrolled polls parts whose links have no ids.
func TestUpdatesKeepWhatIsUnfoldedAndScrolled(t *testing.T) {
	b := newTab(t, cluster(400), 390, 844, "light")
	b.open("/pods/ml/llama-train-0")
	b.do(`document.querySelector("#waits").open = true;
		document.querySelectorAll("#explanation tbody a")[1].focus({ preventScroll: true });
		globalThis.href = document.activeElement.href; globalThis.before = document.getElementById("explanation");
		htmx.trigger(before, "refresh")`)
	b.until(`document.getElementById("explanation") !== before && document.querySelector("#waits").open`)
	if b.value(`document.activeElement.href === href && document.activeElement.isConnected`) != "true" {
		t.Errorf("the focus is at %s", b.value("document.activeElement.outerHTML"))
	}
	b.open("/")
	b.do(`document.querySelector("#profiles .scroll").scrollLeft = 20;
		globalThis.before = document.getElementById("profiles"); htmx.trigger(before, "refresh")`)
	b.until(`document.getElementById("profiles") !== before`)
	if left := b.value(`document.querySelector("#profiles .scroll").scrollLeft`); left != "20" {
		t.Errorf("a table has scrolled from 20 to %s", left)
	}
	b.quiet()
}

func TestDecisionsAppearUntilPaused(t *testing.T) {
	s := cluster(400)
	s.New = 3
	b := newTab(t, s, 1440, 900, "light")
	b.open("/decisions")
	b.until(`document.querySelectorAll("tbody.new tr").length >= 6`)
	b.click("#pause")
	rows := func() string { return b.value(`document.querySelectorAll("#decisions tr").length`) }
	b.until(`!document.querySelector(".htmx-request")`)
	before := rows()
	b.do(`htmx.trigger("#newer", "refresh")`)
	if after := rows(); after != before {
		t.Errorf("%s rows before the pause, %s after", before, after)
	}
	b.click("#pause")
	b.until(`document.querySelectorAll("#decisions tr").length > ` + before)
	b.quiet()
}

func TestHeatMapOfManyNodes(t *testing.T) {
	b := newTab(t, cluster(5000), 1440, 900, "light")
	b.open("/?resource=cpu")
	// The first drawing also starts the canvas.
	first, err := strconv.ParseFloat(b.value(`document.getElementById("heatmap").dataset.milliseconds`), 64)
	if err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Focus(chromedp.CSS("#heatmap")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	again, err := strconv.ParseFloat(b.value(`document.getElementById("heatmap").dataset.milliseconds`), 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s cells: drawn in %.1f ms, again in %.1f ms", b.value(`document.getElementById("heatmap").dataset.cells`), first, again)
	if max(first, again) > 1000 {
		t.Errorf("the heat map takes %.1f ms", max(first, again))
	}
	if cell := b.text("#cell"); !strings.Contains(cell, "pool a100") {
		t.Errorf("the keys reach %q", cell)
	}
	b.screenshot("overview-5000-light")
	b.open("/?resource=nvidia.com%2Fgpu")
	b.run(chromedp.Focus(chromedp.CSS("#heatmap")), chromedp.KeyEvent(kb.End))
	if cell := b.text("#cell"); !strings.Contains(cell, "pool l4") {
		t.Errorf("the key End leads to %q", cell)
	}
	b.run(chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowUp))
	if cell := b.text("#cell"); !strings.Contains(cell, "ip-10-20-0-0.") {
		t.Errorf("the key Home leads to %q", cell)
	}
	for range 17 { // across the pools that have none
		b.run(chromedp.KeyEvent(kb.ArrowDown))
	}
	if cell := b.text("#cell"); !strings.Contains(cell, "pool l4") {
		t.Errorf("the arrow keys lead to %q", cell)
	}
	b.run(chromedp.KeyEvent(kb.Home))
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname.startsWith("/ui/nodes/ip-10-20-")`)
	b.quiet()
}
