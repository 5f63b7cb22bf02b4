// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
)

func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// samples are arguments of plugins, by plugin.
var samples = map[string][]string{
	"NodeResourcesFit": {
		`{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":3}]}}`,
		`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"NodeResourcesFitArgs","ignoredResources":["a.b/c"]}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}]}}}`,
		`{}`,
	},
	"InterPodAffinity": {`{"hardPodAffinityWeight":7}`, `{"hardPodAffinityWeight":101}`, `null`},
	"PodTopologySpread": {`{"defaultingType":"List"}`,
		`{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}],"defaultingType":"List"}`},
	"NodeResourcesBalancedAllocation": {`{"resources":[{"name":"cpu","weight":1},{"name":"a.b/c","weight":1}]}`},
	"VolumeBinding": {`{"bindTimeoutSeconds":5}`,
		`{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}]}`},
	"Coscheduling": {`{"anything":[1,2.5,{"x":null}]}`},
}

// randomConfiguration returns a KubeSchedulerConfiguration that kube-scheduler accepts in most
// cases.
func randomConfiguration(random *rand.Rand, plugins []string) map[string]any {
	configuration := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/" + []string{"v1", "v1beta3"}[random.Intn(2)],
		"kind":       "KubeSchedulerConfiguration",
	}
	for name, value := range map[string]any{
		"parallelism": 1 + random.Intn(40), "podInitialBackoffSeconds": 1 + random.Intn(3),
		"podMaxBackoffSeconds": 1 + random.Intn(30),
		"leaderElection":       map[string]any{"leaderElect": false}, "clientConnection": map[string]any{"qps": 12.5},
		"extenders": []any{map[string]any{"urlPrefix": "http://127.0.0.1/x", "filterVerb": "f", "httpTimeout": "100ms",
			"ignorable": random.Intn(2) == 0}},
	} {
		if random.Intn(4) == 0 {
			configuration[name] = value
		}
	}
	var profiles []any
	for i := range random.Intn(3) {
		profiles = append(profiles, randomProfile(random, i, plugins))
	}
	if profiles != nil {
		configuration["profiles"] = profiles
	}
	return configuration
}

func randomProfile(random *rand.Rand, i int, plugins []string) map[string]any {
	profile := map[string]any{"schedulerName": fmt.Sprintf("profile-%d", i)}
	if random.Intn(4) == 0 {
		profile["percentageOfNodesToScore"] = 1 + random.Intn(100)
	}
	sets := map[string]any{}
	for _, point := range []string{"preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve",
		"permit", "preBind", "bind", "postBind", "podGroupPostFilter", "multiPoint"} {
		if random.Intn(5) == 0 {
			sets[point] = randomSet(random, plugins)
		}
	}
	if len(sets) > 0 {
		profile["plugins"] = sets
	}
	var configs []any
	for name, args := range samples {
		if random.Intn(5) == 0 {
			configs = append(configs,
				map[string]any{"name": name, "args": json.RawMessage(args[random.Intn(len(args))])})
		}
	}
	if configs != nil {
		profile["pluginConfig"] = configs
	}
	return profile
}

func randomSet(random *rand.Rand, plugins []string) map[string]any {
	set := map[string]any{}
	for _, list := range []string{"enabled", "disabled"} {
		var entries []any
		for _, i := range random.Perm(len(plugins))[:random.Intn(3)] {
			entry := map[string]any{"name": plugins[i]}
			if list == "enabled" && random.Intn(2) == 0 {
				entry["weight"] = random.Intn(5)
			}
			entries = append(entries, entry)
		}
		if entries != nil {
			set[list] = entries
		}
	}
	return set
}
