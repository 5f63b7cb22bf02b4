// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/test/objects"
)

const seed = 20260117

// upstream builds kube-scheduler's framework from instances. Its goroutines end
// with ctx.
func upstream(ctx context.Context, cfg *schedconfig.Plugins,
	instances map[string]fwk.Plugin) (fw schedframework.Framework, err error) {
	registry := Registry{}
	for name, pl := range instances {
		registry[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return pl, nil }
	}
	defer func() {
		// It dereferences a nil pointer for an unknown plugin of MultiPoint if every extension
		// point disables "*".
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	profile := &schedconfig.KubeSchedulerProfile{SchedulerName: "test", Plugins: cfg.DeepCopy()}
	return frameworkruntime.NewFramework(ctx, registry, profile)
}

// inTree builds the default plugins with their default arguments.
func inTree(t *testing.T) (*schedconfig.Plugins, map[string]fwk.Plugin) {
	t.Helper()
	ctx, cancel := context.WithCancel(quiet(t))
	client := fake.NewClientset()
	factory := objects.NewInformers(client)
	recorders := func(string) events.EventRecorderLogger { return events.NewFakeRecorder(10) }
	sched, err := scheduler.New(ctx, client, factory, nil, recorders)
	if err != nil {
		t.Fatal(err)
	}
	handle := sched.Profiles["default-scheduler"]
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]runtime.Object{}
	for _, pc := range cfg.Profiles[0].PluginConfig {
		args[pc.Name] = pc.Args
	}
	registry := frameworkplugins.NewInTreeRegistry()
	instances := map[string]fwk.Plugin{}
	for name := range Needed(cfg.Profiles[0].Plugins) {
		if instances[name], err = registry[name](ctx, args[name], handle); err != nil {
			t.Fatal(err)
		}
	}
	return cfg.Profiles[0].Plugins, instances
}

func TestExpandDefaultPlugins(t *testing.T) {
	cfg, instances := inTree(t)
	plugins, err := Expand(cfg, instances)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults.ExpandedPluginsV1, plugins.Configured()); diff != "" {
		t.Errorf("default plugins run elsewhere than in kube-scheduler (-want +got):\n%s", diff)
	}
	if len(plugins.All) != len(instances) {
		t.Errorf("%d of %d plugins are in All", len(plugins.All), len(instances))
	}
}

func TestExpandMatchesKubeScheduler(t *testing.T) {
	_, defaults := inTree(t)
	made := shapes()
	mixed := maps.Clone(made)
	maps.Copy(mixed, defaults)
	for name, test := range map[string]struct {
		instances map[string]fwk.Plugin
		cases     int
	}{
		"plugins of every shape":          {made, 3000},
		"the in-tree plugins":             {defaults, 1500},
		"in-tree and out-of-tree plugins": {mixed, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := quiet(t)
			gen := newConfigGenerator(test.instances, rand.New(rand.NewPCG(seed, uint64(test.cases))))
			accepted := 0
			for i := range test.cases {
				cfg := gen.plugins()
				before := cfg.DeepCopy()
				got, gotErr := Expand(cfg, test.instances)
				want, wantErr := upstream(ctx, cfg, test.instances)
				if (gotErr == nil) != (wantErr == nil) {
					t.Fatalf("case %d:\nours:           %v\nkube-scheduler: %v\n%+v", i, gotErr, wantErr, cfg)
				}
				if diff := cmp.Diff(before, cfg); diff != "" {
					t.Fatalf("case %d: Expand changed the configuration (-before +after):\n%s", i, diff)
				}
				if gotErr != nil {
					continue
				}
				accepted++
				if diff := cmp.Diff(want.ListPlugins(), got.Configured()); diff != "" {
					t.Fatalf("case %d: (-kube-scheduler +ours):\n%s\n%+v", i, diff, cfg)
				}
				if diff := cmp.Diff(extensionNames(want.EnqueueExtensions()),
					extensionNames(got.EnqueueExtensions())); diff != "" {
					t.Fatalf("case %d: enqueue extensions (-kube-scheduler +ours):\n%s\n%+v", i, diff, cfg)
				}
			}
			t.Logf("seed %d: %d of %d configurations were accepted by both", seed, accepted, test.cases)
			if accepted < test.cases/4 || accepted == test.cases {
				t.Errorf("%d of %d configurations accepted: the generator does not exercise both outcomes", accepted,
					test.cases)
			}
		})
	}
}

// extensionNames lists the plugins that register for events, with their number.
func extensionNames(extensions []fwk.EnqueueExtensions) []string {
	var names []string
	for _, ext := range extensions {
		events, err := ext.EventsToRegister(context.Background())
		names = append(names, fmt.Sprintf("%s: %d %v", ext.Name(), len(events), err))
	}
	slices.Sort(names)
	return names
}

// configGenerator makes random configurations, many of which are valid.
type configGenerator struct {
	*rand.Rand
	names       []string
	implementer map[string][]string // by extension point
}

func newConfigGenerator(instances map[string]fwk.Plugin, r *rand.Rand) *configGenerator {
	g := &configGenerator{Rand: r, implementer: map[string][]string{}}
	g.names = slices.Sorted(maps.Keys(instances))
	for _, pt := range setsOf(&schedconfig.Plugins{}) {
		for _, name := range g.names {
			if pt.plugins.accepts(instances[name]) {
				g.implementer[pt.name] = append(g.implementer[pt.name], name)
			}
		}
	}
	return g
}

func (g *configGenerator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *configGenerator) plugins() *schedconfig.Plugins {
	cfg := &schedconfig.Plugins{}
	if !g.chance(10) {
		cfg.MultiPoint.Enabled = g.list(g.names, g.IntN(len(g.names)+1))
	}
	if g.chance(10) {
		cfg.MultiPoint.Disabled = g.list(g.names, 1)
	}
	for _, pt := range setsOf(cfg) {
		set := pt.set
		candidates := g.implementer[pt.name]
		if g.chance(1) {
			candidates = g.names
		}
		if g.chance(40) && len(candidates) > 0 {
			set.Enabled = g.list(candidates, g.IntN(min(len(candidates), 6)+1))
		}
		if g.chance(30) {
			set.Disabled = g.list(g.names, g.IntN(6))
		}
		if g.chance(10) {
			set.Disabled = append(set.Disabled, schedconfig.Plugin{Name: "*"})
		}
		// Without this, few configurations would have exactly one plugin that sorts and one that
		// binds.
		if (pt.name == "QueueSort" || pt.name == "Bind") && !g.chance(10) {
			set.Disabled = []schedconfig.Plugin{{Name: "*"}}
			set.Enabled = g.list(g.implementer[pt.name], 1)
		}
		if pt.name == "PlacementGenerate" && !g.chance(20) {
			*set = schedconfig.PluginSet{Disabled: []schedconfig.Plugin{{Name: "*"}}}
		}
	}
	return cfg
}

// list picks n names, rarely one of them twice or one that does not exist.
func (g *configGenerator) list(from []string, n int) []schedconfig.Plugin {
	var out []schedconfig.Plugin
	for _, i := range g.Perm(len(from))[:n] {
		out = append(out, schedconfig.Plugin{Name: from[i], Weight: g.weight()})
	}
	if len(out) > 0 && g.chance(2) {
		out = append(out, out[g.IntN(len(out))])
	}
	if g.chance(1) {
		out = append(out, schedconfig.Plugin{Name: "Missing"})
	}
	return out
}

func (g *configGenerator) weight() int32 {
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4:
		return 0
	case 5:
		return -int32(g.IntN(3))
	default:
		return int32(g.IntN(1000))
	}
}
