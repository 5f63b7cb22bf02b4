// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// shownAsUpstream shows profiles and reads the result as kube-scheduler reads its configuration
// file: strictly, with its defaults merged in, and validated.
func shownAsUpstream(t *testing.T,
	profiles []*resolve.Profile) (map[string]*schedconfig.KubeSchedulerConfiguration, string) {
	t.Helper()
	process, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	process.LeaderElection.ResourceNamespace = "kube-system"
	documents, err := resolve.ComponentConfigs(process, profiles)
	if err != nil {
		t.Fatal(err)
	}
	shown, all := map[string]*schedconfig.KubeSchedulerConfiguration{}, ""
	for name, document := range documents {
		all += string(document)
		object, gvk, err := scheme.Codecs.UniversalDecoder().Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		if gvk.String() != "kubescheduler.config.k8s.io/v1, Kind=KubeSchedulerConfiguration" {
			t.Errorf("%s is of %s", name, gvk)
		}
		c, ok := object.(*schedconfig.KubeSchedulerConfiguration)
		if !ok {
			t.Fatalf("%s is a %T", name, object)
		}
		c.APIVersion = gvk.GroupVersion().String() // as in kube-scheduler: some plugins are invalid in some versions
		if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil && len(profiles) > 0 {
			t.Errorf("%s is not valid: %v", name, err)
		}
		shown[name] = c
	}
	return shown, all
}

// inCommon is a profile in a form that both share: the documents disable all of kube-scheduler's
// default set, and have arguments in another order.
func inCommon(plugins *schedconfig.Plugins, args []schedconfig.PluginConfig) (*schedconfig.Plugins, map[string]string) {
	plugins = plugins.DeepCopy()
	plugins.MultiPoint.Disabled = nil
	byName := map[string]string{}
	for _, c := range args {
		if unknown, ok := c.Args.(*runtime.Unknown); ok {
			byName[c.Name] = string(unknown.Raw)
		} else if c.Args != nil {
			text, _ := json.Marshal(c.Args)
			byName[c.Name] = string(text)
		}
	}
	return plugins, byName
}

func TestKubeSchedulerReadsTheShownProfilesAsTheyRun(t *testing.T) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*", "*.in.yaml"))
	if err != nil || len(seeds) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	compared := 0
	for _, seed := range seeds {
		t.Run(filepath.ToSlash(seed), func(t *testing.T) {
			text, err := os.ReadFile(seed)
			if err != nil {
				t.Fatal(err)
			}
			in, err := parseObjects(text)
			if err != nil {
				t.Fatal(err)
			}
			in.Registered = registered()
			r := resolve.Objects(in)
			shown, _ := shownAsUpstream(t, slices.Collect(maps.Values(r.Profiles)))
			found := map[string]bool{}
			for name, c := range shown {
				for _, got := range c.Profiles {
					want := r.Profiles[got.SchedulerName]
					if len(r.Profiles) == 0 {
						continue // kube-scheduler runs its default profile then
					}
					found[got.SchedulerName] = true
					wantPlugins, wantArgs := inCommon(want.Config.Plugins, want.Config.PluginConfig)
					gotPlugins, gotArgs := inCommon(got.Plugins, got.PluginConfig)
					if diff := cmp.Diff(wantPlugins, gotPlugins, equateEmpty); diff != "" {
						t.Errorf("%s, %s (-runs +shown)\n%s", name, got.SchedulerName, diff)
					}
					for plugin, args := range wantArgs {
						if gotArgs[plugin] != args {
							t.Errorf("%s, %s: args of %s are %s, want %s", name, got.SchedulerName, plugin,
								gotArgs[plugin], args)
						}
					}
					percentage := want.PercentageOfNodesToScore
					if percentage == 0 {
						percentage = 100
					}
					if *got.PercentageOfNodesToScore != percentage || c.Parallelism != want.Parallelism ||
						len(c.Extenders) != len(want.Extenders) ||
						float64(c.PodInitialBackoffSeconds) < want.PodInitialBackoff.Seconds() ||
						float64(c.PodMaxBackoffSeconds) < want.PodMaxBackoff.Seconds() {
						t.Errorf("%s is shown with other settings: %+v", got.SchedulerName, c)
					}
					compared++
				}
			}
			if len(found) != len(r.Profiles) {
				t.Errorf("%d of %d profiles are shown", len(found), len(r.Profiles))
			}
		})
	}
	if compared < 20 {
		t.Errorf("only %d profiles were compared", compared)
	}
}

func TestProfilesThatShareTheirPolicysSettingsAreShownTogether(t *testing.T) {
	r := resolveText(t,
		policyText("default", `parallelism: 3`), policyText("batch", `parallelism: 5, podMaxBackoff: 1500ms`),
		policyText("alike", `parallelism: 3`),
		profileText("a", `policyRef: {name: batch}`), profileText("b", ``),
		profileText("c", `percentageOfNodesToScore: 7`), profileText("d", `policyRef: {name: alike}`),
	)
	shown, _ := shownAsUpstream(t, slices.Collect(maps.Values(r.Profiles)))
	got := map[string]string{}
	for name, c := range shown {
		var names []string
		for _, p := range c.Profiles {
			names = append(names, p.SchedulerName)
		}
		got[name] = fmt.Sprintf("%s: %d goroutines, backoff from %ds to %ds", strings.Join(names, " "), c.Parallelism,
			c.PodInitialBackoffSeconds, c.PodMaxBackoffSeconds)
	}
	want := map[string]string{"componentconfig": "b c d: 3 goroutines, backoff from 1s to 10s",
		"componentconfig/batch": "a: 5 goroutines, backoff from 1s to 2s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfigWithoutProfilesIsADocument(t *testing.T) {
	process, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	documents, err := resolve.ComponentConfigs(process, nil)
	if err != nil || len(documents) != 1 ||
		strings.Contains(string(documents[resolve.ComponentConfig]), "schedulerName") {
		t.Errorf("%s, %v", documents, err)
	}
}

func TestShownExtendersHaveNoSecrets(t *testing.T) {
	in := parseText(t, profileText("p", `policyRef: {name: q}`), policyText("q", `extenders: [
		{urlPrefix: "https://gpu.example/x", filterVerb: f, prioritizeVerb: s, weight: 3, httpTimeout: 7s, nodeCacheCapable: true, tlsConfig: {serverName: gpu, secretRef: {namespace: n, name: s}}, managedResources: [{name: a.b/c, ignoredByScheduler: true}]},
		{urlPrefix: "https://trusted.example", bindVerb: b, ignorable: true},
		{urlPrefix: "https://anybody.example", preemptVerb: p, enableHTTPS: true}]`))
	secret := tlsSecret(t, 1)
	for name := range resolve.SecretRefs(in.Policies, resolve.LastGood{}) {
		in.Secrets = map[types.NamespacedName]resolve.Secret{name: secret}
	}
	r := resolve.Objects(in)
	if !r.ProfileResults["p"].Accepted {
		t.Fatal(r.ProfileResults["p"].Message)
	}
	shown, text := shownAsUpstream(t, slices.Collect(maps.Values(r.Profiles)))
	for _, word := range []string{"PRIVATE", "CERTIFICATE", "certData", "keyData", "caData"} {
		if strings.Contains(text, word) {
			t.Errorf("%s shows: %s", word, text)
		}
	}
	var got []string
	for _, e := range shown[resolve.ComponentConfig].Extenders {
		got = append(got, fmt.Sprintf("%s %s%s%s%s %d %v %v %v %v", e.URLPrefix, e.FilterVerb, e.PreemptVerb,
			e.PrioritizeVerb, e.BindVerb, e.Weight, e.HTTPTimeout.Duration, e.EnableHTTPS, e.NodeCacheCapable,
			e.Ignorable))
		if e.TLSConfig != nil {
			got = append(got, fmt.Sprintf("insecure %v, name %q", e.TLSConfig.Insecure, e.TLSConfig.ServerName))
		}
	}
	want := []string{
		"https://gpu.example/x fs 3 7s false true false", `insecure false, name "gpu"`,
		"https://anybody.example p 0 5s false false false", `insecure true, name ""`,
		"https://trusted.example b 0 5s false false true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKubeSchedulerAddsNothingToTheShownConfig(t *testing.T) {
	r := resolveText(t, profileText("p", ``))
	// A policy leaves a plugin out in this way: it does not say that the plugin is disabled.
	p := *r.Profiles["p"]
	p.Config = p.Config.DeepCopy()
	enabled := &p.Config.Plugins.MultiPoint.Enabled
	*enabled = slices.DeleteFunc(*enabled,
		func(plugin schedconfig.Plugin) bool { return plugin.Name == "ImageLocality" })
	shown, _ := shownAsUpstream(t, []*resolve.Profile{&p})
	got, _ := inCommon(shown[resolve.ComponentConfig].Profiles[0].Plugins, nil)
	want, _ := inCommon(p.Config.Plugins, nil)
	if diff := cmp.Diff(want, got, equateEmpty); diff != "" {
		t.Errorf("(-runs +shown)\n%s", diff)
	}
}
