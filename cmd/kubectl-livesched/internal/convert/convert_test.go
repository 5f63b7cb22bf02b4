// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// scoresOf returns the resolved score plugins of a profile with their weights.
func scoresOf(t *testing.T, text string, names sets.Set[string]) map[string]string {
	t.Helper()
	resolution := resolve(converted(t, text, convert.Options{Registered: names}), names)
	profile := resolution.Profiles["default-scheduler"]
	if profile == nil {
		t.Fatalf("%+v", resolution.ProfileResults)
	}
	description, err := config.Describe(profile)
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
	"v1beta1": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "1", "NodeResourcesFit": "1", "NodeAffinity": "1", "NodePreferAvoidPods": "10000", "PodTopologySpread": "2", "TaintToleration": "1"},
	"v1beta2": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "1", "NodeResourcesFit": "1", "NodeAffinity": "1", "PodTopologySpread": "2", "TaintToleration": "1"},
	"v1beta3": {"NodeResourcesBalancedAllocation": "1", "ImageLocality": "1", "InterPodAffinity": "2", "NodeResourcesFit": "1", "NodeAffinity": "2", "PodTopologySpread": "2", "TaintToleration": "3"},
}

func TestDefaultScorePluginsOfOldVersionsRemainInEffect(t *testing.T) {
	for version, want := range defaults {
		t.Run(version, func(t *testing.T) {
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/%s\nkind: KubeSchedulerConfiguration\n", version)
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
		"a weight is changed":            {"v1beta2", `{score: {enabled: [{name: NodeAffinity, weight: 7}]}}`, map[string]string{"NodeAffinity": "7"}},
		"a plugin is disabled":           {"v1beta2", `{score: {disabled: [{name: InterPodAffinity}]}}`, map[string]string{"InterPodAffinity": ""}},
		"a plugin is moved":              {"v1beta2", `{score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 4}]}}`, map[string]string{"TaintToleration": "4"}},
		"another strategy":               {"v1beta1", `{score: {disabled: [{name: NodeResourcesLeastAllocated}], enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}}`, map[string]string{"NodeResourcesFit": "3"}},
		"no strategy":                    {"v1beta1", `{score: {disabled: [{name: NodeResourcesLeastAllocated}]}}`, map[string]string{"NodeResourcesFit": ""}},
		"two strategies":                 {"v1beta1", `{score: {enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}}`, map[string]string{"NodeResourcesFit": "3", "NodeResourcesLeastAllocated": "1"}},
		"a plugin that livesched has":    {"v1beta1", `{score: {enabled: [{name: NodeLabel, weight: 2}]}}`, map[string]string{"NodeLabel": "2"}},
		"another weight of the strategy": {"v1beta1", `{score: {enabled: [{name: NodeResourcesLeastAllocated, weight: 9}]}}`, map[string]string{"NodeResourcesFit": "9"}},
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
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/%s\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: %s\n", test.version, test.plugins)
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
			if _, err := convert.Convert(documents, convert.Options{Registered: registered(t)}); !errors.Is(err, convert.ErrNothing) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestAnUnknownVersionIsAnError(t *testing.T) {
	documents, err := manifests.Parse("input", []byte("apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = convert.Convert(documents, convert.Options{Registered: registered(t)})
	if err == nil || !strings.Contains(err.Error(), `input:1: apiVersion "kubescheduler.config.k8s.io/v1alpha1" cannot be converted: must be`) {
		t.Errorf("got error %v", err)
	}
}

func TestSeveralConfigurationsDoNotShareAPolicy(t *testing.T) {
	const one = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: %d\nprofiles: [{schedulerName: %s}]\n---\n"
	result := converted(t, fmt.Sprintf(one, 1, "a")+fmt.Sprintf(one, 2, "b"), convert.Options{Registered: registered(t)})
	if len(result.Policies) != 2 || result.Policies[0].Name != "default" || result.Policies[1].Name != "default-2" {
		t.Fatalf("%+v", result.Policies)
	}
	if a, b := result.Profiles[0].Spec.PolicyRef.Name, result.Profiles[1].Spec.PolicyRef.Name; a != "" || b != "default-2" {
		t.Errorf("references %q, %q", a, b)
	}
}

func TestOptionsSupplementTheInput(t *testing.T) {
	const text = `{"kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": "https://x.example", "filterVerb": "f", "enableHttps": true, "tlsConfig": {"CAFile": "/ca.crt"}}]}`
	result := converted(t, text, convert.Options{Registered: registered(t), SchedulerName: "old", PolicyName: "was", Namespace: "here"})
	if result.Profiles[0].Name != "old" || result.Profiles[0].Spec.PolicyRef.Name != "was" || result.Policies[0].Name != "was" {
		t.Errorf("%+v", result)
	}
	if ref := result.Policies[0].Spec.Extenders[0].TLSConfig.SecretRef; ref == nil || ref.Namespace != "here" || ref.Name != "was-extender-0" {
		t.Errorf("%+v", ref)
	}
	if !strings.Contains(fmt.Sprint(result.Remarks), "kubectl create secret generic -n here was-extender-0 --from-file=ca.crt=/ca.crt") {
		t.Errorf("%v", result.Remarks)
	}
}

func TestRegisteredOutOfTreePluginsAreKept(t *testing.T) {
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}\n"
	if losses := converted(t, text, convert.Options{Registered: registered(t, "Coscheduling")}).Losses(); losses != 0 {
		t.Errorf("%d losses", losses)
	}
	result := converted(t, text, convert.Options{Registered: registered(t)})
	if result.Losses() != 1 || result.Profiles[0].Spec.Plugins != nil || result.Remarks[1].Line != 4 {
		t.Errorf("%+v", result)
	}
}
