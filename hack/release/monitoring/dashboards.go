// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// Units of Grafana.
const (
	number    = "short"
	perSecond = "cps"
	seconds   = "s"
	bytesIEC  = "bytes"
	cores     = "none"
)

// all selects livesched's replicas, one selects a label of these, of selects the profiles, too.
const (
	all = `job="livesched", namespace="$namespace"`
	of  = all + `, profile=~"$profile"`
)

// rate is how much a counter grows in a second, summed up by labels.
func rate(by, metric, selector string) string {
	return "sum" + byLabels(by) + " (rate(" + metric + "{" + selector + "}[$__rate_interval]))"
}

// largest is the largest value of all replicas by labels: followers have a queue and profiles, too.
func largest(by, metric, selector string) string {
	return "max" + byLabels(by) + " (" + metric + "{" + selector + "})"
}

func byLabels(labels string) string {
	if labels == "" {
		return ""
	}
	return " by (" + labels + ")"
}

// quantiles are the median and the 99th percentile of a histogram.
func quantiles(metric, selector string) []query {
	buckets := rate("le", metric+"_bucket", selector)
	return []query{{"histogram_quantile(0.5, " + buckets + ")", "median"},
		{"histogram_quantile(0.99, " + buckets + ")", "p99"}}
}

// legend names labels in a legend.
func legend(labels ...string) string {
	return "{{" + strings.Join(labels, "}} {{") + "}}"
}

var dashboards = []dashboard{
	{
		file: "scheduling.json", uid: "livesched-scheduling", title: "livesched / Scheduling",
		description: "What happens to pods, how long it takes, and what takes the time.",
		panels: []panel{
			{"Attempts", "Attempts to schedule a pod, by result.", perSecond,
				[]query{{rate("result", "scheduler_schedule_attempts_total", of), legend("result")}}, true},
			{"Pending pods", "Pods that are ready to be tried (active), wait after a failure (backoff), fit nowhere " +
				"(unschedulable) or are held back (gated).", number,
				[]query{{"sum by (queue) (" + largest("profile, queue", "livesched_pending_pods", of) + ")",
					legend("queue")}}, true},
			{"Time until bound", "From when a pod may be tried until it is bound. All profiles.", seconds,
				quantiles("scheduler_pod_scheduling_sli_duration_seconds", all), false},
			{"Duration of a decision", "Filter, score and preemption, for one pod. All profiles.", seconds,
				quantiles("scheduler_scheduling_algorithm_duration_seconds", all), false},
			{"Slow cycles", "Scheduling cycles of 100 ms or longer, by profile. The log names what took longest.",
				perSecond,
				[]query{{rate("profile", "livesched_slow_scheduling_cycles_total", of), legend("profile")}}, false},
			{"Decisions by path", "On which path decisions are made, and why. All profiles.", perSecond,
				[]query{{rate("path, reason", "livesched_decisions_total", all), legend("path", "reason")}}, true},
			{"Binding", "Pods that are being bound, wait to be bound, or are in a call that hangs.", number,
				[]query{{"sum by (state) (livesched_bind_calls{" + all + "})", legend("state")}}, false},
			{"Time by extension point", "Seconds of each second that the extension points take.", seconds,
				[]query{{rate("extension_point", "scheduler_framework_extension_point_duration_seconds_sum", of),
					legend("extension_point")}}, true},
			{"Slowest plugins",
				"Seconds of each second that plugins take, measured in some of the cycles. All profiles.", seconds,
				[]query{{"topk(5, " + rate("plugin, extension_point", "scheduler_plugin_execution_duration_seconds_sum",
					all) + ")", legend("plugin", "extension_point")}}, false},
			{"Refused by", "Pods in the queue by the plugins that refused them last.", number,
				[]query{{"sum by (plugin) (" + largest("plugin, profile", "scheduler_unschedulable_pods", of) + ")",
					legend("plugin")}}, true},
			{"Preemption", "Attempts to make room, and pods that had to go. All profiles.", perSecond, []query{
				{rate("", "scheduler_preemption_attempts_total", all), "attempts"},
				{rate("", "scheduler_preemption_victims_sum", all), "victims"},
			}, false},
			{"Extenders", "Calls without a valid answer in time, and 1 while livesched does not call a verb because " +
				"they failed.", number, []query{
				{rate("policy, extender, verb", "livesched_extender_failures_total", all),
					legend("policy", "extender", "verb") + " failures/s"},
				{largest("policy, extender, verb", "livesched_extender_circuit_open", all),
					legend("policy", "extender", "verb") + " not called"},
			}, false},
		},
	},
	{
		file: "profiles.json", uid: "livesched-profiles", title: "livesched / Profiles and reloads",
		description: "Profiles, their pods, and what a change of a profile does.",
		panels: []panel{
			{"Profiles",
				"Active profiles, and instances of profiles: a replaced one lives until its last pod has left.", number,
				[]query{
					{largest("", "livesched_profiles", all), "profiles"},
					{largest("", "livesched_profile_generations", all), "instances"},
				}, false},
			{"Reloads", "New profiles that were swapped in, builds that failed, and specs that were not accepted.",
				number,
				[]query{{"max by (result) (increase(livesched_reloads_total{" + all + "}[$__rate_interval]))",
					legend("result")}}, false},
			{"Pods with a replaced instance", "Pods in progress whose profile has changed since.", number,
				[]query{{"sum by (pod) (livesched_retired_generation_pods{" + all + "})", legend("pod")}}, false},
			{"Duration of builds", "Time to build one profile.", seconds,
				quantiles("livesched_reload_build_duration_seconds", all), false},
			{"Duration of swaps",
				"Until all pending pods of changed profiles have been checked again. Scheduling goes on.", seconds,
				quantiles("livesched_reload_swap_duration_seconds", all), false},
			{"Standstill", "Longest time for which a swap kept pods from being taken from the queue.", seconds,
				quantiles("livesched_reload_standstill_duration_seconds", all), false},
			{"Pods bound", "By profile.", perSecond,
				[]query{{rate("profile", "scheduler_schedule_attempts_total", of+`, result="scheduled"`),
					legend("profile")}}, true},
			{"Pods waiting", "By profile.", number,
				[]query{{"sum by (profile) (" + largest("profile, queue", "livesched_pending_pods", of) + ")",
					legend("profile")}}, true},
			{"Errors", "Attempts that ended with an error, by profile.", perSecond,
				[]query{{rate("profile", "scheduler_schedule_attempts_total", of+`, result="error"`),
					legend("profile")}}, false},
			{"Events", "Events that wait to be written.", number,
				[]query{{"sum by (pod) (livesched_pending_events{" + all + "})", legend("pod")}}, false},
			{"Events lost", "By reason.", number,
				[]query{{"sum by (reason) (increase(livesched_events_lost_total{" + all + "}[$__rate_interval]))",
					legend("reason")}}, false},
			{"Panics of event handlers", "Since the start of a replica, by plugin and kind of object.", number,
				[]query{{"sum by (plugin, kind) (livesched_plugin_event_handler_panics_total{" + all + "})",
					legend("plugin", "kind")}}, false},
		},
	},
	{
		file: "capacity.json", uid: "livesched-capacity", title: "livesched / Capacity",
		description: "The size of the cluster, and what livesched needs for it.",
		panels: []panel{
			{"Nodes and pods", "In the cache of a replica.", number,
				[]query{{largest("type", "scheduler_cache_size", all), legend("type")}}, false},
			{"CPU", "Cores that each replica uses.", cores,
				[]query{{rate("pod", "process_cpu_seconds_total", all), legend("pod")}}, false},
			{"Memory", "Resident memory of each replica.", bytesIEC,
				[]query{{"sum by (pod) (process_resident_memory_bytes{" + all + "})", legend("pod")}}, false},
			{"Leader", "1 for the replica that leads.", number, []query{
				{"sum by (pod) (leader_election_master_status{" + all + "})", legend("pod")},
				{"sum by (pod) (livesched_takeover_catching_up{" + all + "})", legend("pod") + " catches up"},
			}, false},
			{"Memory of the fast path", "What it keeps, and its limit.", bytesIEC, []query{
				{largest("", "livesched_fast_path_memory_bytes", all), "kept"},
				{largest("", "livesched_fast_path_memory_limit_bytes", all), "limit"},
			}, false},
			{"Lookups of pod classes", "A class that was evicted not long ago has to be computed again.", perSecond,
				[]query{{rate("result", "livesched_fast_path_class_lookups_total", all), legend("result")}}, true},
			{"Classes of pods", "Classes that the fast path keeps, and label keys that distinguish them.", number,
				[]query{
					{largest("", "livesched_fast_path_classes", all), "classes"},
					{largest("", "livesched_fast_path_label_keys", all), "label keys"},
				}, false},
			{"Evictions of classes", "Because of the memory limit.", perSecond,
				[]query{{rate("", "livesched_fast_path_evictions_total", all), "classes"}}, false},
			{"Differences of the fast path", "Only counted with --fast-path=verify.", number,
				[]query{{"sum(increase(livesched_fast_path_differences_total{" + all + "}[$__rate_interval]))",
					"decisions"}}, false},
			{"What wakes pods", "Pods that enter a queue, by the event.", perSecond,
				[]query{{"topk(10, " + rate("event, queue", "scheduler_queue_incoming_pods_total", all) + ")",
					legend("event", "queue")}}, false},
			{"Handling of events",
				"Time in which each replica handles changes of the cluster, in seconds of each second.", seconds,
				[]query{{"topk(10, " + rate("event", "scheduler_event_handling_duration_seconds_sum", all) + ")",
					legend("event")}}, false},
			{"Goroutines", "That bind, filter, score or call extenders.", number,
				[]query{{largest("operation", "scheduler_goroutines", all), legend("operation")}}, false},
		},
	},
}
