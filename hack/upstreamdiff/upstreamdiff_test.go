// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// sources are the files of a small release.
var sources = map[string]string{
	"go.mod": `module k8s.io/kubernetes

go 1.26.0

require (
	go.etcd.io/etcd/api/v3 v3.7.0
	k8s.io/api v0.0.0
	example.com/unused v1.0.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
)`,
	"pkg/scheduler/apis/config/v1/default_plugins.go": `package v1
var defaults = []v1.Plugin{{Name: names.NodeName}, {Name: names.NodeAffinity, Weight: ptr.To[int32](2)}}
func apply() { if utilfeature.DefaultFeatureGate.Enabled(features.A) { add(v1.Plugin{Name: names.Extra}) } }`,
	"pkg/features/kube_features.go": `package features
var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	A: {
		{Version: version.MustParse("1.9"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.Beta},
		{Version: version.MustParse("1.38"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},
	},
	Served: {{Version: version.MustParse("1.20"), Default: true, PreRelease: featuregate.Beta}},
	Elsewhere: {{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.GA}},
	Later: {{Version: version.MustParse("1.38"), Default: false, PreRelease: featuregate.Alpha}},
}`,
	"pkg/scheduler/scheduler.go": `package scheduler
import "k8s.io/kubernetes/pkg/features"
var _ = []any{features.A, features.Later, other.Elsewhere}`,
	"cmd/kube-scheduler/app/server.go": `package app
import kubefeatures "k8s.io/kubernetes/pkg/features"
var _ = kubefeatures.Served`,
	"pkg/scheduler/scheduler_test.go": "package scheduler\nvar _ = features.Elsewhere",
	"pkg/scheduler/metrics/metrics.go": `package metrics
var _ = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: S, Name: "b_total", StabilityLevel: metrics.ALPHA},
	[]string{"result", "profile"})
var _ = metrics.NewHistogram(&metrics.HistogramOpts{Name: "a_seconds"})
var _ = metrics.NewDesc("c", "Help.", []string{"pod"}, nil, metrics.STABLE, "")
const S = "scheduler"`,
	"pkg/scheduler/framework/events.go": `package framework
const X = "x"
var EventNodeAdd = fwk.ClusterEvent{Resource: fwk.Node}`,
	"pkg/scheduler/framework/interface.go": `package framework
type ReadyPlugin interface { Ready() bool }`,
	"pkg/scheduler/framework/plugins/registry.go": `package plugins
func NewInTreeRegistry() { _ = runtime.Registry{b.Name: b.New, a.Name: runtime.FactoryAdapter(fts, a.New)} }`,
	"pkg/scheduler/framework/plugins/nodename/node_name.go": `package nodename
const ErrReason = "node(s) didn't match" // not a comment
var x = "no message"
func f() {
	logger.Info("not for users")
	return fwk.NewStatus(fwk.Error, fmt.Sprintf("no node %v", name), "word")
}
var _ = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete}`,
	"plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go": `package bootstrappolicy
func roles() {
	kubeSchedulerRules := []rbacv1.PolicyRule{eventsRule(), rbacv1helpers.NewRule(Read...).RuleOrDie()}
	if utilfeature.DefaultFeatureGate.Enabled(features.A) {
		kubeSchedulerRules = append(kubeSchedulerRules, other())
	}
	roles := []rbacv1.PolicyRule{unrelated()}
}`,
	"test/integration/scheduler_perf/misc/performance-config.yaml": `
- name: Basic
  workloads:
  - {name: 5Nodes, labels: [short], params: {n: 5}}
  - {name: 500Nodes, labels: [performance], threshold: 270}`,
	"test/integration/scheduler/batch/batch_test.go": `package batch
func TestMain(m *testing.M) {}
func TestBatch(t *testing.T) {
	for _, c := range []struct{ name string }{{name: "two"}, {name: "one"}, {name: computed()},
		{name: "objects", pods: []v1.Pod{{Name: "p"}}}} { t.Run(c.name, nil) }
	t.Run("by itself", nil)
	_ = []schedulerapi.Plugin{{Name: "Mock"}}
}
func helper() { _ = struct{ name string }{name: "no case"} }`,
	"test/integration/scheduler/queueing/queue.go": `package queueing
var Cases = []*Case{{Name: "added"}}`,
}

const pluginInterfaces = `package framework
const (
	Add ActionType = 1 << iota
	Max = 1
)
type Code int
type Plugin interface { Name() string }
type ScorePlugin interface {
	Plugin
	Score(ctx context.Context, node string) (int64, error)
}
type Result struct { Score int64; hidden int }
func (r *Result) String() string { return "" }
func internal() {}`

func releaseOf(minor string, files map[string]string, kubeScheduler string) *release {
	api := `package v1
type Pod struct { Name string; hidden int }`
	return &release{minor: minor, kubernetes: treeOf(files), modules: map[string]fs.FS{
		"kube-scheduler": treeOf(map[string]string{"framework/types.go": kubeScheduler,
			"config/v1/types.go": "package v1", "extender/v1/types.go": "package v1"}),
		"api": treeOf(map[string]string{"core/v1/types.go": api, "core/v1/generated.pb.go": "package v1\ntype X int",
			"policy/v1/types.go": "package v1", "resource/v1/types.go": "package v1",
			"scheduling/v1/types.go": "package v1", "storage/v1/types.go": "package v1"}),
		"dynamic-resource-allocation": treeOf(map[string]string{"metrics.go": "package metrics"}),
		"component-base":              treeOf(map[string]string{"metrics/prometheus/a.go": "package prometheus"}),
	}}
}

func treeOf(files map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return tree
}

func TestLines(t *testing.T) {
	r := releaseOf("1.37", sources, pluginInterfaces)
	for name, test := range map[string]struct {
		lines func(*release) ([]string, error)
		want  []string
	}{
		"Go and modules": {requirements, []string{"go 1.26.0", "go.etcd.io/etcd/api/v3 v3.7.0"}},
		"default plugins": {defaultPlugins, []string{"NodeName", "NodeAffinity with weight (2)",
			"if utilfeature.DefaultFeatureGate.Enabled(features.A)", "Extra"}},
		"registry": {registeredPlugins, []string{"a.Name: runtime.FactoryAdapter(fts, a.New)", "b.Name: b.New"}},
		"extension points": {extensionPoints, []string{"Plugin.Name() string", "ReadyPlugin.Ready() bool (in-tree)",
			"ScorePlugin.Score(ctx context.Context, node string) (int64, error)"}},
		"feature gates": {featureGates, []string{"A Beta, on", "Served Beta, on"}},
		"interfaces": {interfaces, []string{"framework.Plugin.Name() string", "framework.Result.Score int64",
			"framework.Result.String() string", "framework.ScorePlugin embeds Plugin",
			"framework.ScorePlugin.Score(ctx context.Context, node string) (int64, error)", "framework.const Add",
			"framework.const Max", "framework.type Code int", "framework.type Plugin interface",
			"framework.type Result struct", "framework.type ScorePlugin interface"}},
		"API types": {apiTypes, []string{"core/v1.Pod.Name string", "core/v1.type Pod struct"}},
		"cluster events": {clusterEvents, []string{"Add ActionType",
			"EventNodeAdd = fwk.ClusterEvent{Resource: fwk.Node}", "Max = 1", `X = "x"`, "nodename: Node Add | Delete"}},
		"messages": {messages, []string{`scheduler/framework/plugins/nodename "no node %v"`,
			`scheduler/framework/plugins/nodename "node(s) didn't match"`}},
		"metrics": {metrics, []string{"a_seconds", `c {"pod"} STABLE`,
			`scheduler_b_total {"result", "profile"} ALPHA`}},
		"RBAC": {rbacRules, []string{"NewRule(Read...).RuleOrDie()", "eventsRule()",
			"if Enabled(features.A): other()"}},
		"workloads": {perfWorkloads, []string{"Basic/500Nodes [performance] threshold 270 (misc)",
			"Basic/5Nodes [short] (misc)"}},
		"integration cases": {integrationCases, []string{"batch/TestBatch", "batch/TestBatch: by itself",
			"batch/TestBatch: objects", "batch/TestBatch: one", "batch/TestBatch: two", "queueing/Cases: added"}},
	} {
		got, err := test.lines(r)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestGatesAreOfTheMinorVersion(t *testing.T) {
	for minor, want := range map[string][]string{"1.36": {"A Alpha, off", "Served Beta, on"},
		"1.38": {"A GA, on, locked", "Later Alpha, off", "Served Beta, on"}} {
		got, err := featureGates(releaseOf(minor, sources, pluginInterfaces))
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %q, %v", minor, got, err)
		}
	}
}

func TestGatesThatTheOtherVersionReads(t *testing.T) {
	before, files := releaseOf("1.37", sources, pluginInterfaces), maps.Clone(sources)
	delete(files, "cmd/kube-scheduler/app/server.go")
	files["cmd/kube-scheduler/app/other.go"] = "package app"
	after := releaseOf("1.37", files, pluginInterfaces)
	before.other, after.other = after, before
	got, err := featureGates(after)
	want := []string{"A Beta, on", "Served Beta, on, not read by the scheduler"}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestChangesByNameAreNextToEachOther(t *testing.T) {
	got := changesByName([]string{"B Alpha, off", "A Beta, off", "C Beta, on", "D", "D"},
		[]string{"A GA, on", "B Beta, off", "C Beta, on", "D"})
	want := []string{"- A Beta, off", "+ A GA, on", "- B Alpha, off", "+ B Beta, off", "- D"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrderIsAChangeOfTheDefaultPlugins(t *testing.T) {
	if got := changes([]string{"A", "B"}, []string{"B", "A"}); len(got) == 0 {
		t.Error("no change")
	}
}

func TestASectionHasTheChanges(t *testing.T) {
	before := releaseOf("1.36", sources, pluginInterfaces)
	after := releaseOf("1.36", sources, strings.Replace(pluginInterfaces, "node string)", "node NodeInfo)", 1))
	for _, test := range []struct {
		after *release
		want  string
	}{
		{before, "\n## Interfaces\n\nWhy.\n\nNo change.\n"},
		{after, "\n## Interfaces\n\nWhy.\n\n```diff\n" +
			"- framework.ScorePlugin.Score(ctx context.Context, node string) (int64, error)\n" +
			"+ framework.ScorePlugin.Score(ctx context.Context, node NodeInfo) (int64, error)\n```\n"},
	} {
		var out strings.Builder
		if err := (section{"Interfaces", "Why.", interfaces, false}).print(&out, before, test.after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	none := section{"None", "", func(*release) ([]string, error) { return nil, nil }, false}
	if err := none.print(&strings.Builder{}, before, after); err == nil {
		t.Error("sources without a line are not reported")
	}
}

func TestOnlyVersionsAreAccepted(t *testing.T) {
	for _, version := range []string{"", "1.37.2", "v1.37", "v2.0.0", "latest"} {
		if err := run(t.Context(), &strings.Builder{}, version, "v1.37.2", "."); err == nil {
			t.Errorf("%q is accepted", version)
		}
	}
}
