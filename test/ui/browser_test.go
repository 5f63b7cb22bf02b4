// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui tests the dashboard's pages in a browser, with data that are made up.
//
//	test -> Chromium, headless -> handler of the dashboard -> dashboarddata.Source
//	     <- errors of the console, violations of axe-core, screenshots in bin/ui
package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/livesched/livesched/internal/dashboard"
	"github.com/livesched/livesched/internal/loadhistory"
	"github.com/livesched/livesched/test/dashboarddata"
)

// output is where screenshots go, and where hack/ui/assets.sh puts axe-core.
const output = "../../bin/ui"

// chromium returns the path of the browser, or "".
func chromium() string {
	path, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium"))
	if err != nil {
		return ""
	}
	return path
}

// running is the browser that all tests share.
var running context.Context

func TestMain(m *testing.M) {
	path := chromium()
	if path == "" {
		fmt.Fprintln(os.Stderr, "The tests of the dashboard's pages are skipped: there is no Chromium. "+
			"Install it, or set CHROMIUM to its path.")
		os.Exit(m.Run())
	}
	profile, err := os.MkdirTemp("", "livesched-ui-")
	if err != nil {
		panic(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, chromedp.DisableGPU)
	for _, name := range []string{"disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	browser, closed := chromedp.NewContext(allocator)
	running = browser
	if err := chromedp.Do(browser); err != nil {
		panic(err)
	}
	code := m.Run()
	closed()
	stop()
	_ = os.RemoveAll(profile)
	os.Exit(code)
}

// tab is a tab of the browser, at a server with a source.
type tab struct {
	t      *testing.T
	ctx    context.Context
	server string

	lock   sync.Mutex
	errors []string
}

// newTab serves a source below /ui, and opens a tab of a size in a theme.
func newTab(t *testing.T, s *dashboarddata.Source, width, height int64, theme string) *tab {
	t.Helper()
	return newTabOf(t, s, nil, width, height, theme)
}

// newTabOf does the same, with charts of days from a Prometheus.
func newTabOf(t *testing.T, s *dashboarddata.Source, p *dashboarddata.Prometheus, width, height int64,
	theme string) *tab {
	t.Helper()
	if running == nil {
		t.Skip("there is no Chromium")
	}
	var history dashboard.History
	if p != nil {
		prometheus := httptest.NewServer(p)
		t.Cleanup(prometheus.Close)
		client, err := loadhistory.New(&loadhistory.Config{URL: prometheus.URL})
		if err != nil {
			t.Fatal(err)
		}
		history = client
	}
	source := func(*http.Request) (dashboard.Source, error) { return s, nil }
	server := httptest.NewServer(dashboard.NewHandler("/ui", source, history))
	t.Cleanup(server.Close)
	ctx, closed := chromedp.NewContext(running)
	t.Cleanup(closed)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, server: server.URL + "/ui"}
	messages := chromedp.Console(ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return // the tab is closed
			}
			b.keep(&message)
		}
	}()
	b.run(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
		return err
	}))
	return b
}

// keep keeps what the console reports as errors, such as violations of the content security policy.
func (b *tab) keep(message *chromedp.ConsoleMessage) {
	switch message.Type {
	case chromedp.ConsoleError, chromedp.ConsoleException, chromedp.ConsoleWarning:
		b.lock.Lock()
		defer b.lock.Unlock()
		b.errors = append(b.errors, message.Text+" "+message.URL)
	}
}

// quiet fails the test if the console has reported errors.
func (b *tab) quiet() {
	b.t.Helper()
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, text := range b.errors {
		b.t.Errorf("the console reports: %s", text)
	}
	b.errors = nil
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a page, and waits until all its parts are there.
func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.server + path))
	b.settle()
}

// settle waits until all parts of the page are there.
func (b *tab) settle() {
	b.t.Helper()
	b.until(`document.readyState === "complete" && !document.querySelector(".htmx-request") &&
		[...document.querySelectorAll("#help, [id^=why-]")].every((e) => e.dataset.loaded) &&
		(!document.querySelector("[data-map], [data-compared]") ||
			[...document.querySelectorAll(".heatmap")].every((e) => e.dataset.milliseconds > 0))`)
}

// until waits until an expression is true. The page may change meanwhile.
func (b *tab) until(expression string) {
	b.t.Helper()
	timeout := time.After(time.Minute)
	for {
		met, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if met {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-timeout:
			b.t.Fatalf("waited for %s (%v)", expression, err)
		}
	}
}

// text returns the text of the first element of a selector.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return b.value(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// value returns the value of an expression as text.
func (b *tab) value(expression string) string {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// do runs statements in the page.
func (b *tab) do(statements string) {
	b.t.Helper()
	b.value("(() => {" + statements + "})()")
}

// click clicks an element.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.run(chromedp.Click(chromedp.CSS(selector)))
}

// screenshot writes a picture of the whole page.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(output, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(output, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// cluster returns the source of a cluster with nodes.
func cluster(nodes int) *dashboarddata.Source {
	return &dashboarddata.Source{Nodes: nodes, Kinds: 7, Pods: 312}
}

// pages are all pages, by the name of their screenshots.
var pages = map[string]string{
	"overview":  "/",
	"days":      "/?last=7d",
	"kind":      "/kinds/ml/kind-0",
	"pod":       "/pods/ml/llama-train-0?node=ip-10-20-0-3.eu-west-1.compute.internal",
	"group":     "/groups/ml/llama-train",
	"pod-bound": "/pods/shop/" + dashboarddata.BoundPod,
	"victims":   "/pods/ml/" + dashboarddata.Preemptor,
	"nodes":     "/nodes",
	"node":      "/nodes/ip-10-20-0-3.eu-west-1.compute.internal",
	"decisions": "/decisions",
	"compare":   "/compare?profile=default&with=binpack&pods=all",
}

func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(output, "axe.min.js"))
	if err != nil {
		t.Skip("there is no bin/ui/axe.min.js: run hack/ui/assets.sh axe")
	}
	return strings.TrimSpace(string(source))
}
