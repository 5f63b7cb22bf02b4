// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// scoresOf returns the resolved score plugins of a profile with their weights.
func scoresOf(t *testing.T, text string, names sets.Set[string]) map[string]string {
	t.Helper()
	resolution := resolveConverted(converted(t, text, convert.Options{Registered: names}), names)
	profile := resolution.Profiles["default-scheduler"]
	if profile == nil {
		t.Fatalf("%+v", resolution.ProfileResults)
	}
	description, err := resolve.Describe(profile)
	if err != nil {
		t.Fatal(err)
	}
	scores := map[string]string{}
	for _, plugin := range description.Plugins["score"] {
		name, weight, _ := strings.Cut(plugin, " ")
		scores[name] = strings.TrimSuffix(strings.TrimPrefix(weight, "(weight "), ")")
	}
	// They were not score plugins in the old versions, and score only pods with claims.
	delete(scores, "DynamicResources")
	delete(scores, "VolumeBinding")
	return scores
}

// defaults are the default score plugins of the versions, from default_plugins.go in Kubernetes
// 1.21, 1.24 and 1.28.
var defaults = map[string]map[string]string{
	"v1beta1": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "1",
		"NodeResourcesFit": "1", "NodeAffinity": "1", "NodePreferAvoidPods": "10000", "PodTopologySpread": "2",
		"TaintToleration": "1"},
	"v1beta2": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "1",
		"NodeResourcesFit": "1", "NodeAffinity": "1", "PodTopologySpread": "2", "TaintToleration": "1"},
	"v1beta3": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "2",
		"NodeResourcesFit": "1", "NodeAffinity": "2", "PodTopologySpread": "2", "TaintToleration": "3"},
}

func TestDefaultScorePluginsOfOldVersionsRemainInEffect(t *testing.T) {
	for version, want := range defaults {
		t.Run(version, func(t *testing.T) {
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/%s\nkind: KubeSchedulerConfiguration\n",
				version)
			if diff := cmp.Diff(want, scoresOf(t, text, registered(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScorePluginsOfOldVersionsAreConverted(t *testing.T) {
	for name, test := range map[string]struct {
		version, plugins string
		// change has the expected differences from the defaults; "" means that the plugin is
		// missing.
		change map[string]string
	}{
		"a weight is changed": {"v1beta2", `{score: {enabled: [{name: NodeAffinity, weight: 7}]}}`,
			map[string]string{"NodeAffinity": "7"}},
		"a plugin is disabled": {"v1beta2", `{score: {disabled: [{name: InterPodAffinity}]}}`,
			map[string]string{"InterPodAffinity": ""}},
		"a plugin is moved": {"v1beta2",
			`{score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 4}]}}`,
			map[string]string{"TaintToleration": "4"}},
		"another strategy": {"v1beta1", `{score: {disabled: [{name: NodeResourcesLeastAllocated}], ` +
			`enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}}`, map[string]string{"NodeResourcesFit": "3"}},
		"no strategy": {"v1beta1", `{score: {disabled: [{name: NodeResourcesLeastAllocated}]}}`,
			map[string]string{"NodeResourcesFit": ""}},
		"two strategies": {"v1beta1",
			`{score: {enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}}`,
			map[string]string{"NodeResourcesFit": "3", "NodeResourcesLeastAllocated": "1"}},
		"a plugin that livesched has": {"v1beta1", `{score: {enabled: [{name: NodeLabel, weight: 2}]}}`,
			map[string]string{"NodeLabel": "2"}},
		"another weight of the strategy": {"v1beta1",
			`{score: {enabled: [{name: NodeResourcesLeastAllocated, weight: 9}]}}`,
			map[string]string{"NodeResourcesFit": "9"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for plugin, weight := range defaults[test.version] {
				want[plugin] = weight
			}
			for plugin, weight := range test.change {
				if want[plugin] = weight; weight == "" {
					delete(want, plugin)
				}
			}
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/%s\nkind: KubeSchedulerConfiguration\n"+
				"profiles:\n- plugins: %s\n", test.version, test.plugins)
			if diff := cmp.Diff(want, scoresOf(t, text, registered(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a strategy as the only plugin", func(t *testing.T) {
		const text = "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
			`- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesMostAllocated}]}}` + "\n"
		if diff := cmp.Diff(map[string]string{"NodeResourcesFit": "1"}, scoresOf(t, text, registered(t))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOtherDocumentsAreSkipped(t *testing.T) {
	for name, text := range map[string]string{
		"another kind":              "apiVersion: v1\nkind: Service\n",
		"a policy of another API":   "apiVersion: audit.k8s.io/v1\nkind: Policy\n",
		"a ConfigMap of other data": "apiVersion: v1\nkind: ConfigMap\ndata: {a: 'x', b: 'kind: Service', c: ': ['}\n",
		"an empty ConfigMap":        "apiVersion: v1\nkind: ConfigMap\n",
		"nothing":                   "",
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifests.Parse("input", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := convert.Convert(documents, convert.Options{Registered: registered(t)}); !errors.Is(err,
				convert.ErrNothing) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestAnUnknownVersionIsAnError(t *testing.T) {
	documents, err := manifests.Parse("input",
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = convert.Convert(documents, convert.Options{Registered: registered(t)})
	if err == nil || !strings.Contains(err.Error(),
		`input:1: apiVersion "kubescheduler.config.k8s.io/v1alpha1" cannot be converted: must be`) {
		t.Errorf("got error %v", err)
	}
}

func TestPoliciesAreNamedAfterWhatTheyAreFor(t *testing.T) {
	configuration := func(schedulers ...string) string {
		text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
		for _, name := range schedulers {
			text += "- {schedulerName: " + name + "}\n"
		}
		return text + "---\n"
	}
	inConfigMap := func(text string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: my-config}\ndata:\n  x.yaml: |\n    " +
			strings.ReplaceAll(strings.TrimSuffix(text, "---\n"), "\n", "\n    ")
	}
	for name, test := range map[string]struct {
		file, text, policyName string
		// want has the policies, in the order of the profiles.
		want []string
	}{
		"one profile": {"batch.yaml", configuration("gpu"), "", []string{"gpu"}},
		"no profile":  {"batch.yaml", configuration(), "", []string{"default-scheduler"}},
		"several profiles": {"conf/My batch.v2.yaml", configuration("a", "b"), "",
			[]string{"my-batch.v2", "my-batch.v2"}},
		"several profiles, on standard input": {"-", configuration("a", "b"), "", []string{"a", "a"}},
		"several profiles, in a ConfigMap": {"-", inConfigMap(configuration("a", "b")), "",
			[]string{"my-config", "my-config"}},
		"several configurations": {"batch.yaml", configuration("a") + configuration("b"), "",
			[]string{"a", "b"}},
		"several configurations, with one name": {"x.yaml", configuration("a", "b") + configuration("c", "d"), "",
			[]string{"x", "x", "x-2", "x-2"}},
		"a legacy policy": {"x.yaml", "kind: Policy\napiVersion: v1\n", "",
			[]string{"default-scheduler"}},
		"the name that other profiles use": {"default.yaml", configuration("a", "b"), "",
			[]string{"default-policy", "default-policy"}},
		"a name that the user chose": {"x.yaml", configuration("a") + configuration("b"), "mine",
			[]string{"mine", "mine-2"}},
		"and that other profiles use": {"x.yaml", configuration("a"), "default", []string{"default"}},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifests.Parse(test.file, []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			result, err := convert.Convert(documents,
				convert.Options{Registered: registered(t), PolicyName: test.policyName})
			if err != nil {
				t.Fatal(err)
			}
			var got, policies []string
			for _, profile := range result.Profiles {
				got = append(got, profile.Spec.PolicyRef.Name)
			}
			for _, policy := range result.Policies {
				policies = append(policies, policy.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("references: %s", diff)
			}
			if diff := cmp.Diff(slices.Compact(test.want), policies); diff != "" {
				t.Errorf("policies: %s", diff)
			}
		})
	}
}

func TestOptionsSupplementTheInput(t *testing.T) {
	const text = `{"kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": "https://x.example", ` +
		`"filterVerb": "f", "enableHttps": true, "tlsConfig": {"CAFile": "/ca.crt"}}]}`
	result := converted(t, text,
		convert.Options{Registered: registered(t), SchedulerName: "old", PolicyName: "was", Namespace: "here"})
	if result.Profiles[0].Name != "old" || result.Profiles[0].Spec.PolicyRef.Name != "was" ||
		result.Policies[0].Name != "was" {
		t.Errorf("%+v", result)
	}
	if ref := result.Policies[0].Spec.Extenders[0].TLSConfig.SecretRef; ref == nil || ref.Namespace != "here" ||
		ref.Name != "was-extender-0" {
		t.Errorf("%+v", ref)
	}
	if !strings.Contains(fmt.Sprint(result.Remarks),
		"kubectl create secret generic -n here was-extender-0 --from-file=ca.crt=/ca.crt") {
		t.Errorf("%v", result.Remarks)
	}
}

func TestRegisteredOutOfTreePluginsAreKept(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- " +
		"plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}\n"
	if losses := converted(t, text, convert.Options{Registered: registered(t, "Coscheduling")}).Losses(); losses != 0 {
		t.Errorf("%d losses", losses)
	}
	result := converted(t, strings.ReplaceAll(text, "Coscheduling", "MyPlugin"),
		convert.Options{Registered: registered(t)})
	if result.Losses() != 1 || result.Profiles[0].Spec.Plugins != nil || result.Remarks[1].Line != 4 {
		t.Errorf("%+v", result)
	}
}

func TestCoschedulingIsNotLost(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
		"- plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {enabled: [{name: Coscheduling}], " +
		"disabled: [{name: '*'}]}}\n" +
		"  pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}]\n"
	result := converted(t, text, convert.Options{Registered: registered(t)})
	if text := fmt.Sprint(result.Remarks); result.Losses() != 0 ||
		strings.Count(text, "livesched schedules PodGroups by itself") != 1 {
		t.Errorf("%s", text)
	}
	if p := result.Profiles[0].Spec.Plugins; p == nil ||
		!cmp.Equal(p.QueueSort.Enabled, []v1alpha1.Plugin{{Name: "PrioritySort"}}) {
		t.Errorf("plugins: %+v", p)
	}
	other := converted(t, strings.Replace(text, "queueSort: {enabled: [{name: Coscheduling}",
		"queueSort: {enabled: [{name: QoSSort}", 1), convert.Options{Registered: registered(t)})
	if other.Losses() != 2 { // the plugin, and its place
		t.Errorf("%s", fmt.Sprint(other.Remarks))
	}
}

func TestLimitsOfExtendersAreLosses(t *testing.T) {
	const text = `{"kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": "http://127.0.0.1:8888", ` +
		`"filterVerb": "f", "httpTimeout": 20000000000}]}`
	local, err := resolve.ParseAllowedHosts([]string{"http://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		allowed resolve.AllowedHosts
		losses  int
	}{{defaultHosts(t), 2}, {local, 1}, {resolve.AnyHost(), 1}} {
		result := converted(t, text, convert.Options{Registered: registered(t), AllowedHosts: test.allowed})
		if result.Losses() != test.losses {
			t.Errorf("%d losses, want %d: %s", result.Losses(), test.losses, fmt.Sprint(result.Remarks))
		}
	}
}
