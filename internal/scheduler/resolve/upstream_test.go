// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

// loadUpstream loads the profile as kube-scheduler loads a configuration file
// (cmd/kube-scheduler/app/options).
func loadUpstream(spec *v1alpha1.SchedulerProfileSpec) (*schedconfig.KubeSchedulerProfile, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
		"profiles": []any{map[string]any{
			"schedulerName":            spec.SchedulerName,
			"percentageOfNodesToScore": spec.PercentageOfNodesToScore,
			"plugins":                  spec.Plugins,
			"pluginConfig":             spec.PluginConfig,
		}},
	})
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	loaded := object.(*schedconfig.KubeSchedulerConfiguration)
	loaded.APIVersion = "kubescheduler.config.k8s.io/v1"
	if err := validation.ValidateKubeSchedulerConfiguration(loaded); err != nil {
		return nil, err
	}
	return &loaded.Profiles[0], nil
}

func resolveOne(spec v1alpha1.SchedulerProfileSpec) (*resolve.Profile, resolve.Result) {
	profile := v1alpha1.SchedulerProfile{Spec: spec}
	profile.Name = "one"
	resolution := resolve.Objects(resolve.Input{Profiles: []v1alpha1.SchedulerProfile{profile},
		Registered: registered()})
	return resolution.Profiles[spec.SchedulerName], resolution.ProfileResults["one"]
}

// A nil list equals an empty one.
var equateEmpty = cmpopts.EquateEmpty()

func TestAProfileWithoutSettingsIsKubeSchedulersDefault(t *testing.T) {
	want, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	got, result := resolveOne(v1alpha1.SchedulerProfileSpec{SchedulerName: "default-scheduler"})
	if !result.Accepted {
		t.Fatal(result.Message)
	}
	if diff := cmp.Diff(&want.Profiles[0], got.Config, equateEmpty); diff != "" {
		t.Errorf("(-kube-scheduler +livesched)\n%s", diff)
	}
}

// Accepted profiles resolve to what kube-scheduler makes of them, and profiles that kube-scheduler
// rejects are rejected.
func TestRandomProfilesResolveAsInKubeScheduler(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	accepted := 0
	for i := range 1800 {
		spec := randomSpec(random)
		want, err := loadUpstream(&spec)
		got, result := resolveOne(spec)
		text, _ := json.Marshal(spec)
		if err != nil {
			if result.Accepted {
				t.Fatalf("case %d: kube-scheduler refuses what was accepted: %v\n%s", i, err, text)
			}
			continue
		}
		if !result.Accepted {
			if !refusedByBuild(result) {
				t.Fatalf("case %d: kube-scheduler accepts what was refused: %s\n%s", i, result.Message, text)
			}
			continue
		}
		accepted++
		if diff := cmp.Diff(want, objects.WithoutUnseenArgs(got.Config, want), equateEmpty); diff != "" {
			t.Fatalf("case %d (-kube-scheduler +livesched)\n%s\n%s", i, diff, text)
		}
	}
	if accepted < 250 {
		t.Errorf("only %d profiles were accepted: the test shows little", accepted)
	}
}

// refusedByBuild reports whether a profile was rejected for an error that kube-scheduler's
// validation overlooks: it fails to build such a profile, or ignores the setting.
func refusedByBuild(result resolve.Result) bool {
	for _, problem := range result.Problems {
		switch {
		case strings.HasPrefix(problem.Path, "spec.plugins.queueSort"),
			strings.HasPrefix(problem.Path, "spec.plugins.bind"):
		case strings.HasSuffix(problem.Path, ".args.scoringStrategy.type"): // of NodeResourcesFit
		case strings.Contains(problem.Detail, " does not extend "):
		default:
			return false
		}
	}
	return true
}

// argsSamples are arguments by plugin, valid and invalid ones.
var argsSamples = map[string][]string{
	"NodeResourcesFit": {
		`{"scoringStrategy":{"type":"MostAllocated"}}`,
		`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"NodeResourcesFitArgs","ignoredResources":["a.b/c"]}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","resources":[{"name":"cpu","weight":0}],"requestedToCapacityRatio":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}]}}}`,
		`{"scoringStrategy":{"type":"Nope"}}`,
		`{"unknown":1}`,
		`{}`,
	},
	"InterPodAffinity": {`{"hardPodAffinityWeight":0}`, `{"hardPodAffinityWeight":101}`,
		`{"ignorePreferredTermsOfExistingPods":true}`, ``},
	"NodeAffinity": {
		`{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}}}`,
		`{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Nope"}]}]}}}`},
	"PodTopologySpread": {`{"defaultingType":"List"}`,
		`{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]}`,
		`{"kind":"InterPodAffinityArgs","apiVersion":"kubescheduler.config.k8s.io/v1"}`},
	"NodeResourcesBalancedAllocation": {`{"resources":[{"name":"cpu"},{"name":"a.b/c","weight":1}]}`,
		`{"resources":[{"name":"cpu"},{"name":"cpu"}]}`},
	"VolumeBinding": {`{"bindTimeoutSeconds":5}`, `{"bindTimeoutSeconds":-5}`, `{"bindTimeoutSeconds":"x"}`},
	"DefaultPreemption": {`{"minCandidateNodesPercentage":0}`,
		`{"minCandidateNodesPercentage":0,"minCandidateNodesAbsolute":0}`},
	"DynamicResources": {`{"filterTimeout":"3s"}`, `{"bindingTimeout":"1ms"}`},
	"Coscheduling":     {`{"anything":[1,2.50,{"x":null}]}`, `{"apiVersion":"x/v1","kind":"Y"}`, ``},
	"NodeName":         {`{}`, ``},
}

func randomSpec(random *rand.Rand) v1alpha1.SchedulerProfileSpec {
	spec := v1alpha1.SchedulerProfileSpec{SchedulerName: fmt.Sprintf("random-%d", random.Intn(3))}
	if random.Intn(3) == 0 {
		spec.PercentageOfNodesToScore = ptr.To(int32(random.Intn(103) - 1))
	}
	if random.Intn(5) > 0 {
		plugins := &v1alpha1.Plugins{}
		for _, set := range []*v1alpha1.PluginSet{
			&plugins.PreEnqueue, &plugins.QueueSort, &plugins.PreFilter, &plugins.Filter, &plugins.PostFilter,
			&plugins.PreScore, &plugins.Score, &plugins.Reserve, &plugins.Permit, &plugins.PreBind, &plugins.Bind,
			&plugins.PostBind, &plugins.MultiPoint, &plugins.PlacementGenerate, &plugins.PlacementScore,
			&plugins.PodGroupPostFilter,
		} {
			if random.Intn(4) == 0 {
				*set = randomSet(random)
			}
		}
		if random.Intn(2) == 0 {
			plugins.QueueSort = v1alpha1.PluginSet{}
		}
		spec.Plugins = plugins
	}
	for _, name := range sets.List(sets.KeySet(argsSamples)) {
		samples := argsSamples[name]
		if random.Intn(12) == 0 {
			config := v1alpha1.PluginConfig{Name: name}
			if sample := samples[random.Intn(len(samples))]; sample != "" {
				config.Args.Raw = []byte(sample)
			}
			spec.PluginConfig = append(spec.PluginConfig, config)
		}
	}
	random.Shuffle(len(spec.PluginConfig), func(i, j int) {
		spec.PluginConfig[i], spec.PluginConfig[j] = spec.PluginConfig[j], spec.PluginConfig[i]
	})
	return spec
}

func randomSet(random *rand.Rand) v1alpha1.PluginSet {
	var set v1alpha1.PluginSet
	names := sets.List(registered())
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:random.Intn(4)] {
		plugin := v1alpha1.Plugin{Name: name}
		if random.Intn(2) == 0 {
			plugin.Weight = ptr.To(int32(random.Intn(4)))
		}
		set.Enabled = append(set.Enabled, plugin)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:random.Intn(3)] {
		set.Disabled = append(set.Disabled, v1alpha1.Plugin{Name: name})
	}
	if random.Intn(8) == 0 {
		set.Disabled = append(slices.Clone(set.Disabled), v1alpha1.Plugin{Name: "*"})
	}
	return set
}
