// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"slices"
	"time"
)

const (
	// viewsPerSecond is how often parts of the first page are loaded each second by ten viewers,
	// whose pages load them every five seconds.
	viewsPerSecond = 2
	// rowsPerSecond is how many rows about kinds they load: each viewer loads ten, and those of
	// the three kinds for which help is looked for, every minute.
	rowsPerSecond = 2
	// roomEvery is after how many views the room on nodes is loaded: every 15 seconds.
	roomEvery = 3
	// pageEvery is after how many views somebody opens the page.
	pageEvery = 8
)

// views are the parts of the first page of the dashboard but for the room.
var views = []string{"parts/verdict", "parts/kinds", "parts/health", "parts/profiles"}

// rowLink is a link to what a row about a kind of pods loads.
var rowLink = regexp.MustCompile(`hx-get="(/ui/parts/why[^"]*)"`)

// view does what ten viewers of the first page of the dashboard do in a second.
func view(ctx context.Context, q *questions) {
	for range viewsPerSecond {
		parts := views
		if q.views%pageEvery == 0 {
			q.open(ctx)
		}
		if q.views++; q.views%roomEvery == 0 {
			parts = append(slices.Clone(views), "parts/room", "data/room")
		}
		for _, part := range parts {
			text := q.send(ctx, part, http.MethodGet, "/ui/"+part, nil)
			if part != "parts/kinds" {
				continue
			}
			q.rows = nil
			for _, link := range rowLink.FindAllSubmatch(text, -1) {
				q.rows = append(q.rows, html.UnescapeString(string(link[1])))
			}
		}
	}
	for range min(rowsPerSecond, len(q.rows)) {
		q.next++
		q.send(ctx, "rows", http.MethodGet, q.rows[q.next%len(q.rows)], nil)
	}
}

// open opens the first page.
func (q *questions) open(ctx context.Context) {
	began := time.Now()
	if text := q.send(ctx, "page", http.MethodGet, "/ui/", nil); text != nil {
		q.pages, q.largest = append(q.pages, time.Since(began)), max(q.largest, len(text))
	}
}
