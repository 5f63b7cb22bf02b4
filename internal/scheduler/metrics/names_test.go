// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// registered are the metrics of kube-scheduler with the default feature gates, by name without
// scheduler_, with their labels. The endpoint serves all of them. The ones marked "never" have no
// meaning here and are never observed.
var registered = map[string]string{
	// never: livesched does not batch (KEP-5598)
	"batch_attempts_total":                    "profile,result",
	"batch_cache_flushed_total":               "profile,reason", // never: as above
	"batch_rescore_attempts_total":            "profile",        // never: as above
	"batch_rescore_duration_seconds":          "profile",        // never: as above
	"get_node_hint_duration_seconds":          "hinted,profile", // never: as above
	"store_schedule_results_duration_seconds": "profile",        // never: as above
	"cache_size": "type", // cache/metrics.go
	"dra_bindingconditions_allocations_total":     "profile,driver,status", // by the DynamicResources plugin
	"dra_bindingconditions_wait_duration_seconds": "profile,driver,status", // by the DynamicResources plugin
	// by the DynamicResources plugin
	"dynamic_resource_allocation_resourceclaim_creates_total": "status,admin_access,owner_api_group,owner_api_kind",
	"event_handling_duration_seconds":                         "event", // eventhandlers
	// framework, algorithm/filter.go, queue/preenqueue.go
	"framework_extension_point_duration_seconds": "extension_point,status,profile",
	// framework/parallelizer.go, binding, algorithm/extender.go
	"goroutines":                   "operation",
	"inflight_events":              "event",                          // queue/inflight.go
	"pending_pods":                 "queue",                          // queue/metrics.go
	"permit_wait_duration_seconds": "result",                         // framework/permit.go
	"plugin_evaluation_total":      "plugin,extension_point,profile", // framework
	// framework/call.go, queue/preenqueue.go
	"plugin_execution_duration_seconds":   "plugin,extension_point,status",
	"pod_scheduled_after_flush_total":     "",         // binding/report.go
	"pod_scheduling_attempts":             "",         // binding/report.go
	"pod_scheduling_sli_duration_seconds": "attempts", // binding/report.go
	// never: an event calls a hint once for all pods that it cannot tell apart (queue/waiting.go),
	// so the queue has no use for the hints that choose pods before
	"pre_queueing_hint_evaluations_total":      "plugin,result",
	"preemption_attempts_total":                "",                  // by the DefaultPreemption plugin
	"preemption_goroutines_duration_seconds":   "result",            // by the DefaultPreemption plugin
	"preemption_goroutines_execution_total":    "result",            // by the DefaultPreemption plugin
	"preemption_victims":                       "",                  // by the DefaultPreemption plugin
	"queue_incoming_entities_total":            "queue,event,type",  // queue/metrics.go
	"queue_incoming_pods_total":                "queue,event",       // queue/metrics.go
	"queued_entities":                          "queue,type",        // queue/metrics.go
	"queueing_hint_execution_duration_seconds": "plugin,event,hint", // queue/hints.go
	"schedule_attempts_total":                  "result,profile",    // binding/report.go, failure
	"scheduling_algorithm_duration_seconds":    "",                  // loop/decide.go
	"scheduling_attempt_duration_seconds":      "result,profile",    // binding/report.go, failure
	"unschedulable_pods":                       "plugin,profile",    // queue/metrics.go
	"volume_binder_cache_requests_total":       "operation",         // by the VolumeBinding plugin
	"volume_scheduling_stage_error_total":      "operation",         // by the VolumeBinding plugin
}

// If a version of Kubernetes adds or removes a metric, find the code that must observe it here.
func TestEveryMetricOfKubeSchedulerIsAccountedFor(t *testing.T) {
	Register()
	collector, ok := legacyregistry.Registerer().(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry is a %T, which does not describe itself", legacyregistry.Registerer())
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		collector.Describe(descriptions)
	}()
	pattern := regexp.MustCompile(
		`^Desc\{fqName: "(?:scheduler_(\w+)|(dynamic_resource_allocation_\w+))", .* variableLabels: \{(.*)\}\}$`)
	got := map[string]string{}
	for d := range descriptions {
		if match := pattern.FindStringSubmatch(d.String()); match != nil {
			got[match[1]+match[2]] = strings.ReplaceAll(match[3], " ", "")
		}
	}
	if diff := cmp.Diff(registered, got); diff != "" {
		t.Errorf("metrics (-accounted for +registered):\n%s", diff)
	}
}
