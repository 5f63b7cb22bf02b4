// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	// What a manager links registers controller_runtime_* and the provider of workqueue_*.
	_ "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// scrape reads the endpoint as the manager serves it: an error of the gatherer results in a 500.
func scrape(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(ctrlmetrics.Registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %s: %s", response.Status, body)
	}
	return string(body)
}

func TestTheEndpointServesBothRegistries(t *testing.T) {
	Register()
	schedmetrics.PodScheduled("default-scheduler", 0.01)
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "profiles"})
	defer queue.ShutDown()
	queue.Add("default-scheduler")

	body := scrape(t)
	// The parser rejects a family that appears twice.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("parsing the scrape: %v", err)
	}
	for _, name := range []string{
		"scheduler_schedule_attempts_total",
		"scheduler_scheduling_attempt_duration_seconds",
		"scheduler_pod_scheduling_attempts",
		"controller_runtime_webhook_panics_total",
		"workqueue_depth",
		"go_goroutines",
		"process_cpu_seconds_total",
		"registered_metrics_total",
		"livesched_reloads_total",
		"livesched_reload_build_duration_seconds",
		"livesched_reload_swap_duration_seconds",
		"livesched_reload_standstill_duration_seconds",
		"livesched_profiles",
		"livesched_profile_generations",
		"livesched_retired_generation_pods",
		"livesched_bind_calls",
		"livesched_fast_path_differences_total",
	} {
		if families[name] == nil {
			t.Errorf("no family %s on the endpoint", name)
		}
	}
	if got := len(families["livesched_reloads_total"].GetMetric()); got != 3 {
		t.Errorf("livesched_reloads_total has %d series before the first reload, want one for each result", got)
	}
}

func TestNothingOfEitherRegistryIsLeftOut(t *testing.T) {
	Register()
	served := map[string]bool{}
	merged, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for i, family := range merged {
		if i > 0 && merged[i-1].GetName() >= family.GetName() {
			t.Errorf("families out of order or twice: %s, %s", merged[i-1].GetName(), family.GetName())
		}
		served[family.GetName()] = true
	}
	kubernetes, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range kubernetes {
		if !served[family.GetName()] {
			t.Errorf("family %s is not served", family.GetName())
		}
	}
}

func TestRegisterIsIdempotent(t *testing.T) {
	Register()
	registry := ctrlmetrics.Registry
	Register()
	if ctrlmetrics.Registry != registry {
		t.Error("a second call replaced the registry")
	}
}

func TestOwnMetricsFollowThePrometheusConventions(t *testing.T) {
	Register()
	problems, err := testutil.GatherAndLint(ctrlmetrics.Registry,
		"livesched_reloads_total", "livesched_reload_build_duration_seconds", "livesched_reload_swap_duration_seconds",
		"livesched_reload_standstill_duration_seconds", "livesched_profiles", "livesched_profile_generations",
		"livesched_pending_pods", "livesched_retired_generation_pods", "livesched_plugin_event_handler_panics_total")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}
