// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livesched/livesched/internal/loadhistory"
	"github.com/livesched/livesched/test/dashboarddata"
)

// withPrometheus returns the pages of a source, with charts from a Prometheus.
func withPrometheus(t *testing.T, s Source, p *dashboarddata.Prometheus) http.Handler {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	history, err := loadhistory.New(&loadhistory.Config{URL: strings.Replace(server.URL, "//", "//reader:secret@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	return NewHandler("/ui", func(*http.Request) (Source, error) { return s, nil }, history)
}

// chartIn returns the chart in a page.
func chartIn(t *testing.T, page string) (c struct {
	T     []int64
	Bound []*float64
	Until []*float64 `json:"untilBound"`
	Marks []chartMark
}) {
	t.Helper()
	_, text, _ := strings.Cut(page, `data-chart="`)
	text, _, _ = strings.Cut(text, `"`)
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChartsOfDays(t *testing.T) {
	h := withPrometheus(t, cluster(), &dashboarddata.Prometheus{})
	contains(t, text(t, h, "/ui/?last=7d", http.StatusOK), `<option value="7d" selected>7 days</option>`,
		`<option value="30d">`)
	contains(t, text(t, h, "/ui/parts/health?last=7d", http.StatusOK), "times in UTC", "once in the 28 min before",
		"leader")
	page := text(t, h, "/ui/parts/health?last=30d", http.StatusOK)
	c := chartIn(t, page)
	if days := float64(c.T[len(c.T)-1]-c.T[0]) / (24 * 60 * 60); days < 29.9 || days > 30.1 {
		t.Errorf("the chart has %g days", days)
	}
	if len(c.T) != loadhistory.Points || len(c.Bound) != len(c.T) || len(c.Until) != len(c.T) || len(c.Marks) < 14 {
		t.Errorf("%d points, %d and %d values, %d marks", len(c.T), len(c.Bound), len(c.Until), len(c.Marks))
	}
	// Hours are those of the replica.
	if c := chartIn(t, text(t, h, "/ui/parts/health?last=8h", http.StatusOK)); c.Until != nil {
		t.Error("the chart of hours is from Prometheus")
	}
}

func TestWithoutPrometheusChartsShowHours(t *testing.T) {
	page := text(t, pagesOf("/ui", cluster()), "/ui/?last=7d", http.StatusOK)
	if strings.Contains(page, "7 days") || strings.Contains(page, "Prometheus") {
		t.Error("the page offers days")
	}
	contains(t, page, `<option value="15m" selected>`)
}

func TestPrometheusGivesNoAnswer(t *testing.T) {
	p := &dashboarddata.Prometheus{}
	p.Status.Store(http.StatusServiceUnavailable)
	page := text(t, withPrometheus(t, cluster(), p), "/ui/parts/health?last=7d", http.StatusOK)
	contains(t, page, "Prometheus gave no answer:", "server error: 503", "The charts show the last 8 h", "leader")
	if c := chartIn(t, page); len(c.T) < 300 || c.T[len(c.T)-1]-c.T[0] > 8*60*60 {
		t.Errorf("the chart has %d points", len(c.T))
	}
	if strings.Contains(page, "secret") || strings.Contains(page, "reader") {
		t.Error("the page has the credentials of Prometheus")
	}
}

// hung is a History that does not answer.
type hung struct{}

func (hung) Load(ctx context.Context, _ time.Duration) (*loadhistory.Load, error) {
	<-ctx.Done()
	return nil, errors.New("it did not answer in time")
}

func TestAPrometheusThatIsSlowDoesNotHoldUpThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := NewHandler("", func(*http.Request) (Source, error) { return cluster(), nil }, hung{})
		contains(t, text(t, h, "/?last=7d", http.StatusOK), "it did not answer in time", "The charts show the last 8 h",
			"312 pods wait", "a100")
		if took := time.Since(began); took != partTime {
			t.Errorf("the page took %s", took)
		}
	})
}

// TestDaysAreForThoseWhoMaySeeTheLoad asks Prometheus for nobody else.
func TestDaysAreForThoseWhoMaySeeTheLoad(t *testing.T) {
	s, p := cluster(), &dashboarddata.Prometheus{}
	s.Errors = map[string]error{"LoadSamples": dashboarddata.Forbidden()}
	page := text(t, withPrometheus(t, s, p), "/ui/parts/health?last=7d", http.StatusOK)
	contains(t, page, "You may not see this.")
	if asked := p.Asked.Load(); asked != 0 || strings.Contains(page, "data-chart=\"{") {
		t.Errorf("Prometheus was asked %d times", asked)
	}
}
