// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is what Prometheus has scraped, once a minute, and which alerts fire then.
type scenario struct {
	name   string
	series []string
	at     time.Duration
	// fires are the labels of the alerts; nil if none fires.
	fires []string
}

// scenarios are those of each alert. In two replicas, "a" leads and "b" follows.
var scenarios = map[string][]scenario{
	"LiveschedDown": {
		{"no replica answers", []string{up("a", "0x10"), up("b", "0x10")}, 5 * time.Minute,
			[]string{`{job="livesched"}`}},
		{"Prometheus knows no replica", nil, 5 * time.Minute, []string{`{job="livesched"}`}},
		{"one replica answers", []string{up("a", "0x10"), up("b", "1x10")}, 5 * time.Minute, nil},
		{"another scheduler answers", []string{`up{job="kube-scheduler"} 1x10`}, 5 * time.Minute,
			[]string{`{job="livesched"}`}},
		{"for a short time", []string{up("a", "1 0x10")}, 5 * time.Minute, nil},
	},
	"LiveschedNoLeader": {
		{"both follow", []string{leads("a", "0x10"), leads("b", "0x10")}, 2 * time.Minute,
			[]string{`{namespace="livesched-system"}`}},
		{"one leads", []string{leads("a", "1x10"), leads("b", "0x10")}, 2 * time.Minute, nil},
		{"takeover", []string{leads("a", "1 0 0 0 0"), leads("b", "0 0 1 1 1")}, 3 * time.Minute, nil},
		{"without leader election", []string{up("a", "1x10")}, 5 * time.Minute, nil},
		{"kube-scheduler follows",
			[]string{`leader_election_master_status{job="kube-scheduler",namespace="kube-system"} 0x10`},
			5 * time.Minute, nil},
	},
	"LiveschedTakeoverStalled": {
		{"it waits", []string{own("takeover_catching_up", "a", "", "1x10"),
			own("takeover_catching_up", "b", "", "0x10")}, 2 * time.Minute, []string{replica("a")}},
		{"it has waited", []string{own("takeover_catching_up", "a", "", "1 1 0 0")}, 2 * time.Minute, nil},
	},
	"LiveschedBacklogGrows": {
		{"it grows", []string{
			own("pending_pods", "a", `profile="x",queue="active"`, "0+10x30"),
			own("pending_pods", "b", `profile="x",queue="active"`, "0+10x30"),
		}, 30 * time.Minute, []string{`{namespace="livesched-system"}`}},
		{"it is large and shrinks", []string{own("pending_pods", "a", `profile="x",queue="active"`, "5000-10x30")},
			30 * time.Minute, nil},
		{"it is small", []string{own("pending_pods", "a", `profile="x",queue="active"`, "0+1x30")},
			30 * time.Minute, nil},
		{"pods that fit nowhere", []string{own("pending_pods", "a", `profile="x",queue="unschedulable"`, "0+10x30")},
			30 * time.Minute, nil},
		{"a burst", []string{own("pending_pods", "a", `profile="x",queue="active"`, "0x20 5000-500x10")},
			30 * time.Minute, nil},
	},
	"LiveschedErrorAttempts": {
		{"a tenth", []string{attempts("a", "x", "error", "0+1x30"), attempts("a", "x", "scheduled", "0+9x30")},
			20 * time.Minute,
			[]string{`{namespace="livesched-system",profile="x"}`}},
		{"one in a hundred", []string{attempts("a", "x", "error", "0+1x30"),
			attempts("a", "x", "scheduled", "0+99x30")}, 20 * time.Minute, nil},
		{"pods that fit nowhere",
			[]string{attempts("a", "x", "unschedulable", "0+9x30"), attempts("a", "x", "error", "0x30")},
			20 * time.Minute, nil},
		{"nothing to schedule", []string{attempts("a", "x", "error", "7x30"), attempts("a", "x", "scheduled", "9x30")},
			20 * time.Minute, nil},
		{"errors of kube-scheduler",
			[]string{
				`scheduler_schedule_attempts_total{job="kube-scheduler",namespace="kube-system",profile="x",result="error"} 0+1x30`},
			20 * time.Minute, nil},
	},
	"LiveschedSlowCycles": {
		{"a tenth", []string{slow("x", "0+1x30"), attempts("a", "x", "scheduled", "0+9x30"),
			attempts("a", "x", "unschedulable", "0+1x30"), attempts("a", "y", "scheduled", "0+100x30")},
			20 * time.Minute, []string{`{namespace="livesched-system",profile="x"}`}},
		{"one in a hundred", []string{slow("x", "0+1x30"), attempts("a", "x", "scheduled", "0+100x30")},
			20 * time.Minute, nil},
		{"nothing to schedule", []string{slow("x", "7x30"), attempts("a", "x", "scheduled", "9x30")},
			20 * time.Minute, nil},
	},
	"LiveschedBindsWait": {
		{"all the time", []string{own("bind_calls", "a", `state="waiting"`, "5x20"),
			own("bind_calls", "b", `state="waiting"`, "0x20")}, 15 * time.Minute,
			[]string{`{namespace="livesched-system"}`}},
		{"now and then", []string{own("bind_calls", "a", `state="waiting"`, "5 0 5 5 0 5 5 0 5 5 0 5 5 0 5 5 0")},
			15 * time.Minute, nil},
		{"pods are bound", []string{own("bind_calls", "a", `state="running"`, "5x20")}, 15 * time.Minute, nil},
	},
	"LiveschedBindHangs": {
		{"one hangs", []string{own("bind_calls", "a", `state="overdue"`, "1x10")}, 5 * time.Minute,
			[]string{replica("a")}},
		{"it returned", []string{own("bind_calls", "a", `state="overdue"`, "1 1 0 0 0 0 0")}, 5 * time.Minute, nil},
	},
	"LiveschedReloadFailed": {
		{"on both replicas", []string{own("reloads_total", "a", `result="failure"`, "0x5 1x10"),
			own("reloads_total", "b", `result="failure"`, "0x5 1x10")},
			10 * time.Minute, []string{`{namespace="livesched-system"}`}},
		{"long ago", []string{own("reloads_total", "a", `result="failure"`, "0 1x30")}, 25 * time.Minute, nil},
		{"reloads succeed", []string{own("reloads_total", "a", `result="success"`, "0+1x10"),
			own("reloads_total", "a", `result="failure"`, "0x10")}, 10 * time.Minute, nil},
	},
	"LiveschedReloadRejected": {
		{"one", []string{own("reloads_total", "a", `result="rejected"`, "3x5 4x10")}, 10 * time.Minute,
			[]string{`{namespace="livesched-system"}`}},
		{"long ago", []string{own("reloads_total", "a", `result="rejected"`, "3 4x30")}, 25 * time.Minute, nil},
	},
	"LiveschedOldInstanceStays": {
		{"on one replica", []string{
			own("profile_generations", "a", "", "4x40"), own("profiles", "a", "", "3x40"),
			own("profile_generations", "b", "", "3x40"), own("profiles", "b", "", "3x40"),
		}, 30 * time.Minute, []string{replica("a")}},
		{"for a while", []string{own("profile_generations", "a", "", "4x20 3x20"), own("profiles", "a", "", "3x40")},
			30 * time.Minute, nil},
	},
	"LiveschedExtenderUnavailable": {
		{"it fails", []string{own("extender_circuit_open", "a", `policy="p",extender="e",verb="filter"`, "1x10"),
			own("extender_circuit_open", "a", `policy="p",extender="e",verb="bind"`, "0x10")},
			5 * time.Minute, []string{`{extender="e",namespace="livesched-system",policy="p",verb="filter"}`}},
		{"it recovered", []string{own("extender_circuit_open", "a", `policy="p",extender="e",verb="filter"`,
			"1 1 1 0x10")}, 5 * time.Minute, nil},
	},
	"LiveschedEventsLost": {
		{"some", []string{own("events_lost_total", "a", `reason="refused"`, "0x5 3x10"),
			own("events_lost_total", "a", `reason="full"`, "0x15")},
			10 * time.Minute, []string{`{namespace="livesched-system",reason="refused"}`}},
		{"long ago", []string{own("events_lost_total", "a", `reason="refused"`, "0 3x30")}, 25 * time.Minute, nil},
	},
	"LiveschedFastPathDiffers": {
		{"once", []string{own("fast_path_differences_total", "a", "", "0x5 1x10")}, 10 * time.Minute,
			[]string{`{namespace="livesched-system"}`}},
		{"never", []string{own("fast_path_differences_total", "a", "", "0x20")}, 10 * time.Minute, nil},
	},
	"LiveschedFastPathThrashes": {
		{"a fifth", []string{lookups("evicted", "0+2x40"), lookups("hit", "0+8x40")}, 40 * time.Minute,
			[]string{`{namespace="livesched-system"}`}},
		{"one in twenty", []string{lookups("evicted", "0+1x40"), lookups("hit", "0+19x40")}, 40 * time.Minute, nil},
		{"new classes", []string{lookups("evicted", "0x40"), lookups("new", "0+10x40")}, 40 * time.Minute, nil},
		{"nothing to schedule", []string{lookups("evicted", "5x40"), lookups("hit", "5x40")}, 40 * time.Minute, nil},
	},
	"LiveschedHandlerPanics": {
		{"until the replica is restarted",
			[]string{own("plugin_event_handler_panics_total", "a", `plugin="P",kind="Pod"`, "_x5 1x100")},
			90 * time.Minute, []string{`{kind="Pod",namespace="livesched-system",plugin="P",pod="a"}`}},
		{"restarted", []string{own("plugin_event_handler_panics_total", "a", `plugin="P",kind="Pod"`, "1x5 stale")},
			10 * time.Minute, nil},
	},
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	rules := readRules(t)
	for alert, rule := range rules {
		t.Run(alert, func(t *testing.T) {
			fires, quiet := false, false
			for _, s := range scenarios[alert] {
				var got []string
				for _, fired := range firing(t, rule, s.series, s.at) {
					got = append(got, strings.ReplaceAll(fired.Metric.String(), ", ", ","))
				}
				slices.Sort(got)
				if !slices.Equal(got, s.fires) {
					t.Errorf("%s: fires %v, want %v", s.name, got, s.fires)
				}
				fires, quiet = fires || s.fires != nil, quiet || s.fires == nil
			}
			if !fires || !quiet {
				t.Error("there must be a scenario in which it fires, and one in which it does not")
			}
		})
	}
	for alert := range maps.Keys(scenarios) {
		if _, exists := rules[alert]; !exists {
			t.Errorf("there is no alert %s", alert)
		}
	}
}

// target are the labels of a replica, with more labels before them.
func target(pod, more string) string {
	if more != "" {
		more += ","
	}
	return `{` + more + `job="livesched",namespace="livesched-system",pod="` + pod + `"} `
}

func replica(pod string) string { return `{namespace="livesched-system",pod="` + pod + `"}` }

func up(pod, values string) string { return "up" + target(pod, "") + values }

func leads(pod, values string) string {
	return "leader_election_master_status" + target(pod, `name="livesched"`) + values
}

func own(metric, pod, more, values string) string {
	return "livesched_" + metric + target(pod, more) + values
}

func attempts(pod, profile, result, values string) string {
	return "scheduler_schedule_attempts_total" + target(pod, `profile="`+profile+`",result="`+result+`"`) + values
}

func slow(profile, values string) string {
	return own("slow_scheduling_cycles_total", "a", `profile="`+profile+`"`, values)
}

func lookups(result, values string) string {
	return own("fast_path_class_lookups_total", "a", `result="`+result+`"`, values)
}
