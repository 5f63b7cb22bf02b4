// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

// builder builds the plugins of resolved profiles as a profile is built, but without a cluster.
type builder struct {
	registry framework.Registry
	handle   fwk.Handle
}

// noDevices is for plugins that need a manager of devices, but only keep it.
type noDevices struct{ fwk.SharedDRAManager }

func newBuilder(t testing.TB) *builder {
	t.Helper()
	metrics.Register()
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	factory := objects.NewInformers(client)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(schedcache.NewEmptySnapshot()),
		frameworkruntime.WithSharedDRAManager(noDevices{}))
	if err != nil {
		t.Fatal(err)
	}
	return &builder{registry: registry, handle: handle}
}

// build returns the plugins by extension point.
func (b *builder) build(t testing.TB, p *schedconfig.KubeSchedulerProfile) *schedconfig.Plugins {
	t.Helper()
	args := map[string]runtime.Object{}
	for _, pc := range p.PluginConfig {
		args[pc.Name] = pc.Args
	}
	instances := map[string]fwk.Plugin{}
	for name := range framework.Needed(p.Plugins) {
		plugin, err := b.registry[name](t.Context(), args[name], b.handle)
		if err != nil {
			t.Fatalf("plugin %s: %v", name, err)
		}
		instances[name] = plugin
	}
	expanded, err := framework.Expand(p.Plugins, instances)
	if err != nil {
		t.Fatal(err)
	}
	return expanded.Configured()
}

// legacySeeds are the policies of testdata, in JSON.
func legacySeeds(t testing.TB) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "legacy", "*.json"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d policies: %v", len(files), err)
	}
	var seeds [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != "upstream-1.22.json" {
			seeds = append(seeds, text)
		}
	}
	return seeds
}

// FuzzLegacyPolicy resolves legacy policies with any content: the accepted ones satisfy the
// invariants, can be built, and stay the same when they are encoded and decoded.
func FuzzLegacyPolicy(f *testing.F) {
	for _, seed := range legacySeeds(f) {
		f.Add(seed)
	}
	b := newBuilder(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var policy, again v1alpha1.LegacyPolicy
		if err := json.Unmarshal(text, &policy); err != nil {
			return
		}
		resolution := resolveLegacy(&policy)
		checkLegacyInvariants(t, resolution)
		accepted := resolution.PolicyResults[resolve.DefaultPolicyName].Accepted
		if (resolution.Profiles["p"] != nil) != accepted {
			t.Fatalf("the policy is accepted: %v, the profile: %+v", accepted, resolution.ProfileResults["p"])
		}
		if !accepted {
			return
		}
		b.build(t, resolution.Profiles["p"].Config)
		written, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatal(err)
		}
		if was, is := resolution.Profiles["p"].Revision, resolveLegacy(&again).Profiles["p"].Revision; was != is {
			t.Errorf("revision %s became %s", was, is)
		}
	})
}

// A plugin of a provider runs for a legacy policy wherever it otherwise runs: no extension point
// was forgotten.
func TestALegacyPolicyRunsItsPluginsWhereverTheyCanRun(t *testing.T) {
	b := newBuilder(t)
	everything := &v1alpha1.LegacyPolicy{}
	for _, entry := range resolve.LegacyPredicates() {
		if entry.Name != "" {
			everything.Predicates = append(everything.Predicates, v1alpha1.PredicatePolicy{Name: entry.Name})
		}
	}
	for _, entry := range resolve.LegacyPriorities() {
		if entry.Name != "" {
			everything.Priorities = append(everything.Priorities, v1alpha1.PriorityPolicy{Name: entry.Name, Weight: 1})
		}
	}
	everything.Priorities = append(everything.Priorities,
		v1alpha1.PriorityPolicy{Name: "a", Weight: 1,
			Argument: &v1alpha1.PriorityArgument{ServiceAntiAffinity: &v1alpha1.ServiceAntiAffinity{Label: "l"}}},
		v1alpha1.PriorityPolicy{Name: "b", Weight: 1,
			Argument: &v1alpha1.PriorityArgument{LabelPreference: &v1alpha1.LabelPreference{Label: "l"}}})
	legacy := resolveLegacy(everything).Profiles["p"]
	if legacy == nil {
		t.Fatal(resolveLegacy(everything).PolicyResults)
	}
	got := b.build(t, legacy.Config)

	// The same plugins, all in multiPoint:
	every := v1alpha1.SchedulerProfileSpec{SchedulerName: "p", Plugins: &v1alpha1.Plugins{}}
	for _, name := range sets.List(framework.Needed(legacy.Config.Plugins)) {
		if !slices.ContainsFunc(defaultPlugins(t), func(p schedconfig.Plugin) bool { return p.Name == name }) {
			every.Plugins.MultiPoint.Enabled = append(every.Plugins.MultiPoint.Enabled, v1alpha1.Plugin{Name: name})
		}
	}
	for _, pc := range legacy.Config.PluginConfig {
		if args, ok := pc.Args.(*runtime.Unknown); ok {
			every.PluginConfig = append(every.PluginConfig,
				v1alpha1.PluginConfig{Name: pc.Name, Args: runtime.RawExtension{Raw: args.Raw}})
		}
	}
	profile, result := resolveOne(every)
	if profile == nil {
		t.Fatal(result.Message)
	}
	want := b.build(t, profile.Config)
	for _, point := range []struct {
		name      string
		want, got schedconfig.PluginSet
		// without are plugins that do more at the extension point than the policy requests.
		without []string
	}{
		{"preEnqueue", want.PreEnqueue, got.PreEnqueue, nil},
		{"queueSort", want.QueueSort, got.QueueSort, nil},
		{"preFilter", want.PreFilter, got.PreFilter, nil},
		{"filter", want.Filter, got.Filter, nil},
		{"postFilter", want.PostFilter, got.PostFilter, nil},
		// No priority corresponds to the scores of these.
		{"preScore", want.PreScore, got.PreScore, []string{"NodeResourcesFit", "VolumeBinding"}},
		{"score", want.Score, got.Score, []string{"NodeResourcesFit", "VolumeBinding", "DynamicResources"}},
		{"reserve", want.Reserve, got.Reserve, nil},
		{"permit", want.Permit, got.Permit, nil},
		{"preBind", want.PreBind, got.PreBind, nil},
		{"bind", want.Bind, got.Bind, nil},
		{"postBind", want.PostBind, got.PostBind, nil},
	} {
		wanted := sets.New(namesOf(point.want)...).Delete(point.without...)
		if diff := cmp.Diff(sets.List(wanted), sets.List(sets.New(namesOf(point.got)...))); diff != "" {
			t.Errorf("%s (-in multiPoint +legacy policy)\n%s", point.name, diff)
		}
	}

	t.Run("with the scores of DefaultProvider if it has no priorities", func(t *testing.T) {
		predicates := resolveLegacy(&v1alpha1.LegacyPolicy{Predicates: everything.Predicates}).Profiles["p"]
		provider, _ := resolveOne(v1alpha1.SchedulerProfileSpec{SchedulerName: "p"})
		got, want := b.build(t, predicates.Config), b.build(t, provider.Config)
		if diff := cmp.Diff(want.Score, got.Score); diff != "" {
			t.Errorf("score (-DefaultProvider +legacy policy)\n%s", diff)
		}
		if diff := cmp.Diff(want.PreScore, got.PreScore); diff != "" {
			t.Errorf("preScore (-DefaultProvider +legacy policy)\n%s", diff)
		}
	})
}

// A profile's own plugins are merged over a legacy policy as over kube-scheduler's defaults, at
// each extension point.
func TestAProfileIsMergedOverALegacyPolicy(t *testing.T) {
	b := newBuilder(t)
	in := resolve.Input{Profiles: make([]v1alpha1.SchedulerProfile, 1), Policies: make([]v1alpha1.SchedulingPolicy, 1),
		Registered: registered()}
	parse(t, &in.Policies[0], `
metadata: {name: default}
spec:
  algorithmSource:
    policy:
      hardPodAffinitySymmetricWeight: 7
      predicates: [{name: GeneralPredicates}, {name: MatchInterPodAffinity}, {name: HasRack, argument: {labelsPresence: {labels: [rack], presence: true}}}]
      priorities: [{name: MostRequestedPriority, weight: 3}, {name: ImageLocalityPriority, weight: 1}, {name: EvenPodsSpreadPriority, weight: 1}]
`)
	parse(t, &in.Profiles[0], `
metadata: {name: p}
spec:
  plugins:
    filter: {disabled: [{name: NodePorts}], enabled: [{name: VolumeZone}]}
    preFilter: {disabled: [{name: NodePorts}], enabled: [{name: VolumeZone}]}
    score: {enabled: [{name: NodeResourcesMostAllocated, weight: 9}, {name: NodeAffinity, weight: 2}], disabled: [{name: ImageLocality}]}
    preScore: {enabled: [{name: NodeAffinity}]}
    postFilter: {disabled: [{name: "*"}]}
  pluginConfig:
  - {name: NodeResourcesMostAllocated, args: {resources: [{name: memory}]}}
  - {name: NodeLabel, args: {absentLabels: [retiring]}}
  - {name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}}
`)
	resolution := resolve.Objects(in)
	if result := resolution.ProfileResults["p"]; !result.Accepted {
		t.Fatal(result.Message)
	}
	got := b.build(t, resolution.Profiles["p"].Config)
	for what, pair := range map[string][2]any{
		"filter": {namesOf(got.Filter), []string{
			"NodeUnschedulable", "NodeResourcesFit", "NodeName", "NodeAffinity", "TaintToleration", "NodeLabel",
			"InterPodAffinity",
			"DynamicResources", "NodeDeclaredFeatures", "VolumeZone",
		}},
		"score":      {showList(got.Score.Enabled), "NodeResourcesMostAllocated=9 PodTopologySpread=1 NodeAffinity=2"},
		"postFilter": {len(got.PostFilter.Enabled), 0},
		"args": {showArgs(t, resolution.Profiles["p"].Config.PluginConfig, defaultArgs(t)), map[string]string{
			"InterPodAffinity":           `{"hardPodAffinityWeight":7,"ignorePreferredTermsOfExistingPods":false,"kind":"InterPodAffinityArgs"}`,
			"NodeLabel":                  `{"absentLabels":["retiring"]}`,
			"NodeResourcesMostAllocated": `{"resources":[{"name":"memory"}]}`,
			"PodTopologySpread":          `{"defaultConstraints":[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"ScheduleAnyway"}],"defaultingType":"List","kind":"PodTopologySpreadArgs"}`,
		}},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
}

func parse(t *testing.T, into any, text string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// Random policies with known names and arguments: all accepted ones can be built.
func TestRandomLegacyPoliciesCanBeBuilt(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	w := &world{random: rand.New(rand.NewSource(seed))}
	b := newBuilder(t)
	built := 0
	for range 300 {
		resolution := resolveLegacy(w.randomLegacy())
		checkLegacyInvariants(t, resolution)
		if p := resolution.Profiles["p"]; p != nil {
			b.build(t, p.Config)
			built++
		}
	}
	if built < 50 {
		t.Errorf("only %d policies were accepted: the test shows little", built)
	}
}
