// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// sources are the files of a small release.
var sources = map[string]string{
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
	Elsewhere: {{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.GA}},
	Later: {{Version: version.MustParse("1.38"), Default: false, PreRelease: featuregate.Alpha}},
}`,
	"pkg/scheduler/scheduler.go":      "package scheduler\nvar _ = []any{features.A, features.Later}",
	"pkg/scheduler/scheduler_test.go": "package scheduler\nvar _ = features.Elsewhere",
	"pkg/scheduler/metrics/metrics.go": `package metrics
var _ = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: S, Name: "b_total", StabilityLevel: metrics.ALPHA},
	[]string{"result", "profile"})
var _ = metrics.NewHistogram(&metrics.HistogramOpts{Name: "a_seconds"})`,
	"pkg/scheduler/framework/events.go": `package framework
const X = "x"
var EventNodeAdd = fwk.ClusterEvent{Resource: fwk.Node}`,
	"plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go": `package bootstrappolicy
func roles() {
	kubeSchedulerRules := []rbacv1.PolicyRule{eventsRule(), rbacv1helpers.NewRule(Read...).RuleOrDie()}
	kubeSchedulerRules = append(kubeSchedulerRules, other())
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
	for _, c := range []struct{ name string }{{name: "two"}, {name: "one"}, {name: computed()}} { t.Run(c.name, nil) }
}
func helper() { _ = struct{ name string }{name: "no case"} }`,
}

const pluginInterfaces = `package framework
const Max = 1
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
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	other := fstest.MapFS{"framework/interface.go": &fstest.MapFile{Data: []byte(kubeScheduler)},
		"config/v1/types.go":   &fstest.MapFile{Data: []byte("package v1")},
		"extender/v1/types.go": &fstest.MapFile{Data: []byte("package v1")}}
	return &release{minor: minor, kubernetes: tree, modules: map[string]fs.FS{"kube-scheduler": other}}
}

func TestLines(t *testing.T) {
	r := releaseOf("1.37", sources, pluginInterfaces)
	for name, test := range map[string]struct {
		lines func(*release) ([]string, error)
		want  []string
	}{
		"default plugins": {defaultPlugins, []string{"NodeName", "NodeAffinity with ptr.To[int32](2)",
			"if utilfeature.DefaultFeatureGate.Enabled(features.A)", "Extra"}},
		"feature gates": {featureGates, []string{"A Beta, on"}},
		"interfaces": {interfaces, []string{"framework.Result.Score int64", "framework.Result.String() string",
			"framework.ScorePlugin embeds Plugin",
			"framework.ScorePlugin.Score(ctx context.Context, node string) (int64, error)",
			"framework.const Max", "framework.type Code int", "framework.type Plugin interface",
			"framework.type Result struct", "framework.type ScorePlugin interface"}},
		"cluster events": {clusterEvents, []string{"EventNodeAdd = fwk.ClusterEvent{Resource: fwk.Node}", `X = "x"`}},
		"metrics":        {metrics, []string{`S/b_total {"result", "profile"} ALPHA`, "a_seconds"}},
		"RBAC": {rbacRules, []string{"eventsRule()", "rbacv1helpers.NewRule(Read...).RuleOrDie()",
			"other()"}},
		"workloads": {perfWorkloads, []string{"misc: Basic/500Nodes [performance] threshold 270",
			"misc: Basic/5Nodes [short]"}},
		"integration cases": {integrationCases, []string{"batch/TestBatch", "batch/TestBatch: one",
			"batch/TestBatch: two"}},
	} {
		got, err := test.lines(r)
		if name == "interfaces" { // Plugin has one method
			test.want = slices.Insert(test.want, 0, "framework.Plugin.Name() string")
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestGatesAreOfTheMinorVersion(t *testing.T) {
	for minor, want := range map[string][]string{"1.36": {"A Alpha, off"},
		"1.38": {"A GA, on, locked", "Later Alpha, off"}} {
		got, err := featureGates(releaseOf(minor, sources, pluginInterfaces))
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %q, %v", minor, got, err)
		}
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
		if err := (section{"Interfaces", "Why.", interfaces}).print(&out, before, test.after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	none := section{"None", "", func(*release) ([]string, error) { return nil, nil }}
	if err := none.print(&strings.Builder{}, before, after); err == nil {
		t.Error("sources without a line are not reported")
	}
}

func TestTheSourcesOfFollowersAreCounted(t *testing.T) {
	const page = "## Versions\n\n| livesched | kube-scheduler |\n|---|---|\n" +
		"| `internal/a.go` | the features: `pkg/features` and `kube-scheduler/framework/interface.go` |\n\nText"
	before := releaseOf("1.36", sources, pluginInterfaces)
	changed := map[string]string{"pkg/features/kube_features.go": "package features",
		"pkg/features/new.go": "package x\n", "pkg/features/new_test.go": "package x"}
	var out strings.Builder
	if err := printSources(&out, before, releaseOf("1.37", changed, pluginInterfaces), page); err != nil {
		t.Fatal(err)
	}
	const want = "| internal/a.go | pkg/features | 10, 3 |\n" +
		"| internal/a.go | kube-scheduler/framework/interface.go | 0, 0 |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s", out.String())
	}
	for _, wrong := range []string{"no table", "| livesched | kube-scheduler |\n|---|---|\n| `a.go` | the features |\n"} {
		if err := printSources(&out, before, before, wrong); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// TestTheTableNamesSourcesThatExist is about docs/development.md and the version in go.mod.
func TestTheTableNamesSourcesThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "development.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := followers(string(page))
	if err != nil {
		t.Fatal(err)
	}
	r := &release{kubernetes: required(t, "kubernetes"), modules: map[string]fs.FS{}}
	for _, name := range modules {
		r.modules[name] = required(t, name)
	}
	for _, f := range all {
		for _, source := range f.sources {
			tree, name := r.tree(source)
			if _, err := fs.Stat(tree, name); err != nil {
				t.Errorf("%s: %v", f.file, err)
			}
		}
	}
}

func required(t *testing.T, name string) fs.FS {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/"+name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return os.DirFS(strings.TrimSpace(string(dir)))
}

func TestOnlyVersionsAreAccepted(t *testing.T) {
	for _, version := range []string{"", "1.37.2", "v1.37", "v2.0.0", "latest"} {
		if err := run(t.Context(), &strings.Builder{}, version, "v1.37.2", os.DevNull); err == nil {
			t.Errorf("%q is accepted", version)
		}
	}
}
