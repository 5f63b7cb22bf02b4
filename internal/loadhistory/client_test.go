// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loadhistory

import (
	"context"
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livesched/livesched/test/dashboarddata"
)

var update = flag.Bool("update", false, "write the files in testdata")

// serve serves a Prometheus until the end of the test.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func newClient(t *testing.T, c *Config) *Client {
	t.Helper()
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestLoadOfDays(t *testing.T) {
	p := &dashboarddata.Prometheus{}
	client := newClient(t, &Config{URL: serve(t, p)})
	for _, days := range []int{1, 7, 30} {
		last := time.Duration(days) * 24 * time.Hour
		load, err := client.Load(t.Context(), last)
		if err != nil {
			t.Fatal(err)
		}
		if first := time.Since(load.Time(0)); first < last || first > last+time.Minute {
			t.Errorf("%d days: the first point is %s ago", days, first)
		}
		for name, column := range map[string][]float64{"bound": load.Bound, "unschedulable": load.Unschedulable,
			"failed": load.Failed, "active": load.Active, "backoff": load.Backoff, "waiting": load.Waiting,
			"gated": load.Gated, "attempt": load.Attempt, "until bound": load.UntilBound, "reloads": load.Reloads} {
			if len(column) != Points || slices.ContainsFunc(column, math.IsNaN) {
				t.Errorf("%d days: %s has %d points, or misses some", days, name, len(column))
			}
		}
		if most := slices.Max(load.Bound); most < 90 || most > 100 {
			t.Errorf("%d days: at most %g pods are bound a second", days, most)
		}
		if slices.Max(load.Failed) != 0 || slices.Max(load.Attempt) > 0.03 || slices.Max(load.UntilBound) < 0.3 {
			t.Errorf("%d days: a column has the values of another one", days)
		}
		reloads := 0.0
		for _, n := range load.Reloads {
			reloads += n
		}
		if reloads < float64(days/2) || reloads > float64(days/2+1) {
			t.Errorf("%d days: %g reloads", days, reloads)
		}
	}
}

func TestPrometheusIsAskedOnceInAMinute(t *testing.T) {
	p := &dashboarddata.Prometheus{}
	client := newClient(t, &Config{URL: serve(t, p)})
	var viewers sync.WaitGroup
	for range 10 {
		viewers.Go(func() {
			if _, err := client.Load(t.Context(), 24*time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	viewers.Wait()
	if asked := p.Asked.Load(); asked != 5 {
		t.Errorf("%d queries for 10 viewers, not 5", asked)
	}
}

func TestErrorsSayWhyWithoutCredentials(t *testing.T) {
	moved := http.RedirectHandler("https://sign-in.example/?token=secret", http.StatusFound)
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // reads the body: a server notices then that the client is gone
		<-r.Context().Done()
	})
	huge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":"` + strings.Repeat("x", maxAnswer) + `"}`))
	})
	closed := httptest.NewServer(moved)
	closed.Close()
	refusing := &dashboarddata.Prometheus{}
	refusing.Status.Store(http.StatusBadRequest)
	broken := &dashboarddata.Prometheus{}
	broken.Status.Store(http.StatusInternalServerError)
	for name, test := range map[string]struct {
		url, want string
	}{
		"closed":     {closed.URL, "it cannot be reached: the connection was refused"},
		"no token":   {serve(t, &dashboarddata.Prometheus{Token: "t"}), "client error: 401"},
		"refused":    {serve(t, refusing), "with an error: exceeded maximum resolution"},
		"broken":     {serve(t, broken), "server error: 500"},
		"no series":  {serve(t, &dashboarddata.Prometheus{Empty: true}), `no series of livesched with job="livesched", namespace="n"`},
		"redirected": {serve(t, moved), "bad response code 302"},
		"slow":       {serve(t, slow), "it did not answer in time"},
		"huge":       {serve(t, huge), "it answered with an error: "},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, &Config{URL: strings.Replace(test.url, "://", "://user:secret@", 1), Namespace: "n"})
			limit := 8 * time.Second
			if name == "slow" {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := client.Load(ctx, time.Hour)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, not %q", err, test.want)
			}
			if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "user") {
				t.Errorf("the error has the credentials: %s", text)
			}
		})
	}
}

func TestAnErrorIsKeptForALittleWhile(t *testing.T) {
	p := &dashboarddata.Prometheus{}
	p.Status.Store(http.StatusInternalServerError)
	client := newClient(t, &Config{URL: serve(t, p)})
	for range 3 {
		if _, err := client.Load(t.Context(), time.Hour); err == nil {
			t.Fatal("no error")
		}
	}
	if asked := p.Asked.Load(); asked > 5 {
		t.Errorf("%d queries in three tries", asked)
	}
	p.Status.Store(0)
	client.kept[time.Hour].until = time.Now()
	if _, err := client.Load(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

func TestTheTokenIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, &Config{URL: serve(t, &dashboarddata.Prometheus{Token: "t0ken"}), TokenFile: file})
	if _, err := client.Load(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if _, err := New(&Config{URL: "https://a", TokenFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a file that does not exist is accepted")
	}
}

func TestWhatIsNotAllowed(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{URL: "prometheus:9090"}, "must be a URL of Prometheus"},
		{Config{URL: "http://"}, "must be a URL of Prometheus"},
		{Config{URL: "http://u:secret@a b/"}, "must be a URL of Prometheus"},
		{Config{URL: "http://a?token=secret"}, "without a query"},
		{Config{URL: "http://u:secret@a", TokenFile: "f"}, "must have no user"},
		{Config{URL: "http://a", CAFile: "f"}, "must be an https URL"},
		{Config{URL: "http://a", TokenFile: "f"}, "clear text"},
		{Config{URL: "http://u:secret@prometheus.monitoring:9090"}, "clear text"},
		{Config{URL: "http://127.0.0.1:1", TokenFile: "/none"}, "no such file"},
	} {
		_, err := New(&test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", test.config, err)
		}
	}
}

// TestQueriesAreWritten writes the queries with -update. hack/release/monitoring runs those in the
// file with Prometheus' engine, over what livesched serves.
func TestQueriesAreWritten(t *testing.T) {
	var text strings.Builder
	for _, q := range new(Load).queries(selectorOf("livesched-system"), leastRate) {
		text.WriteString(q.expression + "\n")
	}
	file := filepath.Join("testdata", "queries.txt")
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil || string(written) != text.String() {
		t.Errorf("%s is out of date (%v): go test ./internal/loadhistory -update", file, err)
	}
}
