// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

// outOfTree are the out-of-tree plugins of the inputs.
var outOfTree = []string{"MyPlugin", "Coscheduling", "CapacityScheduling", "NodeResourceTopologyMatch",
	"NodeResourcesAllocatable"}

// TestConvertedProfilesResolveAsInKubeScheduler compares what livesched resolves the configurations
// of v1 and v1beta3 to with what kube-scheduler does: plugins, weights, the way they merge,
// arguments.
func TestConvertedProfilesResolveAsInKubeScheduler(t *testing.T) {
	compared := 0
	for _, file := range inputs(t) {
		configuration := readConfiguration(t, file)
		version, _ := configuration["apiVersion"].(string)
		name := filepath.Base(filepath.Dir(file))
		if !strings.HasSuffix(version, "/v1") && !strings.HasSuffix(version, "/v1beta3") || name == "everything-of-v1" {
			continue // the current kube-scheduler does not read it
		}
		t.Run(name, func(t *testing.T) {
			compared++
			asV1(configuration)
			want, err := load(configuration)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := manifests.Read([]string{file}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			names := registered(t, outOfTree...)
			result, err := convert.Convert(documents, convert.Options{Registered: names})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, want, resolveConverted(result, names))
		})
	}
	if compared < 12 {
		t.Errorf("only %d inputs were compared", compared)
	}
}

// asV1 changes the version of a configuration of v1beta3 to v1, which has the same fields.
func asV1(configuration map[string]any) {
	configuration["apiVersion"] = "kubescheduler.config.k8s.io/v1"
}

// readConfiguration returns the KubeSchedulerConfiguration in a file, nil if there is none.
func readConfiguration(t *testing.T, file string) map[string]any {
	t.Helper()
	documents, err := manifests.Read([]string{file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range documents {
		for _, holder := range []string{"data", "spec"} {
			texts, _ := documents[i].Object[holder].(map[string]any)
			for key, text := range texts {
				inner, err := documents[i].Inner(holder+"["+key+"]", fmt.Sprint(text))
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, inner...)
			}
		}
	}
	for i := range documents {
		if documents[i].Text("kind") == "KubeSchedulerConfiguration" {
			return documents[i].Object
		}
	}
	return nil
}

// compare compares a configuration as kube-scheduler loads it with livesched's resolution, except
// for percentageOfNodesToScore, whose 0 differs in meaning.
func compare(t *testing.T, want *schedconfig.KubeSchedulerConfiguration, got *resolve.Resolution) {
	t.Helper()
	if len(got.Profiles) != len(want.Profiles) {
		t.Fatalf("%d profiles, want %d: %+v", len(got.Profiles), len(want.Profiles), got.ProfileResults)
	}
	for i := range want.Profiles {
		wanted := &want.Profiles[i]
		profile := got.Profiles[wanted.SchedulerName]
		if profile == nil {
			t.Fatalf("no profile %q: %+v", wanted.SchedulerName, got.ProfileResults)
		}
		withIgnored(wanted, want.Extenders)
		config := objects.WithoutUnseenArgs(profile.Config, wanted)
		if diff := cmp.Diff(wanted, config, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-kube-scheduler +livesched)\n%s", wanted.SchedulerName, diff)
		}
		if profile.Parallelism != want.Parallelism {
			t.Errorf("parallelism %d, want %d", profile.Parallelism, want.Parallelism)
		}
		if initial, most := profile.PodInitialBackoff/time.Second,
			profile.PodMaxBackoff/time.Second; int64(initial) != want.PodInitialBackoffSeconds ||
			int64(most) != want.PodMaxBackoffSeconds {
			t.Errorf("backoff of %d to %d s, want %d to %d s", initial, most, want.PodInitialBackoffSeconds,
				want.PodMaxBackoffSeconds)
		}
		compareExtenders(t, want.Extenders, profile.Extenders)
	}
}

// withIgnored sets the resources that NodeResourcesFit leaves to extenders, as kube-scheduler does
// when it builds the extenders (pkg/scheduler/scheduler.go).
func withIgnored(profile *schedconfig.KubeSchedulerProfile, extenders []schedconfig.Extender) {
	var ignored []string
	for _, extender := range extenders {
		for _, resource := range extender.ManagedResources {
			if resource.IgnoredByScheduler {
				ignored = append(ignored, resource.Name)
			}
		}
	}
	for i := range profile.PluginConfig {
		if fit, ok := profile.PluginConfig[i].Args.(*schedconfig.NodeResourcesFitArgs); ok && len(ignored) > 0 {
			fit.IgnoredResources = ignored
		}
	}
}

func compareExtenders(t *testing.T, want []schedconfig.Extender, got []resolve.Extender) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d extenders, want %d", len(got), len(want))
	}
	for i, w := range want { // all inputs list extenders in the order in which they are called
		g := got[i]
		timeout := w.HTTPTimeout.Duration
		if timeout == 0 {
			timeout = 5 * time.Second // pkg/scheduler/extender.go
		}
		if g.URLPrefix != w.URLPrefix || g.FilterVerb != w.FilterVerb || g.PrioritizeVerb != w.PrioritizeVerb ||
			g.PreemptVerb != w.PreemptVerb ||
			g.BindVerb != w.BindVerb || g.Weight != w.Weight || g.NodeCacheCapable != w.NodeCacheCapable ||
			g.Ignorable != w.Ignorable || g.Timeout != timeout {
			t.Errorf("extender %+v, want %+v", g, w)
		}
		hasCA := w.TLSConfig != nil && (w.TLSConfig.CAFile != "" || len(w.TLSConfig.CAData) > 0)
		if insecure := w.TLSConfig != nil && w.TLSConfig.Insecure || w.EnableHTTPS &&
			!hasCA; strings.HasPrefix(w.URLPrefix, "https:") && g.TLS.Insecure != insecure {
			t.Errorf("extender %s: insecure is %t, want %t", w.URLPrefix, g.TLS.Insecure, insecure)
		}
	}
}

// TestRandomConfigurationsResolveAsInKubeScheduler does the same with random configurations that
// kube-scheduler accepts.
func TestRandomConfigurationsResolveAsInKubeScheduler(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	names := registered(t, "Coscheduling")
	accepted := 0
	for i := range 600 {
		configuration := randomConfiguration(random, sets.List(names))
		text := string(mustJSON(configuration))
		asV1(configuration)
		want, err := load(configuration)
		if err != nil {
			continue
		}
		result := converted(t, text, convert.Options{Registered: names})
		resolution := resolveConverted(result, names)
		if rejectedByBuild(resolution) {
			continue
		}
		accepted++
		compare(t, want, resolution)
		if t.Failed() {
			t.Fatalf("case %d: %s", i, text)
		}
	}
	if accepted < 100 {
		t.Errorf("only %d configurations were accepted, which is too few", accepted)
	}
}

// rejectedByBuild reports whether a profile was not accepted for a reason that kube-scheduler only
// finds when it builds the profile.
func rejectedByBuild(resolution *resolve.Resolution) bool {
	for _, result := range resolution.ProfileResults {
		for _, problem := range result.Problems {
			if strings.HasPrefix(problem.Path, "spec.plugins.queueSort") ||
				strings.HasPrefix(problem.Path, "spec.plugins.bind") ||
				strings.HasSuffix(problem.Path, ".args.scoringStrategy.type") ||
				problem.Reason == "QueueSortConflict" ||
				strings.Contains(problem.Detail, " does not extend ") {
				return true
			}
		}
		for _, obstacle := range result.Obstacles {
			if obstacle.Reason == "QueueSortConflict" {
				return true // kube-scheduler finds it when it builds the profiles
			}
		}
	}
	return false
}
