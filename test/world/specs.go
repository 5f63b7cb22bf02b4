// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/livesched/livesched/api/v1alpha1"
)

// scoring are plugins that score nodes. Pods fit the same nodes whichever run: so kube-scheduler's
// default profile can judge all profiles.
var scoring = []string{"ImageLocality", "InterPodAffinity", "NodeAffinity", "NodeResourcesBalancedAllocation",
	"NodeResourcesFit", "PodTopologySpread", "TaintToleration"}

// pluginConfigs are arguments of plugins that change scores.
var pluginConfigs = []string{
	`{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated",
	  "resources": [{"name": "cpu", "weight": %d}]}}}`,
	`{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "RequestedToCapacityRatio",
	  "resources": [{"name": "cpu", "weight": %d}, {"name": "memory", "weight": 1}], "requestedToCapacityRatio":
	  {"shape": [{"utilization": 0, "score": 0}, {"utilization": 70, "score": 10}, {"utilization": 100, "score": 2}]}}}}`,
	`{"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "memory", "weight": %d}]}}`,
	`{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": %d}}`,
	`{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": %d}}`,
	`{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": %d,
	  "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}}`,
}

// badPluginConfigs are arguments that livesched refuses.
var badPluginConfigs = []string{
	`{"name": "Missing", "args": {"number": %d}}`,
	`{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Missing"}, "number": %d}}`,
	`{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 10%d}}`,
}

// oneOf returns a function that draws one of some values.
func oneOf(of ...string) func(*rand.Rand) any { return func(r *rand.Rand) any { return one(r, of) } }

// oneOfOr returns a function that draws a bad value one time out of so many, or else one of some
// good values.
func oneOfOr(bad string, times int, good []string) func(*rand.Rand) any {
	return func(r *rand.Rand) any {
		if r.IntN(times) == 0 {
			return bad
		}
		return one(r, good)
	}
}

func unset(*rand.Rand) any { return nil }

// profileWords are what profiles may have beyond their schema. What decides which nodes fit stays
// as it is by default.
var profileWords = words{
	"spec.schedulerName":  unset, // immutable
	"spec.mode":           unset,
	"spec.shadow":         unset,
	"spec.policyRef.name": oneOfOr("missing", 12, policyNames),

	"spec.plugins.bind":               unset,
	"spec.plugins.filter":             unset,
	"spec.plugins.permit":             unset,
	"spec.plugins.placementGenerate":  unset,
	"spec.plugins.placementScore":     unset,
	"spec.plugins.podGroupPostFilter": unset,
	"spec.plugins.postBind":           unset,
	"spec.plugins.postFilter":         unset,
	"spec.plugins.preBind":            unset,
	"spec.plugins.preEnqueue":         unset,
	"spec.plugins.preScore":           unset,
	"spec.plugins.queueSort":          unset,

	"spec.plugins.score.enabled[].name":       oneOfOr("Missing", 60, scoring),
	"spec.plugins.score.disabled[].name":      oneOf(append(slices.Clone(scoring), "*")...),
	"spec.plugins.multiPoint.enabled[].name":  oneOf(slowPlugin, "ImageLocality", "NodeResourcesFit"),
	"spec.plugins.multiPoint.disabled[].name": oneOf(slowPlugin, "ImageLocality", "NodeResourcesBalancedAllocation"),
	"spec.plugins.preFilter.enabled[].name":   oneOf(slowPlugin, slowPlugin, slowPlugin, "NodePorts"),
	"spec.plugins.preFilter.disabled[].name":  oneOf(slowPlugin),
	"spec.plugins.reserve.enabled[].name":     oneOf(slowPlugin),
	"spec.plugins.reserve.disabled[].name":    oneOf(slowPlugin),

	"spec.pluginConfig[]": func(r *rand.Rand) any {
		configs := pluginConfigs
		if r.IntN(20) == 0 {
			configs = badPluginConfigs
		}
		config := map[string]any{}
		mustUnmarshal(fmt.Sprintf(one(r, configs), 1+r.IntN(100)), &config)
		return config
	},
	"spec.rollout.canary.steps[]": func(r *rand.Rand) any {
		step := map[string]any{}
		mustUnmarshal(one(r, []string{`setWeight: 20`, `setWeight: 60`, `pause: {duration: 5s}`, `pause: {}`}), &step)
		return step
	},
}

// shadowWords are what the profile may have that decides along with another one.
var shadowWords = merged(profileWords, words{
	"spec.mode":    oneOf(string(v1alpha1.ProfileShadow)),
	"spec.rollout": unset, // not allowed
	"spec.shadow": func(r *rand.Rand) any {
		name := oneOfOr("missing", 8, profileNames)(r)
		return map[string]any{"profileRef": map[string]any{"name": name}, "samplePercent": int64(1 + r.IntN(100))}
	},
})

func merged(some, more words) words {
	all := maps.Clone(some)
	maps.Copy(all, more)
	return all
}

// policyWords let pods wait for an event for as long as a world lasts: a retry without an event
// would hide that an event wakes no pod.
var policyWords = words{
	"spec.algorithmSource.policy":    unset, // it decides which nodes fit
	"spec.extenders":                 unset, // they need sockets
	"spec.queueSort":                 unset, // all profiles must have the same
	"spec.podGroupReserveAfter":      unset, // pods would not get all nodes that kube-scheduler finds
	"spec.podMaxInUnschedulablePods": oneOf("1000h"),
	"spec.podMaxBackoff":             oneOf("5s", "10s", "40s"),
	"spec.parallelism":               func(r *rand.Rand) any { return 1 + r.IntN(16) }, // of goroutines
}

// drawSpec draws the spec of an object. valid means that the schema allows it. The API server may
// refuse it all the same because of a rule, and livesched because of what it says.
func drawSpec(r *rand.Rand, plural string, words words) (spec map[string]any, valid bool) {
	d := &drawer{Rand: r, words: words}
	return d.object(schemaOf(plural), "spec"), !d.invalid
}

// change changes little in a spec: the weight of a plugin, or the arguments of plugins to those of
// another spec.
func change(r *rand.Rand, spec, other map[string]any) {
	if config, ok := other["pluginConfig"]; ok && r.IntN(2) == 0 {
		spec["pluginConfig"] = config
		return
	}
	enabled, _, _ := unstructured.NestedSlice(spec, "plugins", "score", "enabled")
	if len(enabled) == 0 {
		enabled = []any{map[string]any{"name": "NodeResourcesFit"}}
	}
	one(r, enabled).(map[string]any)["weight"] = one(r, []int64{1, 2, 100})
	if err := unstructured.SetNestedSlice(spec, enabled, "plugins", "score", "enabled"); err != nil {
		panic(fmt.Sprint("a spec: ", err))
	}
}
