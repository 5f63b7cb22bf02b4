// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// resolveText resolves objects in YAML that have never run.
func resolveText(t *testing.T, objects ...string) *resolve.Resolution {
	t.Helper()
	return resolve.Objects(parseText(t, objects...))
}

func parseText(t *testing.T, objects ...string) resolve.Input {
	t.Helper()
	in, err := parseObjects([]byte(strings.Join(objects, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	in.Registered = registered()
	return in
}

func profileText(name, spec string) string {
	return fmt.Sprintf(`{kind: SchedulerProfile, metadata: {name: %s}, spec: {%s}}`, name, spec)
}

func policyText(name, spec string) string {
	return fmt.Sprintf(`{kind: SchedulingPolicy, metadata: {name: %s}, spec: {%s}}`, name, spec)
}

func TestRevisions(t *testing.T) {
	const (
		score  = `plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}]}}`
		config = `pluginConfig: [{name: Coscheduling, args: {a: 1, b: [1, 2]}}], plugins: {permit: {enabled: [{name: ` +
			`Coscheduling}]}}`
	)
	for _, test := range []struct {
		name      string
		a, b      []string
		different bool
	}{
		{"defaults written out are no change",
			[]string{profileText("p", ``)},
			[]string{profileText("p", `schedulerName: p, policyRef: {name: default}, percentageOfNodesToScore: 0`),
				policyText("default", `podInitialBackoff: 1s, podMaxBackoff: 10s, podMaxInUnschedulablePods: 5m, `+
					`percentageOfNodesToScore: 0, parallelism: 16, algorithmSource: {provider: DefaultProvider}, `+
					`queueSort: {name: PrioritySort}`)}, false},
		{"default arguments written out are no change",
			[]string{profileText("p", ``)},
			[]string{profileText("p", `pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 1}}, `+
				`{name: NodeResourcesFit, args: {ignoredResources: []}}]`)}, false},
		{"the order of fields in arguments is no change",
			[]string{profileText("p", config)},
			[]string{profileText("p", strings.Replace(config, "a: 1, b: [1, 2]", "b: [1, 2], a: 1", 1))}, false},
		{"the order of lists in arguments is a change",
			[]string{profileText("p", config)},
			[]string{profileText("p", strings.Replace(config, "[1, 2]", "[2, 1]", 1))}, true},
		{"the order of argument entries is no change",
			[]string{profileText("p", `pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 2}}, `+
				`{name: VolumeBinding, args: {bindTimeoutSeconds: 3}}]`)},
			[]string{profileText("p", `pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 3}}, {name: `+
				`InterPodAffinity, args: {hardPodAffinityWeight: 2}}]`)}, false},
		{"arguments of a plugin that does not run are no change",
			[]string{profileText("p", ``)},
			[]string{profileText("p", `pluginConfig: [{name: Coscheduling, args: {a: 1}}]`)}, false},
		{"disabling what is not enabled is no change",
			[]string{profileText("p", ``)},
			[]string{profileText("p", `plugins: {filter: {disabled: [{name: Coscheduling}]}}`)}, false},
		{"a weight of 0 is a weight of 1",
			[]string{profileText("p", strings.Replace(score, "5", "0", 1))},
			[]string{profileText("p", strings.Replace(score, "5", "1", 1))}, false},
		{"a weight where nothing is scored is no change",
			[]string{profileText("p", `plugins: {filter: {enabled: [{name: NodePorts, weight: 5}]}}`)},
			[]string{profileText("p", `plugins: {filter: {enabled: [{name: NodePorts}]}}`)}, false},
		{"the order of disabled plugins is no change",
			[]string{profileText("p",
				`plugins: {score: {disabled: [{name: ImageLocality}, {name: InterPodAffinity}]}}`)},
			[]string{profileText("p",
				`plugins: {score: {disabled: [{name: InterPodAffinity}, {name: ImageLocality, weight: 3}]}}`)}, false},
		{"a weight is a change", []string{profileText("p", ``)}, []string{profileText("p", score)}, true},
		{"the order of plugins is a change",
			[]string{profileText("p", `plugins: {filter: {enabled: [{name: NodePorts}, {name: NodeName}]}}`)},
			[]string{profileText("p", `plugins: {filter: {enabled: [{name: NodeName}, {name: NodePorts}]}}`)}, true},
		{"a disabled plugin is a change", []string{profileText("p", ``)},
			[]string{profileText("p", `plugins: {score: {disabled: [{name: ImageLocality}]}}`)}, true},
		{"an argument is a change", []string{profileText("p", ``)},
			[]string{profileText("p", `pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 3}}]`)}, true},
		{"the percentage is a change", []string{profileText("p", ``)},
			[]string{profileText("p", `percentageOfNodesToScore: 5`)}, true},
		{"a policy's percentage is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `percentageOfNodesToScore: 5`)}, true},
		{"a policy's percentage that the profile overrides is no change",
			[]string{profileText("p", `percentageOfNodesToScore: 7`)},
			[]string{profileText("p", `percentageOfNodesToScore: 7`),
				policyText("default", `percentageOfNodesToScore: 5`)}, false},
		{"the initial backoff is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `podInitialBackoff: 2s`)}, true},
		{"the longest backoff is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `podMaxBackoff: 20s`)}, true},
		{"the wait of unschedulable pods is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `podMaxInUnschedulablePods: 1m`)}, true},
		{"the wait of groups is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `podGroupReserveAfter: 1m`)}, true},
		{"parallelism is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `parallelism: 1`)}, true},
		{"the algorithm source is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``),
				policyText("default", `algorithmSource: {provider: ClusterAutoscalerProvider}`)}, true},
		{"a legacy policy is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {priorities: []}}`)}, true},
		{"an empty legacy policy is no change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {}}`)}, false},
		{"checking all predicates is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``),
				policyText("default", `algorithmSource: {policy: {alwaysCheckAllPredicates: true}}`)}, true},
		{"the weight of symmetric affinity is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``),
				policyText("default", `algorithmSource: {policy: {hardPodAffinitySymmetricWeight: 9}}`)}, true},
		{"the order of predicates, and duplicates, are no change",
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: `+
				`HostName}, {name: PodFitsResources}]}}`)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: `+
				`PodFitsResources}, {name: HostName}, {name: HostName}]}}`)}, false},
		{"the order of priorities, and those without effect, are no change",
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {priorities: [{name: `+
				`MostRequestedPriority, weight: 2}, {name: ImageLocalityPriority, weight: 1}]}}`)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {priorities: [{name: `+
				`ImageLocalityPriority, weight: 1}, {name: EqualPriority, weight: 9}, {name: MostRequestedPriority, `+
				`weight: 2}]}}`)}, false},
		{"the label of a predicate is a change",
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: a, `+
				`argument: {labelsPresence: {labels: [a]}}}]}}`)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: a, `+
				`argument: {labelsPresence: {labels: [b]}}}]}}`)}, true},
		{"the name of a predicate with an argument is no change",
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: a, `+
				`argument: {labelsPresence: {labels: [a]}}}]}}`)},
			[]string{profileText("p", ``), policyText("default", `algorithmSource: {policy: {predicates: [{name: b, `+
				`argument: {labelsPresence: {labels: [a]}}}]}}`)}, false},
		{"the queue sort is a change", []string{profileText("p", ``)},
			[]string{profileText("p", ``), policyText("default", `queueSort: {name: QoSSort}`)}, true},
		{"the arguments of the queue sort are a change",
			[]string{profileText("p", ``), policyText("default", `queueSort: {name: QoSSort}`)},
			[]string{profileText("p", ``), policyText("default", `queueSort: {name: QoSSort, args: {a: 1}}`)}, true},
		{"metadata are no change",
			[]string{profileText("p", score)},
			[]string{strings.Replace(profileText("p", score), "name: p",
				`name: p, uid: other, generation: 7, resourceVersion: "9", labels: {a: b}, annotations: {a: b}, `+
					`creationTimestamp: "2026-01-01T00:00:00Z"`, 1)}, false},
		{"other objects are no change",
			[]string{profileText("p", score)},
			[]string{profileText("p", score), profileText("q", ``), policyText("unused", `parallelism: 5`)}, false},
		{"the name of the policy is no change",
			[]string{profileText("p", `policyRef: {name: a}`), policyText("a", `parallelism: 5`)},
			[]string{profileText("p", `policyRef: {name: b}`), policyText("b", `parallelism: 5`)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := resolveText(t, test.a...), resolveText(t, test.b...)
			if !a.ProfileResults["p"].Accepted || !b.ProfileResults["p"].Accepted {
				t.Fatalf("not accepted: %q, %q", a.ProfileResults["p"].Message, b.ProfileResults["p"].Message)
			}
			if different := a.Profiles["p"].Revision != b.Profiles["p"].Revision; different != test.different {
				t.Errorf("revisions %s and %s", a.Profiles["p"].Revision, b.Profiles["p"].Revision)
			}
		})
	}
}

func TestLastGood(t *testing.T) {
	first := resolveText(t, profileText("p", `percentageOfNodesToScore: 1`))
	lastGood := first.LastGood(running(first))

	t.Run("a spec that could not be built is not kept", func(t *testing.T) {
		in := parseText(t, profileText("p", `percentageOfNodesToScore: 2`))
		in.LastGood = lastGood
		second := resolve.Objects(in)
		// The new one fails to build, so the old one stays active.
		remembered := second.LastGood(running(first))
		if got := *remembered.Profiles["p"][0].Spec.PercentageOfNodesToScore; got != 1 {
			t.Errorf("remembered percentage %d, want 1", got)
		}
	})
	t.Run("an object that lost its scheduler name keeps its last good spec", func(t *testing.T) {
		elder := strings.Replace(profileText("elder", `schedulerName: p`), "name: elder",
			`name: elder, uid: e, creationTimestamp: "2020-01-01T00:00:00Z"`, 1)
		young := strings.Replace(profileText("p", `percentageOfNodesToScore: 2`), "name: p",
			`name: p, creationTimestamp: "2021-01-01T00:00:00Z"`, 1)
		in := parseText(t, elder, young)
		in.LastGood = lastGood
		second := resolve.Objects(in)
		if second.Profiles["p"].Name != "elder" {
			t.Fatalf("%q has the name", second.Profiles["p"].Name)
		}
		if _, ok := second.LastGood(running(second)).Profiles["p"]; !ok {
			t.Error("forgotten")
		}
	})
	t.Run("an object that is gone is forgotten", func(t *testing.T) {
		in := parseText(t, profileText("other", ``))
		in.LastGood = lastGood
		second := resolve.Objects(in)
		if got := second.LastGood(running(first)).Profiles; len(got) != 0 {
			t.Errorf("remembered %v", got)
		}
	})
	t.Run("an object that was created again starts without one", func(t *testing.T) {
		in := parseText(t, strings.Replace(profileText("p", `percentageOfNodesToScore: 101`), "name: p",
			"name: p, uid: another", 1))
		in.LastGood = lastGood
		second := resolve.Objects(in)
		if len(second.Profiles) != 0 || second.ProfileResults["p"].KeptLastGood {
			t.Errorf("the last good spec of another object runs: %+v", second.ProfileResults["p"])
		}
	})
	t.Run("a last good spec that cannot run any more is not kept", func(t *testing.T) {
		withPlugin := resolveText(t, profileText("p", `plugins: {permit: {enabled: [{name: Coscheduling}]}}`))
		in := parseText(t, profileText("p", `percentageOfNodesToScore: 101`))
		in.LastGood = withPlugin.LastGood(running(withPlugin))
		in.Registered = in.Registered.Clone().Delete("Coscheduling")
		second := resolve.Objects(in)
		if len(second.Profiles) != 0 || second.ProfileResults["p"].KeptLastGood {
			t.Errorf("result %+v", second.ProfileResults["p"])
		}
	})
	t.Run("an older last good spec runs while the newest cannot", func(t *testing.T) {
		in := parseText(t, profileText("p", `percentageOfNodesToScore: 101`))
		latest := resolveText(t,
			profileText("p", `percentageOfNodesToScore: 7, plugins: {permit: {enabled: [{name: Coscheduling}]}}`)).
			Profiles["p"].Source
		latest.Generation = 3
		in.Profiles[0].Generation = 4
		in.LastGood.Profiles = map[string][]resolve.GoodProfile{"p": {latest, lastGood.Profiles["p"][0]}}
		registered := in.Registered
		in.Registered = registered.Clone().Delete("Coscheduling")
		second := resolve.Objects(in)
		if got := second.Profiles["p"]; got == nil || got.Generation != 1 || got.PercentageOfNodesToScore != 1 ||
			!second.ProfileResults["p"].KeptLastGood {
			t.Fatalf("resolved %+v", got)
		}
		in.LastGood, in.Registered = second.LastGood(running(second)), registered
		if got := resolve.Objects(in).Profiles["p"]; got.Generation != 3 || got.PercentageOfNodesToScore != 7 {
			t.Errorf("resolved %+v", got)
		}
	})
	t.Run("a policy has one, too", func(t *testing.T) {
		in := parseText(t, policyText("default", `parallelism: 0`), profileText("p", ``))
		in.Policies[0].Generation = 9
		spec := func(generation int64, text string) resolve.GoodPolicy {
			object := parseText(t, policyText("default", text)).Policies[0]
			return resolve.GoodPolicy{Name: "default", UID: object.UID, Generation: generation, Spec: object.Spec}
		}
		in.LastGood.Policies = map[string][]resolve.GoodPolicy{"default": {spec(8, `queueSort: {name: NoSuchPlugin}`),
			spec(7, `parallelism: 7`), spec(6, `parallelism: 6`)}}
		second := resolve.Objects(in)
		if got := second.Profiles["p"]; got == nil || got.PolicyGeneration != 7 || got.Parallelism != 7 ||
			!second.PolicyResults["default"].KeptLastGood {
			t.Errorf("resolved %+v", got)
		}
		if got := second.LastGood(running(second)).Policies["default"]; len(got) != 3 {
			t.Errorf("remembered %+v", got)
		}
	})
	t.Run("no older one runs while the API server has not answered about a Secret of the latest", func(t *testing.T) {
		named := types.NamespacedName{Namespace: "tls", Name: "tls"}
		good := func(generation int64, text string) resolve.GoodPolicy {
			object := parseText(t, policyText("default", text)).Policies[0]
			return resolve.GoodPolicy{Name: "default", UID: object.UID, Generation: generation, Spec: object.Spec}
		}
		const extended = `parallelism: 8, extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {namespace: ` +
			`tls, name: tls}}}]`
		latest, older := good(8, extended), good(7, `parallelism: 7`)
		profile := func(generation int64, policy resolve.GoodPolicy) resolve.GoodProfile {
			return resolve.GoodProfile{UID: lastGood.Profiles["p"][0].UID, Generation: generation,
				Spec: lastGood.Profiles["p"][0].Spec, Policy: &policy}
		}
		for _, present := range []string{extended, `parallelism: 0`} {
			for _, test := range []struct {
				secret resolve.Secret
				want   int64
			}{{resolve.UnansweredSecret(errors.New("not yet")), 0},
				{resolve.UnreadableSecret(errors.New("forbidden")), 7}} {
				in := parseText(t, policyText("default", present), profileText("p", `percentageOfNodesToScore: 101`))
				in.Policies[0].Generation, in.Profiles[0].Generation = 9, 3
				in.Secrets = map[types.NamespacedName]resolve.Secret{named: test.secret}
				in.LastGood = resolve.LastGood{
					Policies: map[string][]resolve.GoodPolicy{"default": {latest, older}},
					Profiles: map[string][]resolve.GoodProfile{"p": {profile(2, latest), profile(1, older)}},
				}
				var got int64
				resolution := resolve.Objects(in)
				if p := resolution.Profiles["p"]; p != nil {
					got = p.PolicyGeneration
				}
				if kept := resolution.PolicyResults["default"].KeptLastGood; got != test.want ||
					kept != (test.want != 0) {
					t.Errorf("present is %s: runs with generation %d, want %d; the policy kept one: %v", present, got,
						test.want, kept)
				}
				in.Profiles = parseText(t, profileText("p", ``)).Profiles
				if got := resolve.Objects(in).Profiles["p"] != nil; got != (test.want != 0) {
					t.Errorf("present is %s: a valid profile runs: %v", present, got)
				}
			}
		}
	})
	t.Run("the last good spec is the fallback if the current spec cannot be built", func(t *testing.T) {
		in := parseText(t, profileText("p", `percentageOfNodesToScore: 2`))
		in.Profiles[0].Generation, in.LastGood = 2, lastGood
		second := resolve.Objects(in)
		if got := second.Before("p"); got == nil || got.Generation != 1 || got.PercentageOfNodesToScore != 1 {
			t.Errorf("stands by: %+v", got)
		}
		in.Profiles = parseText(t, profileText("p", `percentageOfNodesToScore: 101`)).Profiles
		in.Profiles[0].Generation = 2
		if got := resolve.Objects(in).Before("p"); got != nil {
			t.Errorf("the last good spec stands by for itself: %+v", got)
		}
		if got := second.Before("q"); got != nil {
			t.Errorf("for nothing stands by %+v", got)
		}
	})
	t.Run("a policy that was created again starts without one", func(t *testing.T) {
		good := resolveText(t, policyText("q", `parallelism: 3`))
		in := parseText(t, strings.Replace(policyText("q", `parallelism: 0`), "name: q", "name: q, uid: another", 1))
		in.LastGood = good.LastGood(nil)
		second := resolve.Objects(in)
		if second.PolicyResults["q"].KeptLastGood || len(second.LastGood(nil).Policies) != 0 {
			t.Errorf("result %+v", second.PolicyResults["q"])
		}
	})
}

func TestMessageNamesAtMostTenProblems(t *testing.T) {
	var entries []string
	for i := range 15 {
		entries = append(entries, fmt.Sprintf("{name: Unknown%d}", i))
	}
	result := resolveText(t, profileText("p", `pluginConfig: [`+strings.Join(entries, ",")+`]`)).ProfileResults["p"]
	if len(result.Problems) != 15 || !strings.HasSuffix(result.Message, "; and 5 more") ||
		strings.Count(result.Message, "unknown plugin") != 10 {
		t.Errorf("%d problems: %s", len(result.Problems), result.Message)
	}
	if result.Problems[14].Path != "spec.pluginConfig[14].name" {
		t.Errorf("path %s", result.Problems[14].Path)
	}
}

func TestUnknownPluginsAreComparedWithThoseThatAProfileMayUse(t *testing.T) {
	for name, want := range map[string]string{
		"NodeResourceFit": `unknown plugin "NodeResourceFit": did you mean NodeResourcesFit, `,
		"nodeports":       `unknown plugin "nodeports": did you mean NodePorts`,
		"Xyz":             `unknown plugin "Xyz"`,
		"GangSchedulingX": `unknown plugin "GangSchedulingX"`, // GangScheduling depends on a feature gate
	} {
		message := resolveText(t, profileText("p", "pluginConfig: [{name: "+name+"}]")).ProfileResults["p"].Message
		if !strings.Contains(message, want) || strings.Contains(message, "GangScheduling or") || len(message) > 160 {
			t.Errorf("%s: %s", name, message)
		}
	}
	usable := resolve.PluginNames(registered())
	if slices.Contains(usable, "GangScheduling") || slices.Contains(usable, "TopologyPlacementGenerator") ||
		!slices.Contains(usable, "NodePorts") {
		t.Errorf("usable plugins: %q", usable)
	}
}

func TestTheDefaultsAreThoseOfTheSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases",
		"livesched.io_schedulingpolicies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var fields []string
	for name, property := range spec.Properties {
		if property.Default != nil {
			fields = append(fields, fmt.Sprintf("%s: %s", name, property.Default.Raw))
		}
	}
	if len(fields) != 6 {
		t.Errorf("defaults %v", fields)
	}
	written := resolveText(t, profileText("p", ``), policyText("default", strings.Join(fields, ", ")))
	unset := resolveText(t, profileText("p", ``), policyText("default", ``))
	if !written.PolicyResults["default"].Accepted || written.Profiles["p"].Revision != unset.Profiles["p"].Revision {
		t.Errorf("the schema has other defaults: %v", fields)
	}
}

func TestSettingsOfAPolicyReachItsProfiles(t *testing.T) {
	p := resolveText(t, profileText("p", ``), policyText("default", `podInitialBackoff: 2s, podMaxBackoff: 3s, `+
		`podMaxInUnschedulablePods: 4s, percentageOfNodesToScore: 5, parallelism: 6, podGroupReserveAfter: 7s`)).
		Profiles["p"]
	if p.PodGroupReserveAfter != 7*time.Second {
		t.Errorf("%+v", p)
	}
	if p.PodInitialBackoff != 2*time.Second || p.PodMaxBackoff != 3*time.Second ||
		p.PodMaxInUnschedulablePods != 4*time.Second || p.PercentageOfNodesToScore != 5 || p.Parallelism != 6 {
		t.Errorf("%+v", p)
	}
	if p.Config.PercentageOfNodesToScore != nil {
		t.Error("the percentage of the policy is shown as that of the profile")
	}
	if p.PolicyName != "default" || p.PolicyGeneration != 1 || p.Source.Policy == nil ||
		p.Source.Policy.UID != "policy-uid" {
		t.Errorf("source %+v", p.Source)
	}
}

func TestGroupsDoNotWaitForLessThanASecond(t *testing.T) {
	result := resolveText(t, policyText("default", `podGroupReserveAfter: 999ms`)).PolicyResults["default"]
	if result.Accepted || len(result.Problems) != 1 || result.Problems[0].Path != "spec.podGroupReserveAfter" {
		t.Errorf("%+v", result)
	}
}

func TestEqualAgeIsDecidedByName(t *testing.T) {
	created := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var in resolve.Input
	for _, name := range []string{"c", "a", "b"} {
		profile := v1alpha1.SchedulerProfile{Spec: v1alpha1.SchedulerProfileSpec{SchedulerName: "shared"}}
		profile.Name, profile.CreationTimestamp = name, created
		in.Profiles = append(in.Profiles, profile)
	}
	in.Registered = registered()
	if holder := resolve.Objects(in).Profiles["shared"].Name; holder != "a" {
		t.Errorf("%q has the name", holder)
	}
}

func TestActivePluginsHasEveryExtensionPoint(t *testing.T) {
	plugins := &schedconfig.Plugins{}
	value := reflect.ValueOf(plugins).Elem()
	for i := range value.NumField() {
		value.Field(i).
			Set(reflect.ValueOf(
				schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: value.Type().Field(i).Name, Weight: 7}}}))
	}
	active := reflect.ValueOf(resolve.ActivePlugins(plugins))
	if got, want := active.NumField(), value.NumField()-1; got != want { // multiPoint is not one of them
		t.Errorf("%d extension points, want %d", got, want)
	}
	for i := range active.NumField() {
		name := active.Type().Field(i).Name
		var want any = []string{name}
		if name == "Score" || name == "PlacementScore" {
			want = []v1alpha1.WeightedPlugin{{Name: name, Weight: 7}}
		}
		if diff := cmp.Diff(want, active.Field(i).Interface()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
