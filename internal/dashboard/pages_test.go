// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/livesched/livesched/test/dashboarddata"
)

// paths are all pages and parts, and what each has to say.
var paths = map[string][]string{
	"/": {"312 pods wait in 4 kinds.", "The oldest has waited 14 min.", "job/llama-train", "8 nvidia.com/gpu",
		"leader", "livesched-6c9d7b5f4-2xkzq", "b47874bsgc", "stage Canary, 5 % of owners",
		"Agrees with default in 98.1 %", "NodeResourcesFit?", "a100", "Stranded:", `<option value="nvidia.com/gpu">`},
	"/?namespace=ml&last=1h&resource=nvidia.com/gpu": {"156 pods wait in the namespace ml in 1 kind.",
		`<option value="1h" selected>`, "has no nvidia.com/gpu"},
	"/parts/verdict": {"312 pods wait in 4 kinds."},
	"/parts/help":    {"Would help", "Free 2 nvidia.com/gpu on one of 9 nodes"},
	"/kinds/ml/kind-0": {"Pending pods of job/llama-train", "156 pods, the oldest first", "llama-train-155",
		"/pods/ml/llama-train-3", "unschedulable", "back-off", "/nodes/ip-10-21-0-7.eu-west-1.compute.internal",
		"/groups/ml/llama-train", "Insufficient nvidia.com/gpu"},
	"/parts/kinds/batch/kind-1": {"78 pods, the oldest first", "nightly-report"},
	"/kinds/ml/gone":            {"No pod of this kind waits now"},
	"/parts/kinds":              {"/kinds/ml/kind-0", "/pods/ml/llama-train-0", "140 unschedulable, 16 back-off"},
	"/parts/why?namespace=ml&pod=llama-train-0": {"No node can take it now (of 400).",
		"lacks at least 2 nvidia.com/gpu", "Free 2"},
	"/parts/health?last=8h":    {"Decisions a second", "p99", "gpu", "b47874bsgc"},
	"/parts/profiles":          {"default-next", "Invalid: spec.plugins"},
	"/parts/room":              {"Shown: nvidia.com/gpu, which the largest kind requests"},
	"/parts/room?resource=cpu": {"general", "cpu"},
	"/pods/ml/llama-train-0": {"No node can take it now (of 400).", "in 2 min at the latest", "155 other pods wait",
		"Free 2 nvidia.com/gpu", "each lacks at least 2 nvidia.com/gpu (9 nodes), at most 7",
		"16 pods must be placed together, and 11 fit now", "example.com/rack=r2", "AssignedPod/Delete"},
	"/pods/ml/llama-train-0?node=ip-10-20-0-1.eu-west-1.compute.internal": {
		"The pod does not fit on the node ip-10-20-0-1.eu-west-1.compute.internal now."},
	"/pods/ml/llama-train-0?node=ip-10-22-0-3.eu-west-1.compute.internal": {
		"Its total is 347, rank 3; the highest is 367."},
	"/pods/shop/" + dashboarddata.BoundPod: {"It is on the node ip-10-21-0-7", "PodTopologySpread", "367",
		"42 changes", "Equal on these nodes"},
	"/pods/ml/" + dashboarddata.Preemptor:      {"batch/low-0", "example.com/hold", "terminating for"},
	"/parts/pods/ml/llama-train-0":             {"No node can take it now"},
	"/parts/decisions-of/pod/ml/llama-train-0": {"Unschedulable"},
	"/groups/ml/llama-train": {"job/llama-train", "16 pods must be placed together, and 11 fit now",
		"example.com/rack=r2", "Latest decisions about the group"},
	"/parts/decisions-of/group/ml/llama-train": {"llama-train-0"},
	"/nodes":        {"1 to 200 of 400 nodes", "Next 200", "Free nvidia.com/gpu"},
	"/nodes?page=2": {"201 to 400 of 400 nodes", "Previous 200"},
	"/nodes?pool=a100&state=tainted&name=IP-10-": {"56 nodes, of 400 in all",
		`id="nodes" hx-get="/ui/nodes?name=IP-10-&amp;pool=a100&amp;state=tainted"`},
	"/nodes?sort=cpu&order=desc": {`aria-sort="descending"`},
	"/nodes?state=stranded&resource=nvidia.com/gpu&pod=ml/llama-train-0": {
		"Refusals are those of the pod ml/llama-train-0", "InsufficientResource"},
	"/nodes/ip-10-20-0-1.eu-west-1.compute.internal": {"a100", "nvidia.com/gpu=present:NoSchedule", "Requested",
		"eu-west-1b"},
	"/compare": {"Compare two profiles", "<option>binpack</option>", `value="pending"`},
	"/compare?profile=default&with=binpack&pods=all": {"<option selected>binpack</option>",
		"Compared with default, binpack leaves 3 more pods without a node, uses 89 nodes fewer, and puts 1,377 pods " +
			"on other nodes.", "2,000 pods of default decided again, of 5,312 that match, on 400 nodes.",
		"Requested nvidia.com/gpu, mean of nodes", "<strong>31.8 %</strong>", "pods without a controller in ci: 60",
		"of other owners: 7", "/pods/batch/nightly-report-28401-x7k2p", "and 4 more", `data-compared="{`},
	"/decisions":                          {"llama-train-0", "New decisions appear by themselves.", "after=41200"},
	"/decisions?profile=gpu&result=Bound": {"<option selected>Bound</option>"},
	"/parts/decisions?after=41190":        {"after=41200", "llama-train-0"},
}

func TestPagesSayWhatMatters(t *testing.T) {
	for path, texts := range paths {
		t.Run(path, func(t *testing.T) {
			contains(t, text(t, pagesOf("/ui", cluster()), "/ui"+path, http.StatusOK), texts...)
		})
	}
}

// TestLinksLeadToPages follows all addresses in all pages and parts.
func TestLinksLeadToPages(t *testing.T) {
	h := pagesOf("/ui", cluster())
	seen := map[string]bool{}
	for path := range paths {
		page := text(t, h, "/ui"+path, http.StatusOK)
		for _, link := range attributes(t, page, "href", "src", "action", "hx-get", "data-map", "data-nodes") {
			link, _, _ = strings.Cut(link, "#")
			if link == "" || seen[link] {
				continue
			}
			seen[link] = true
			if !strings.HasPrefix(link, "/ui/") {
				t.Errorf("%s links to %s, which is outside of the prefix", path, link)
			}
			if link == "/ui/nodes/" || link == "/ui/pods" {
				continue // the script and the form add a name
			}
			if w := get(h, link); w.Code != http.StatusOK && w.Code != http.StatusNoContent {
				t.Errorf("%s links to %s: status %d", path, link, w.Code)
			}
		}
	}
	if len(seen) < 200 {
		t.Errorf("%d links only", len(seen))
	}
}

func TestAKindListsItsOldestPods(t *testing.T) {
	s := &dashboarddata.Source{Nodes: 5, Kinds: 4, Pods: 9000}
	page := text(t, pagesOf("", s), "/kinds/ml/kind-0", http.StatusOK)
	contains(t, page, "The 300 oldest of 4,500 pods")
	if rows := strings.Count(page, "<tr>"); rows != 301 {
		t.Errorf("%d rows", rows)
	}
}

func TestNoPodWaits(t *testing.T) {
	h := pagesOf("", &dashboarddata.Source{Nodes: 3})
	page := text(t, h, "/", http.StatusOK)
	contains(t, page, "No pod waits.", "none is stranded")
	if help := text(t, h, "/parts/help", http.StatusOK); strings.TrimSpace(help) != "" {
		t.Errorf("help without a pod: %s", help)
	}
}

func TestFindingAPod(t *testing.T) {
	h := pagesOf("/ui", cluster())
	for query, location := range map[string]string{
		"ml/llama-train-0": "/ui/pods/ml/llama-train-0", "web-0": "/ui/pods/default/web-0", "a/b c": "/ui/pods/a/b%20c",
	} {
		w := get(h, "/ui/pods?pod="+strings.ReplaceAll(query, " ", "+"))
		if got := w.Header().Get("Location"); w.Code != http.StatusFound || got != location {
			t.Errorf("%s leads to %q with status %d, not to %q", query, got, w.Code, location)
		}
	}
	contains(t, text(t, h, "/ui/pods?pod=a/b/c", http.StatusBadRequest), "Write the namespace and the name")
}

func TestTheMapHasACellForEachNode(t *testing.T) {
	var m roomMap
	h := pagesOf("", cluster())
	if err := json.Unmarshal([]byte(text(t, h, "/data/room?resource=nvidia.com/gpu", http.StatusOK)), &m); err != nil {
		t.Fatal(err)
	}
	cells, hatched := 0, 0
	for _, pool := range m.Pools {
		cells += pool.Nodes
	}
	for i, flags := range m.Flags {
		if flags&1 != 0 {
			hatched++
			if m.Percents[i] < strandedPercent {
				t.Errorf("%s is stranded with %d %% free", m.Names[i], m.Percents[i])
			}
		}
	}
	if cells != 400 || len(m.Names) != 400 || len(m.Percents) != 400 || len(m.Which) != 400 || hatched == 0 {
		t.Errorf("%d cells, %d names, %d hatched", cells, len(m.Names), hatched)
	}
}

func TestNewDecisionsOnly(t *testing.T) {
	s := cluster()
	h := pagesOf("", s)
	text(t, h, "/parts/decisions?after=41200", http.StatusNoContent)
	s.New = 2
	page := text(t, h, "/parts/decisions?after=41200", http.StatusOK)
	if rows := strings.Count(page, "<tr>"); rows != 2 {
		t.Errorf("%d rows for 2 decisions", rows)
	}
	s.New = 1000
	contains(t, text(t, h, "/parts/decisions?after=41202", http.StatusOK), "more decisions than are shown")
	s.New = 0
	// Another leader counts from 1.
	contains(t, text(t, h, "/parts/decisions?after=99999999", http.StatusOK), "after=42202")
}

func TestLargeClustersMakeSmallPages(t *testing.T) {
	h := pagesOf("", &dashboarddata.Source{Nodes: 5000, Kinds: 2000, Pods: 10000})
	for _, path := range []string{"/", "/?all=1", "/kinds/ml/kind-0", "/nodes", "/data/room", "/decisions",
		"/parts/health?last=8h"} {
		size := len(text(t, h, path, http.StatusOK))
		t.Logf("%s: %d bytes", path, size)
		if size > 1<<20 {
			t.Errorf("%s has %d bytes", path, size)
		}
	}
}
