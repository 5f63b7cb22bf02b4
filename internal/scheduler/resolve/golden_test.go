// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var update = flag.Bool("update", false, "write the golden files")

// registered returns kube-scheduler's plugins, those that it had in the past, and three others: two
// that sort the queue, and one that does not.
func registered() sets.Set[string] {
	return sets.KeySet(schedplugins.NewInTreeRegistry()).Insert(
		"NodeLabel", "NodePreferAvoidPods", "NodeResourceLimits", "NodeResourcesLeastAllocated",
		"NodeResourcesMostAllocated",
		"RequestedToCapacityRatio", "SelectorSpread", "ServiceAffinity",
	).Insert("Coscheduling", "QoSSort", "DeadlineSort")
}

// Each directory of testdata is a sequence. Its files 1.in.yaml, 2.in.yaml … are all the objects at
// one time after the other, and N.out.yaml is the resolution after all profiles of the earlier ones
// have run.
func TestGolden(t *testing.T) {
	stories, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(stories) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, story := range stories {
		if name := filepath.Base(story); name == "fuzz" || name == "legacy" {
			continue
		}
		t.Run(filepath.Base(story), func(t *testing.T) {
			var lastGood resolve.LastGood
			for n := 1; ; n++ {
				in := filepath.Join(story, fmt.Sprintf("%d.in.yaml", n))
				text, err := os.ReadFile(in)
				if os.IsNotExist(err) && n > 1 {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				input, err := parseObjects(text)
				if err != nil {
					t.Fatalf("%s: %v", in, err)
				}
				input.LastGood, input.Registered = lastGood, registered()
				resolution := resolve.Objects(input)
				checkInvariants(t, input, resolution)
				compare(t, filepath.Join(story, fmt.Sprintf("%d.out.yaml", n)), show(t, resolution))
				lastGood = resolution.LastGood(running(resolution))
			}
		})
	}
}

func running(resolution *resolve.Resolution) []*resolve.Profile {
	var profiles []*resolve.Profile
	for _, profile := range resolution.Profiles {
		profiles = append(profiles, profile)
	}
	return profiles
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), write it with -update:\n%s", file, diff)
	}
}

// parseObjects reads SchedulerProfiles, SchedulingPolicies and Secrets. If the text has no UID, it
// sets one; if it has no generation, it sets 1.
func parseObjects(text []byte) (resolve.Input, error) {
	in := resolve.Input{AllowedHosts: resolve.AnyHost()}
	for _, document := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var header struct{ Kind string }
		if err := yaml.Unmarshal(document, &header); err != nil {
			return in, err
		}
		switch header.Kind {
		case "SchedulerProfile":
			var profile v1alpha1.SchedulerProfile
			if err := yaml.UnmarshalStrict(document, &profile); err != nil {
				return in, err
			}
			if profile.UID == "" {
				profile.UID = "profile-uid"
			}
			profile.Generation = max(profile.Generation, 1)
			in.Profiles = append(in.Profiles, profile)
		case "SchedulingPolicy":
			var policy v1alpha1.SchedulingPolicy
			if err := yaml.UnmarshalStrict(document, &policy); err != nil {
				return in, err
			}
			if policy.UID == "" {
				policy.UID = "policy-uid"
			}
			policy.Generation = max(policy.Generation, 1)
			in.Policies = append(in.Policies, policy)
		case "Secret":
			var secret corev1.Secret
			if err := yaml.UnmarshalStrict(document, &secret); err != nil {
				return in, err
			}
			secret.Data = map[string][]byte{}
			for key, value := range secret.StringData {
				secret.Data[key] = []byte(value)
			}
			if in.Secrets == nil {
				in.Secrets = map[types.NamespacedName]resolve.Secret{}
			}
			in.Secrets[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = resolve.NewSecret(
				&secret)
		default:
			return in, fmt.Errorf("kind %q", header.Kind)
		}
	}
	return in, nil
}

type shownResult struct {
	Accepted      bool     `json:"accepted"`
	Reason        string   `json:"reason"`
	Message       string   `json:"message"`
	KeptLastGood  bool     `json:"keptLastGood,omitempty"`
	SchedulerName string   `json:"schedulerName,omitempty"`
	Profiles      []string `json:"profiles,omitempty"`
}

// shownSet is a set of plugins in one line each: names, with weights where they have one.
type shownSet struct {
	Enabled  string `json:"enabled,omitempty"`
	Disabled string `json:"disabled,omitempty"`
}

type shownProfile struct {
	Shadow                    *resolve.Shadow     `json:"shadow,omitempty"`
	Object                    string              `json:"object"`
	Generation                int64               `json:"generation"`
	Policy                    string              `json:"policy"`
	Revision                  string              `json:"revision"`
	QueueSort                 string              `json:"queueSort"`
	PodInitialBackoff         string              `json:"podInitialBackoff"`
	PodMaxBackoff             string              `json:"podMaxBackoff"`
	PodMaxInUnschedulablePods string              `json:"podMaxInUnschedulablePods"`
	PercentageOfNodesToScore  int32               `json:"percentageOfNodesToScore"`
	Parallelism               int32               `json:"parallelism"`
	CheckAllFilters           bool                `json:"checkAllFilters,omitempty"`
	Plugins                   map[string]shownSet `json:"plugins"`
	Args                      map[string]string   `json:"args"`
	Extenders                 []string            `json:"extenders,omitempty"`
}

type shownResolution struct {
	ProfileResults map[string]shownResult  `json:"profileResults,omitempty"`
	PolicyResults  map[string]shownResult  `json:"policyResults,omitempty"`
	SortedBy       string                  `json:"sortedBy,omitempty"`
	Profiles       map[string]shownProfile `json:"profiles,omitempty"`
}

func show(t *testing.T, r *resolve.Resolution) []byte {
	t.Helper()
	shown := shownResolution{SortedBy: r.SortedBy, ProfileResults: showResults(r.ProfileResults),
		PolicyResults: showResults(r.PolicyResults), Profiles: map[string]shownProfile{}}
	defaults := defaultArgs(t)
	for name, p := range r.All() {
		policy := fmt.Sprintf("%s, generation %d", p.PolicyName, p.PolicyGeneration)
		if p.PolicyGeneration == 0 {
			policy = "built-in defaults"
		}
		shown.Profiles[name] = shownProfile{
			Object: p.Name, Generation: p.Generation, Policy: policy, Revision: p.Revision, Shadow: p.Shadow,
			QueueSort:                 p.QueueSort.String(),
			PodInitialBackoff:         p.PodInitialBackoff.String(),
			PodMaxBackoff:             p.PodMaxBackoff.String(),
			PodMaxInUnschedulablePods: p.PodMaxInUnschedulablePods.String(),
			PercentageOfNodesToScore:  p.PercentageOfNodesToScore, Parallelism: p.Parallelism,
			CheckAllFilters: p.CheckAllFilters,
			Plugins:         showPlugins(p.Config.Plugins), Args: showArgs(t, p.Config.PluginConfig, defaults),
			Extenders: showExtenders(p.Extenders),
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func showResults(results map[string]resolve.Result) map[string]shownResult {
	shown := map[string]shownResult{}
	for name, r := range results {
		shown[name] = shownResult{
			Accepted: r.Accepted, Reason: r.Reason, Message: r.Message,
			KeptLastGood: r.KeptLastGood, SchedulerName: r.SchedulerName, Profiles: r.Profiles,
		}
	}
	return shown
}

func showPlugins(plugins *schedconfig.Plugins) map[string]shownSet {
	shown := map[string]shownSet{}
	value := reflect.ValueOf(plugins).Elem()
	for i := range value.NumField() {
		set := value.Field(i).Interface().(schedconfig.PluginSet)
		if len(set.Enabled)+len(set.Disabled) > 0 {
			shown[value.Type().Field(i).Name] = shownSet{Enabled: showList(set.Enabled),
				Disabled: showList(set.Disabled)}
		}
	}
	return shown
}

func showExtenders(extenders []resolve.Extender) []string {
	var shown []string
	for _, e := range extenders {
		shown = append(shown, fmt.Sprintf("%+v", e))
	}
	return shown
}

func showList(plugins []schedconfig.Plugin) string {
	var names []string
	for _, plugin := range plugins {
		if plugin.Weight != 0 {
			plugin.Name = fmt.Sprintf("%s=%d", plugin.Name, plugin.Weight)
		}
		names = append(names, plugin.Name)
	}
	return strings.Join(names, " ")
}

// showArgs converts arguments back to the form in which kube-scheduler reads them, without those
// that are the same for every profile.
func showArgs(t *testing.T, configs []schedconfig.PluginConfig, hidden map[string]string) map[string]string {
	t.Helper()
	internal := &schedconfig.KubeSchedulerConfiguration{
		Profiles: []schedconfig.KubeSchedulerProfile{{PluginConfig: configs}}}
	var versioned configv1.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(internal.DeepCopy(), &versioned, nil); err != nil {
		t.Fatal(err)
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if err := versioned.EncodeNestedObjects(scheme.Codecs.EncoderForVersion(info.Serializer,
		configv1.SchemeGroupVersion)); err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, config := range versioned.Profiles[0].PluginConfig {
		args := strings.TrimSpace(strings.Replace(string(config.Args.Raw),
			`"apiVersion":"kubescheduler.config.k8s.io/v1",`, "", 1))
		if args != hidden[config.Name] {
			shown[config.Name] = args
		}
	}
	return shown
}

func defaultArgs(t *testing.T) map[string]string {
	t.Helper()
	configuration, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	return showArgs(t, configuration.Profiles[0].PluginConfig, nil)
}

// checkInvariants checks the invariants of every resolution.
func checkInvariants(t *testing.T, in resolve.Input, r *resolve.Resolution) {
	t.Helper()
	if len(r.ProfileResults) != len(in.Profiles) || len(r.PolicyResults) != len(in.Policies) {
		t.Errorf("%d profiles have %d results, %d policies have %d", len(in.Profiles), len(r.ProfileResults),
			len(in.Policies), len(r.PolicyResults))
	}
	byObject := map[string]*resolve.Profile{}
	for name, p := range r.All() {
		byObject[p.Name] = p
		if p.ID() != name || p.Config.SchedulerName != p.SchedulerName || p.Shadow == nil && p.SchedulerName != name {
			t.Errorf("profile %q runs under the name %q", p.SchedulerName, name)
		}
		if len(p.Revision) != 10 || strings.Trim(p.Revision, "bcdfghjklmnpqrstvwxz2456789") != "" {
			t.Errorf("revision %q of profile %q", p.Revision, name)
		}
		if p.PodInitialBackoff <= 0 || p.PodMaxBackoff < p.PodInitialBackoff || p.PodMaxInUnschedulablePods <= 0 ||
			p.Parallelism < 1 ||
			p.PercentageOfNodesToScore < 0 || p.PercentageOfNodesToScore > 100 || p.QueueSort.Name == "" {
			t.Errorf("profile %q runs with settings that cannot be: %+v", name, p)
		}
		configured := sets.New[string]()
		for _, args := range p.Config.PluginConfig {
			if configured.Has(args.Name) {
				t.Errorf("profile %q runs with two arguments for plugin %q", name, args.Name)
			}
			configured.Insert(args.Name)
		}
		for _, plugin := range slices.Concat(p.Config.Plugins.MultiPoint.Enabled, p.Config.Plugins.Score.Enabled,
			p.Config.Plugins.Filter.Enabled) {
			if !in.Registered.Has(plugin.Name) || plugin.Weight < 0 {
				t.Errorf("profile %q runs plugin %+v", name, plugin)
			}
		}
	}
	if (r.SortedBy == "") != (len(r.Profiles) == 0) || r.SortedBy != "" && r.Profiles[r.SortedBy] == nil {
		t.Errorf("sorted by %q, but %d profiles run", r.SortedBy, len(r.Profiles))
	}
	for object, result := range r.ProfileResults {
		p := byObject[object]
		if result.Reason == "" || result.Message == "" ||
			result.Accepted != (result.Reason == v1alpha1.ReasonAccepted) {
			t.Errorf("result of profile %q: %+v", object, result)
		}
		switch {
		case result.Accepted && (p == nil || p.Generation != result.Generation || len(result.Problems) > 0 ||
			result.KeptLastGood):
			t.Errorf("accepted profile %q runs as %+v, result %+v", object, p, result)
		case result.Accepted && p.Shadow == nil && p.QueueSort != r.Profiles[r.SortedBy].QueueSort:
			t.Errorf("accepted profile %q sorts by %v, the queue by %v", object, p.QueueSort,
				r.Profiles[r.SortedBy].QueueSort)
		case !result.Accepted && result.KeptLastGood != (p != nil):
			t.Errorf("refused profile %q runs as %v, result %+v", object, p, result)
		}
	}
	for object, result := range r.PolicyResults {
		if result.Reason == "" || result.Message == "" ||
			result.Accepted != (result.Reason == v1alpha1.ReasonAccepted) || result.Accepted &&
			(result.KeptLastGood || len(result.Problems) > 0) {
			t.Errorf("result of policy %q: %+v", object, result)
		}
	}
}
