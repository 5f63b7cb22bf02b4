// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// upstreamLegacy is the result of kube-scheduler 1.22.17's code for a policy (createFromPolicy in
// pkg/scheduler/factory.go and pkg/scheduler/framework/plugins/legacy_registry.go there), with the
// feature gate DefaultPodTopologySpread off, so that SelectorSpread is not replaced.
type upstreamLegacy struct {
	Error                                string
	PreFilter, Filter, PreScore, Reserve []string
	PreBind, Score                       []string
	HardPodAffinityWeight                int32
	AlwaysCheckAllPredicates             bool
	Args                                 struct {
		NodeLabel struct {
			PresentLabels, AbsentLabels, PresentLabelsPreference, AbsentLabelsPreference []string
		}
		ServiceAffinity          struct{ AffinityLabels, AntiAffinityLabelsPreference []string }
		RequestedToCapacityRatio *struct {
			Shape     []schedconfig.UtilizationShapePoint
			Resources []schedconfig.ResourceSpec
		}
	}
}

// parseLegacy reads a policy in the format of kube-scheduler's file, without its extenders.
func parseLegacy(t *testing.T, text []byte) *v1alpha1.LegacyPolicy {
	t.Helper()
	var policy struct {
		metav1.TypeMeta
		v1alpha1.LegacyPolicy
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		t.Fatal(err)
	}
	return &policy.LegacyPolicy
}

// resolveLegacy resolves a legacy policy and a profile with an empty spec of its own.
func resolveLegacy(policy *v1alpha1.LegacyPolicy) *resolve.Resolution {
	in := resolve.Input{Profiles: make([]v1alpha1.SchedulerProfile, 1), Policies: make([]v1alpha1.SchedulingPolicy, 1),
		Registered: registered()}
	in.Profiles[0].Name, in.Profiles[0].Generation = "p", 1
	in.Policies[0].Name, in.Policies[0].Generation = resolve.DefaultPolicyName, 1
	in.Policies[0].Spec.AlgorithmSource = &v1alpha1.AlgorithmSource{Policy: policy}
	return resolve.Objects(in)
}

// newerThan122 are the policies that kube-scheduler 1.22 rejected for names that it no longer had.
var newerThan122 = sets.New("database-operator-1.11", "every-name-before-1.17")

// The policies are examples from the documentation of kube-scheduler and of other projects, and
// some edge cases.
func TestLegacyPoliciesMatchKubeScheduler(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "legacy", "upstream-1.22.json"))
	if err != nil {
		t.Fatal(err)
	}
	var upstream map[string]upstreamLegacy
	if err := json.Unmarshal(text, &upstream); err != nil {
		t.Fatal(err)
	}
	if len(upstream) < 20 {
		t.Fatalf("only %d policies", len(upstream))
	}
	for _, name := range sets.List(sets.KeySet(upstream)) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "legacy", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			policy := parseLegacy(t, text)
			resolution := resolveLegacy(policy)
			compare(t, filepath.Join("testdata", "legacy", name+".out.yaml"), show(t, resolution))
			if want := upstream[name]; !newerThan122.Has(name) {
				compareLegacy(t, &want, policy, resolution)
			} else if want.Error == "" || !resolution.PolicyResults[resolve.DefaultPolicyName].Accepted {
				t.Error("the names of old are not accepted, or kube-scheduler 1.22 had them")
			}
		})
	}
}

func TestRandomLegacyPoliciesMatchKubeScheduler(t *testing.T) {
	file, err := os.Open(filepath.Join("testdata", "legacy", "random.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	accepted, refused := 0, 0
	for n := 1; lines.Scan(); n++ {
		t.Run(fmt.Sprintf("line %d", n), func(t *testing.T) {
			var example struct {
				Policy   json.RawMessage
				Upstream upstreamLegacy
			}
			if err := json.Unmarshal(lines.Bytes(), &example); err != nil {
				t.Fatal(err)
			}
			policy := parseLegacy(t, example.Policy)
			compareLegacy(t, &example.Upstream, policy, resolveLegacy(policy))
			if example.Upstream.Error == "" {
				accepted++
			} else {
				refused++
			}
		})
	}
	if lines.Err() != nil || accepted < 100 || refused < 10 {
		t.Errorf("%d accepted, %d refused: the test shows little (%v)", accepted, refused, lines.Err())
	}
}

// today maps plugins of kube-scheduler 1.22 to the present names of those that were merged.
var today = map[string]string{"EBSLimits": "NodeVolumeLimits", "GCEPDLimits": "NodeVolumeLimits",
	"AzureDiskLimits": "NodeVolumeLimits", "CinderLimits": "NodeVolumeLimits"}

func compareLegacy(t *testing.T, want *upstreamLegacy, policy *v1alpha1.LegacyPolicy, resolution *resolve.Resolution) {
	t.Helper()
	checkLegacyInvariants(t, resolution)
	got := resolution.Profiles["p"]
	if (want.Error == "") != (got != nil) {
		t.Fatalf("kube-scheduler said %q, livesched %+v", want.Error,
			resolution.PolicyResults[resolve.DefaultPolicyName])
	}
	if got == nil {
		return
	}
	plugins := atPoints(got.Config.Plugins, policy)
	if policy.Predicates != nil || policy.Priorities != nil {
		compareDeciding(t, want, policy, plugins)
		compareScoring(t, want, policy, plugins)
	}
	compareLegacyArgs(t, want, policy, got.Config)
	if got.CheckAllFilters != want.AlwaysCheckAllPredicates {
		t.Errorf("all filters are checked: %v, want %v", got.CheckAllFilters, want.AlwaysCheckAllPredicates)
	}
}

// atPoints returns the plugins, or nil if the policy sets none: then they are all in multiPoint.
func atPoints(plugins *schedconfig.Plugins, policy *v1alpha1.LegacyPolicy) *schedconfig.Plugins {
	if policy.Predicates == nil && policy.Priorities == nil {
		return nil
	}
	return plugins
}

func compareDeciding(t *testing.T, want *upstreamLegacy, policy *v1alpha1.LegacyPolicy, plugins *schedconfig.Plugins) {
	t.Helper()
	filters := namesOf(plugins.Filter)
	cut := slices.IndexFunc(filters,
		func(name string) bool { return name == "DynamicResources" || name == "NodeDeclaredFeatures" })
	if cut < 0 {
		t.Fatalf("the filters that no predicate stands for are missing: %v", filters)
	}
	if tail := sets.New(filters[cut:]...); !tail.Equal(sets.New("DynamicResources", "NodeDeclaredFeatures")) {
		t.Errorf("after the predicates run %v", sets.List(tail))
	}
	var filtering []string
	for _, name := range want.Filter {
		if to, ok := today[name]; ok {
			name = to
		}
		if !slices.Contains(filtering, name) {
			filtering = append(filtering, name)
		}
	}
	if policy.Predicates == nil { // today's order
		slices.Sort(filtering)
		slices.Sort(filters[:cut])
	}
	if diff := cmp.Diff(filtering, filters[:cut], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("filters (-kube-scheduler 1.22 +livesched)\n%s", diff)
	}
	for _, point := range []struct {
		name string
		want []string
		got  schedconfig.PluginSet
	}{{"preFilter", want.PreFilter, plugins.PreFilter}, {"reserve", want.Reserve, plugins.Reserve},
		{"preBind", want.PreBind, plugins.PreBind}} {
		if missing := sets.New(point.want...).Difference(sets.New(namesOf(point.got)...)); missing.Len() > 0 {
			t.Errorf("%s lacks %v", point.name, sets.List(missing))
		}
	}
}

func compareScoring(t *testing.T, want *upstreamLegacy, policy *v1alpha1.LegacyPolicy, plugins *schedconfig.Plugins) {
	t.Helper()
	var scoring []string
	for _, plugin := range plugins.Score.Enabled {
		scoring = append(scoring, fmt.Sprintf("%s=%d", plugin.Name, plugin.Weight))
	}
	wanted := slices.Clone(want.Score)
	if policy.Priorities == nil { // DefaultProvider's, which differ from those of 1.22
		wanted = []string{"VolumeBinding=0"}
		for _, plugin := range defaultPlugins(t) {
			if plugin.Weight > 0 {
				wanted = append(wanted, fmt.Sprintf("%s=%d", plugin.Name, plugin.Weight))
			}
		}
	}
	slices.Sort(scoring)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, scoring, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("scores (-kube-scheduler 1.22 +livesched)\n%s", diff)
	}
	if policy.Priorities != nil {
		if missing := sets.New(want.PreScore...).Difference(sets.New(namesOf(plugins.PreScore)...)); missing.Len() > 0 {
			t.Errorf("preScore lacks %v", sets.List(missing))
		}
	}
}

func defaultPlugins(t *testing.T) []schedconfig.Plugin {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	return defaults.Profiles[0].Plugins.MultiPoint.Enabled
}

func compareLegacyArgs(t *testing.T, want *upstreamLegacy, policy *v1alpha1.LegacyPolicy,
	got *schedconfig.KubeSchedulerProfile) {
	t.Helper()
	args := map[string]runtime.Object{}
	for _, pc := range got.PluginConfig {
		args[pc.Name] = pc.Args
	}
	labels, err := nodelabel.ParseArgs(args[nodelabel.Name])
	if err != nil {
		t.Error(err)
	}
	wantLabels := nodelabel.Args{
		PresentLabels: want.Args.NodeLabel.PresentLabels, AbsentLabels: want.Args.NodeLabel.AbsentLabels,
		PresentLabelsPreference: want.Args.NodeLabel.PresentLabelsPreference,
		AbsentLabelsPreference:  want.Args.NodeLabel.AbsentLabelsPreference,
	}
	if diff := cmp.Diff(wantLabels, labels, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("args of NodeLabel (-kube-scheduler 1.22 +livesched)\n%s", diff)
	}
	affinity, err := serviceaffinity.ParseArgs(args[serviceaffinity.Name])
	if err != nil {
		t.Error(err)
	}
	wantAffinity := serviceaffinity.Args{AffinityLabels: want.Args.ServiceAffinity.AffinityLabels,
		AntiAffinityLabelsPreference: want.Args.ServiceAffinity.AntiAffinityLabelsPreference}
	if diff := cmp.Diff(wantAffinity, affinity, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("args of ServiceAffinity (-kube-scheduler 1.22 +livesched)\n%s", diff)
	}
	if ratio := want.Args.RequestedToCapacityRatio; ratio != nil {
		var a noderesources.Args
		if err := json.Unmarshal(args[noderesources.RequestedToCapacityRatioName].(*runtime.Unknown).Raw,
			&a); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(a.Shape, a.Resources) != fmt.Sprint(ratio.Shape, ratio.Resources) {
			t.Errorf("args of RequestedToCapacityRatio are %+v, want %+v", a, ratio)
		}
	}
	if affinity, ok := args["InterPodAffinity"].(*schedconfig.InterPodAffinityArgs); ok {
		if weight := want.HardPodAffinityWeight; affinity.HardPodAffinityWeight != max(weight, 1) {
			t.Errorf("hardPodAffinityWeight is %d, want %d, or 1 for 0", affinity.HardPodAffinityWeight, weight)
		}
	}
	spread, ok := args["PodTopologySpread"].(*schedconfig.PodTopologySpreadArgs)
	evenly := slices.ContainsFunc(policy.Priorities,
		func(p v1alpha1.PriorityPolicy) bool { return p.Name == "EvenPodsSpreadPriority" })
	if ok && (spread.DefaultingType == schedconfig.ListDefaulting) != evenly {
		t.Errorf("EvenPodsSpreadPriority is %v, and pods without constraints get those of %s", evenly,
			spread.DefaultingType)
	}
}

// checkLegacyInvariants checks the invariants of every accepted legacy policy.
func checkLegacyInvariants(t *testing.T, resolution *resolve.Resolution) {
	t.Helper()
	p := resolution.Profiles["p"]
	if p == nil {
		return
	}
	plugins := p.Config.Plugins
	everywhere := sets.New(namesOf(plugins.MultiPoint)...)
	filters := everywhere.Union(sets.New(namesOf(plugins.Filter)...))
	if !filters.HasAll("TaintToleration", "NodeUnschedulable", "DynamicResources", "NodeDeclaredFeatures") {
		t.Errorf("a mandatory filter is missing: %v", sets.List(filters))
	}
	if !everywhere.HasAll("SchedulingGates", "PrioritySort", "DefaultBinder") ||
		!everywhere.Union(sets.New(namesOf(plugins.PostFilter)...)).Has("DefaultPreemption") {
		t.Errorf("a plugin is missing that no policy can do without: %v, %v", sets.List(everywhere),
			namesOf(plugins.PostFilter))
	}
	for _, plugin := range plugins.Score.Enabled {
		if plugin.Weight < 0 {
			t.Errorf("plugin %s has weight %d", plugin.Name, plugin.Weight)
		}
	}
}

func namesOf(set schedconfig.PluginSet) []string {
	var names []string
	for _, plugin := range set.Enabled {
		names = append(names, plugin.Name)
	}
	return names
}

func TestEmptyLegacyPolicyIsDefaultProvider(t *testing.T) {
	none, _ := resolveOne(v1alpha1.SchedulerProfileSpec{SchedulerName: "p"})
	if got := resolveLegacy(&v1alpha1.LegacyPolicy{}).Profiles["p"]; got.Revision != none.Revision {
		t.Errorf("revision %s, want %s", got.Revision, none.Revision)
	}
	if got := resolveLegacy(&v1alpha1.LegacyPolicy{AlwaysCheckAllPredicates: true}).
		Profiles["p"]; got.Revision == none.Revision {
		t.Error("alwaysCheckAllPredicates is no part of the revision")
	}
}

// The schema, the API server and every client that stores the object must distinguish an absent
// list from an empty one.
func TestAnEmptyListOfALegacyPolicyStaysEmpty(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  `{}`,
		`{"predicates":[]}`:                   `{"predicates":[]}`,
		`{"predicates":[],"priorities":[]}`:   `{"predicates":[],"priorities":[]}`,
		`{"predicates":null,"priorities":[]}`: `{"priorities":[]}`,
	} {
		var policy v1alpha1.LegacyPolicy
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(policy.DeepCopy())
		if err != nil || string(got) != want {
			t.Errorf("%s became %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestEveryLegacyNameIsAccepted(t *testing.T) {
	withArgument := map[string]*v1alpha1.PriorityArgument{
		"serviceAntiAffinity": {ServiceAntiAffinity: &v1alpha1.ServiceAntiAffinity{Label: "l"}},
		"labelPreference":     {LabelPreference: &v1alpha1.LabelPreference{Label: "l"}},
		"requestedToCapacityRatioArguments": {
			RequestedToCapacityRatioArguments: &v1alpha1.RequestedToCapacityRatioArguments{
				Shape: []v1alpha1.UtilizationShapePoint{{}}}},
	}
	predicateArguments := map[string]*v1alpha1.PredicateArgument{
		"serviceAffinity": {ServiceAffinity: &v1alpha1.ServiceAffinity{Labels: []string{"l"}}},
		"labelsPresence":  {LabelsPresence: &v1alpha1.LabelsPresence{Labels: []string{"l"}}},
	}
	check := func(name string, entry resolve.LegacyName, policy *v1alpha1.LegacyPolicy,
		point func(*schedconfig.Plugins) schedconfig.PluginSet) {
		t.Run(strings.TrimSpace(name+" "+entry.Argument), func(t *testing.T) {
			resolution := resolveLegacy(policy)
			if result := resolution.PolicyResults[resolve.DefaultPolicyName]; !result.Accepted {
				t.Fatal(result.Message)
			}
			if set := sets.New(namesOf(point(resolution.Profiles["p"].Config.Plugins))...); !set.HasAll(
				entry.Plugins...) {
				t.Errorf("runs %v, want %v", sets.List(set), entry.Plugins)
			}
		})
	}
	for _, entry := range resolve.LegacyPredicates() {
		predicate := v1alpha1.PredicatePolicy{Name: entry.Name, Argument: predicateArguments[entry.Argument]}
		if entry.Name == "" {
			predicate.Name = "Mine"
		}
		check(entry.Name, entry, &v1alpha1.LegacyPolicy{Predicates: []v1alpha1.PredicatePolicy{predicate}},
			func(p *schedconfig.Plugins) schedconfig.PluginSet { return p.Filter })
	}
	for _, entry := range resolve.LegacyPriorities() {
		priority := v1alpha1.PriorityPolicy{Name: entry.Name, Weight: 1, Argument: withArgument[entry.Argument]}
		if entry.Name == "" {
			priority.Name = "Mine"
		}
		check(entry.Name, entry, &v1alpha1.LegacyPolicy{Priorities: []v1alpha1.PriorityPolicy{priority}},
			func(p *schedconfig.Plugins) schedconfig.PluginSet { return p.Score })
	}
}
