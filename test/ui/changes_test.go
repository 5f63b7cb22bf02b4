// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/dashboarddata"
)

// unloaded marks the page: the mark is lost when the page is loaded again.
func (b *tab) unloaded() (check func()) {
	b.t.Helper()
	b.do("globalThis.mark = true")
	return func() {
		b.t.Helper()
		if b.value("globalThis.mark === true") != "true" {
			b.t.Error("the page was loaded again")
		}
	}
}

func TestFromTheFirstPageToAPodOfAKind(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/")
	b.click(".kinds .first .n a")
	b.until(`document.querySelectorAll("#kind-pods tbody tr").length === 156`)
	if caption := b.text("#kind-pods caption"); caption != "156 pods, the oldest first" {
		t.Errorf("the caption is %q", caption)
	}
	b.click("#kind-pods tbody tr:nth-child(3) a")
	b.until(`document.querySelector("#explanation")?.innerText.includes("lacks at least 2 nvidia.com/gpu")`)
	if title := b.text("h1"); title != "Pod ml/llama-train-2" {
		t.Errorf("the page is %q", title)
	}
	b.quiet()
}

func TestAKindKeepsItsPlaceWhenItIsLoadedAgain(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/kinds/ml/kind-0")
	b.do(`document.querySelectorAll("#kind-pods tbody a")[20].focus({ preventScroll: true }); scrollTo(0, 300);
		globalThis.focused = document.activeElement.href; globalThis.before = document.getElementById("kind-pods");
		htmx.trigger(before, "refresh")`)
	b.until(`document.getElementById("kind-pods") !== before`)
	b.until(`document.activeElement.href === focused && scrollY === 300`)
	b.quiet()
}

func TestFromTheFirstPageToAPodGroup(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/")
	b.click(`.kinds a[href$="/groups/ml/llama-train"]`)
	b.until(`document.querySelector("#explanation")?.innerText.includes("16 pods must be placed together, and 11 fit now")`)
	for _, part := range []string{"example.com/rack=r2", "job/llama-train"} { // a domain that was tried, and a kind
		if !strings.Contains(b.text("main"), part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	b.quiet()
}

// TestARollOutGoesForwardAndIsAborted changes the roll-out while the page is open.
func TestARollOutGoesForwardAndIsAborted(t *testing.T) {
	s := cluster(400)
	b := newTab(t, s, 1440, 900, "light")
	b.open("/")
	check := b.unloaded()
	shows := func(text string) {
		t.Helper()
		b.until(`document.querySelector("#profiles").innerText.includes("` + text + `")`)
	}
	shows("stage Canary, 5 % of owners get c8d2f6h4kl")
	s.Rollout.Store(&v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutProgressing, Stage: "Canary", Weight: 25,
		CanaryRevision: "c8d2f6h4kl", Message: "9 of 12 owners decided"})
	shows("stage Canary, 25 % of owners get c8d2f6h4kl. 9 of 12 owners decided")
	const reason = "1624 : 1 that the new revision leaves more owners without a node"
	s.Rollout.Store(&v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutDegraded, CanaryRevision: "c8d2f6h4kl",
		Message: reason})
	shows(reason)
	if tag := b.text("#profiles .tag.bad"); tag != "aborted" {
		t.Errorf("the roll-out is marked %q", tag)
	}
	check()
	b.screenshot("aborted-light")
	b.quiet()
}

// drawn is how many pixels of the chart of rates have a line or an axis.
const drawn = `(() => { const c = document.querySelector("#chart-rates canvas");
	const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	let n = 0; for (let i = 3; i < data.length; i += 4) if (data[i] > 0) n++; return n; })()`

// span is how many hours the charts show.
const span = `(() => { const { t } = JSON.parse(document.getElementById("health").dataset.chart);
	return (t.at(-1) - t[0]) / 3600; })()`

func TestChartsOfDays(t *testing.T) {
	b := newTabOf(t, cluster(400), &dashboarddata.Prometheus{}, 1440, 900, "light")
	b.open("/")
	check := b.unloaded()
	choose := func(value string) {
		t.Helper()
		b.do(`const last = document.getElementById("last"); last.value = "` + value + `";
			last.dispatchEvent(new Event("change", { bubbles: true }))`)
	}
	choose("30d")
	b.until(span + " > 700 && " + drawn + " > 1000")
	b.until(`!document.getElementById("key-until-bound").hidden`)
	if text := b.text("#health"); !strings.Contains(text, "once in the 2 h 0 min before") {
		t.Errorf("no reload is listed: %s", text)
	}
	choose("1h")
	b.until(span + ` < 2 && document.getElementById("key-until-bound").hidden`)
	check()
	b.quiet()
}

func TestChartsWithoutPrometheus(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/?last=7d") // a bookmark of somebody who has Prometheus
	if options := b.value(`document.getElementById("last").options.length`); options != "3" {
		t.Errorf("%s times are offered", options)
	}
	b.until(span + " < 1 && " + drawn + " > 1000")
	b.quiet()

	gone := &dashboarddata.Prometheus{}
	gone.Status.Store(http.StatusServiceUnavailable)
	b = newTabOf(t, cluster(400), gone, 1440, 900, "light")
	b.open("/?last=7d")
	b.until(`document.querySelector("#health .problem").innerText.includes("Prometheus gave no answer")`)
	b.until(span + " > 7 && " + span + " < 9 && " + drawn + " > 1000")
	b.screenshot("no-prometheus-light")
	b.quiet()
}

// TestNodesAreLoadedAgain while the user has chosen some, and is in the middle of them.
func TestNodesAreLoadedAgain(t *testing.T) {
	b := newTab(t, cluster(400), 1440, 900, "light")
	b.open("/nodes?pool=general&sort=cpu")
	b.run(chromedp.SendKeys(chromedp.CSS("#name"), "ip-10-21-"))
	b.until(`location.search.includes("ip-10-21-") && !document.querySelector(".htmx-request")`)
	before := b.text("#nodes [role=status]")
	check := b.unloaded()
	b.do(`document.querySelectorAll("#nodes tbody a")[30].focus({ preventScroll: true }); scrollTo(0, 500);
		globalThis.focused = document.activeElement.href; globalThis.before = document.getElementById("nodes");
		htmx.trigger(before, "refresh")`)
	b.until(`document.getElementById("nodes") !== before`)
	b.until(`document.activeElement.href === focused && scrollY === 500`)
	if after := b.text("#nodes [role=status]"); after != before || !strings.Contains(before, "of 400 in all") {
		t.Errorf("%q, then %q", before, after)
	}
	if name := b.value(`document.getElementById("name").value`); name != "ip-10-21-" {
		t.Errorf("the filter is %q", name)
	}
	check()
	b.open("/nodes/ip-10-20-0-3.eu-west-1.compute.internal")
	b.do(`globalThis.before = document.getElementById("node"); htmx.trigger(before, "refresh")`)
	b.until(`document.getElementById("node") !== before && document.querySelector("#node .bars")`)
	b.quiet()
}

// TestAUserWhoMayNotListNodes sees why pages of nodes are empty, without errors in the console.
func TestAUserWhoMayNotListNodes(t *testing.T) {
	s := cluster(400)
	b := newTab(t, s, 1440, 900, "light")
	b.open("/nodes")
	s.Errors = map[string]error{"NodeAllocations": dashboarddata.Forbidden()} // no request is on its way
	b.do(`htmx.trigger("#nodes", "refresh")`)
	b.until(`document.querySelector("#nodes .problem")?.innerText.includes("you may not list nodes")`)
	if b.value(`document.getElementById("connection").hidden`) != "true" {
		t.Errorf("the page says: %s", b.text("#connection"))
	}
	b.open("/kinds/ml/kind-0")
	b.until(`document.querySelectorAll("#kind-pods tbody tr").length === 156`)
	b.open("/pods/ml/llama-train-0")
	b.until(`document.querySelector("#explanation").innerText.includes("No node can take it now")`)
	b.quiet()
}
