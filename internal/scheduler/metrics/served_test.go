// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var update = flag.Bool("update", false, "write the list of metrics into testdata")

// servedMetrics lists the metrics that alerts and dashboards may use. The tests of
// hack/release/monitoring, a module that cannot ask the registries, read it.
const servedMetrics = "testdata/served.txt"

// knownValues are all values of labels that have few.
var knownValues = map[string][]string{
	"livesched_reloads_total result": {ReloadSucceeded, ReloadFailed, ReloadRejected},
	"livesched_pending_pods queue": {QueueActive, QueueBackoff, QueueUnschedulable,
		QueueGated},
	"livesched_bind_calls state":                             {BindCallRunning, BindCallWaiting, BindCallOverdue},
	"livesched_events_lost_total reason":                     {EventLostFull, EventLostRefused, EventLostStopped},
	"livesched_decisions_total path":                         {PathFast, PathScalar},
	"livesched_fast_path_class_lookups_total result":         {ClassHit, ClassNew, ClassEvicted},
	"livesched_pod_group_scheduling_duration_seconds result": {GroupScheduled, GroupUnschedulable, GroupFailed},
	"scheduler_pending_pods queue": {QueueActive, QueueBackoff, QueueUnschedulable,
		QueueGated},
	"scheduler_queued_entities queue": {QueueActive, QueueBackoff, QueueUnschedulable,
		QueueGated},
	"scheduler_queued_entities type":               {schedmetrics.Pod, schedmetrics.PodGroup},
	"scheduler_queue_incoming_entities_total type": {schedmetrics.Pod, schedmetrics.PodGroup},
	"scheduler_schedule_attempts_total result": {schedmetrics.ScheduledResult,
		schedmetrics.UnschedulableResult, schedmetrics.ErrorResult},
	"scheduler_scheduling_attempt_duration_seconds result": {schedmetrics.ScheduledResult,
		schedmetrics.UnschedulableResult, schedmetrics.ErrorResult},
}

func TestServedMetricsAreListed(t *testing.T) {
	Register()
	merged, ok := ctrlmetrics.Registry.(mergedRegistry)
	if !ok {
		t.Fatalf("the registry is a %T", ctrlmetrics.Registry)
	}
	list := map[string]string{}
	for _, registry := range []prometheus.Registerer{legacyregistry.Registerer(), merged.Registerer} {
		maps.Copy(list, described(t, registry))
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		lines.WriteString(strings.TrimSpace(name+" "+list[name]) + "\n")
	}
	if *update {
		if err := os.WriteFile(servedMetrics, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(servedMetrics)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), lines.String()); diff != "" {
		t.Errorf("%s is out of date: go test ./internal/scheduler/metrics -update (-listed +served):\n%s",
			servedMetrics, diff)
	}
}

// described are the labels of the metrics of a registry by name, with their values if they are
// known. It leaves out what no alert or dashboard of ours needs.
func described(t *testing.T, registerer prometheus.Registerer) map[string]string {
	t.Helper()
	collector, ok := registerer.(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry is a %T, which does not describe itself", registerer)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		collector.Describe(descriptions)
	}()
	pattern := regexp.MustCompile(`^Desc\{fqName: ` +
		`"((?:livesched|scheduler|dynamic_resource_allocation|leader_election)_\w+|` +
		`process_(?:cpu_seconds_total|resident_memory_bytes))", .* ` +
		`variableLabels: \{(.*)\}\}$`)
	labels := map[string]string{}
	for d := range descriptions {
		match := pattern.FindStringSubmatch(d.String())
		if match == nil {
			continue
		}
		var described []string
		for _, label := range strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if values := knownValues[match[1]+" "+label]; values != nil {
				label += "=" + strings.Join(slices.Sorted(slices.Values(values)), "|")
			}
			described = append(described, label)
		}
		labels[match[1]] = strings.Join(described, " ")
	}
	return labels
}
