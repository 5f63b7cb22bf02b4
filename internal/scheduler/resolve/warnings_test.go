// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// warned is a warning, shortened to a part of its text.
type warned struct{ path, part string }

func checkWarnings(t *testing.T, got []resolve.Problem, want []warned) {
	t.Helper()
	for _, w := range got {
		if w.Reason != "" {
			t.Errorf("a warning has the reason %q", w.Reason)
		}
	}
	same := slices.EqualFunc(got, want,
		func(p resolve.Problem, w warned) bool { return p.Path == w.path && strings.Contains(p.Detail, w.part) })
	if !same {
		t.Errorf("warnings %v\nwant %v", got, want)
	}
}

func TestProfileWarnings(t *testing.T) {
	const disabled = "spec.plugins.%s.disabled[%d]"
	at := func(point string, i int) string { return fmt.Sprintf(disabled, point, i) }
	steps := func(text string) string { return "rollout: {strategy: Canary, canary: {steps: [" + text + "]}}" }
	step := func(i int, field string) string { return fmt.Sprintf("spec.rollout.canary.steps[%d].%s", i, field) }
	for _, test := range []struct {
		name, profile string
		want          []warned
	}{
		{"no settings, no warnings", profileText("p", ``), nil},
		{"the name of kube-scheduler", profileText("p", `schedulerName: default-scheduler`),
			[]warned{{"spec.schedulerName", "kube-scheduler schedules pods with this name, too"}}},
		{"an object of the name of kube-scheduler", profileText("default-scheduler", ``),
			[]warned{{"metadata.name", "kube-scheduler schedules pods with this name, too"}}},
		{"a percentage with almost no effect", profileText("p", `percentageOfNodesToScore: 4`),
			[]warned{{"spec.percentageOfNodesToScore", "ends at 4% of the nodes"}}},
		{"percentages that kube-scheduler uses", profileText("p", `percentageOfNodesToScore: 5`), nil},
		{"every node", profileText("p", `percentageOfNodesToScore: 0`), nil},
		{"a canary without its strategy", profileText("p", `rollout: {canary: {steps: [{setWeight: 5}]}}`),
			[]warned{{"spec.rollout.canary", `no effect with the strategy "Immediate"`}}},
		{"the default steps", profileText("p", `rollout: {strategy: Canary, canary: {}}`), nil},
		{"steps with growing weights, pauses, and all pods at the end",
			profileText("p", steps("{pause: {}}, {setWeight: 5}, {pause: {duration: 1m}}, {setWeight: 20}, "+
				"{pause: {}}, {pause: {duration: 1m}}, {setWeight: 100}")), nil},
		{"a pause before the first weight", profileText("p", steps("{pause: {duration: 1m}}, {setWeight: 100}")),
			[]warned{{step(0, "pause"), "no owner has the new revision yet"}}},
		{"a pause after all pods",
			profileText("p", steps("{setWeight: 5}, {pause: {}}, {setWeight: 100}, {pause: {duration: 1m}}")),
			[]warned{{step(3, "pause"), "compares nothing"}}},
		{"a weight that falls, and one that stays",
			profileText("p", steps("{setWeight: 50}, {pause: {}}, {setWeight: 20}, {pause: {}}, {setWeight: 20}, "+
				"{pause: {}}")),
			[]warned{{step(2, "setWeight"), "less than the weight before it, 50"},
				{step(4, "setWeight"), "the weight is 20 already"}}},
		{"weights without pauses", profileText("p", steps("{setWeight: 5}, {setWeight: 50}")),
			[]warned{{step(1, "setWeight"), "follows the weight 5 without a pause"},
				{step(1, "setWeight"), "the new revision decides all pods at once"}}},
		{"a weight at filter", profileText("p", `plugins: {filter: {enabled: [{name: NodePorts, weight: 2}]}}`),
			[]warned{{"spec.plugins.filter.enabled[0].weight", "has no effect at filter"}}},
		{"a weight at score and a weight of 0", profileText("p", `plugins: {score: {enabled: [{name: ImageLocality, `+
			`weight: 2}]}, filter: {enabled: [{name: NodePorts, weight: 0}]}}`), nil},
		{"a weight at multiPoint of a plugin that does not score",
			profileText("p", `plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: 2}, {name: NodePorts, `+
				`weight: 2}, {name: Coscheduling, weight: 2}]}}`),
			[]warned{{"spec.plugins.multiPoint.enabled[1].weight", `"NodePorts" does not score`}}},
		{"a weight of what is disabled",
			profileText("p", `plugins: {score: {disabled: [{name: ImageLocality, weight: 3}]}}`),
			[]warned{{"spec.plugins.score.disabled[0].weight", "disabled"}}},
		{"plugins for placements", profileText("p", `plugins: {placementScore: {enabled: [{name: NodeResourcesFit}]}}`),
			[]warned{{"spec.plugins.placementScore.enabled[0]", "calls no plugin at placementScore"}}},
		{"a plugin for pod groups", profileText("p", `plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}`),
			[]warned{{"spec.plugins.multiPoint.enabled[0]", "livesched schedules groups of pods by itself"}}},
		{"a plugin is disabled where it does not run",
			profileText("p", `plugins: {score: {disabled: [{name: NodePorts}, {name: ImageLocality}]}}`),
			[]warned{{at("score", 0), `"NodePorts" would not run at score in any case`}}},
		{"a plugin is disabled that is not enabled",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: ImageLocality}]}}`),
			[]warned{{at("multiPoint", 0), `"Coscheduling" is not enabled at multiPoint`}}},
		{"a plugin is kept from one extension point",
			profileText("p",
				`plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, filter: {disabled: [{name: Coscheduling}]}}`),
			nil},
		{"a plugin is moved to the end",
			profileText("p", `plugins: {score: {enabled: [{name: Coscheduling}], disabled: [{name: Coscheduling}]}}`),
			nil},
		{"a point is cleared that has no plugin",
			profileText("p", `plugins: {permit: {disabled: [{name: "*"}]}}`), nil},
		{"arguments of a plugin that is not enabled",
			profileText("p", `pluginConfig: [{name: NodeResourcesFit, args: {}}, {name: Coscheduling, args: {a: 1}}]`),
			[]warned{{"spec.pluginConfig[1]", `"Coscheduling" is not enabled`}}},
		{"no checks of resources", profileText("p", `plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}`),
			[]warned{{at("filter", 0), "have no room for them"}}},
		{"no checks of taints and cordons",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: TaintToleration}, {name: NodeUnschedulable}]}}`),
			[]warned{{at("multiPoint", 0), "taints are ignored"}, {at("multiPoint", 1), "cordoned"}}},
		{"no checks of labels and ports",
			profileText("p", `plugins: {filter: {disabled: [{name: NodeAffinity}, {name: NodePorts}]}}`),
			[]warned{{at("filter", 0), "nodeSelector"}, {at("filter", 1), "host ports"}}},
		{"no checks of volumes and devices",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: VolumeBinding}, {name: DynamicResources}]}}`),
			[]warned{{at("multiPoint", 0), "volumes"}, {at("multiPoint", 1), "devices"}}},
		{"no spread and no affinity between pods at all",
			profileText("p",
				`plugins: {multiPoint: {disabled: [{name: PodTopologySpread}, {name: InterPodAffinity}]}}`),
			[]warned{{at("multiPoint", 0), "DoNotSchedule are ignored"},
				{at("multiPoint", 1), "affinity and anti-affinity between pods are ignored"}}},
		{"no spread and no affinity between pods at filter",
			profileText("p", `plugins: {filter: {disabled: [{name: InterPodAffinity}, {name: PodTopologySpread}]}}`),
			[]warned{{at("filter", 1), "DoNotSchedule are ignored"},
				{at("filter", 0), "affinity and anti-affinity between pods are ignored"}}},
		{"no scores for spread and for affinity between pods",
			profileText("p", `plugins: {score: {disabled: [{name: PodTopologySpread}, {name: InterPodAffinity}]}}`),
			nil},
		{"no checks of limits, zones and exclusive use of volumes",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: NodeVolumeLimits}, {name: VolumeZone}]}, `+
				`filter: {disabled: [{name: VolumeRestrictions}]}}`),
			[]warned{{at("filter", 0), "ReadWriteOncePod"}, {at("multiPoint", 0), "no more volumes can be attached"},
				{at("multiPoint", 1), "outside the zones"}}},
		{"no checks of the features of nodes",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: NodeDeclaredFeatures}]}}`),
			[]warned{{at("multiPoint", 0), "lack features"}}},
		{"no checks of a name that a pending pod does not have",
			profileText("p", `plugins: {multiPoint: {disabled: [{name: NodeName}]}}`), nil},
		{"no checks of gates", profileText("p", `plugins: {preEnqueue: {disabled: [{name: "*"}]}}`),
			[]warned{{at("preEnqueue", 0), "scheduling gates"}}},
		{"no preemption", profileText("p", `plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}`),
			[]warned{{at("postFilter", 0), "wait for room instead of preempting"}}},
		{"another preemption",
			profileText("p", `plugins: {postFilter: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}}`), nil},
		{"another plugin in the place of the default one",
			profileText("p",
				`plugins: {filter: {disabled: [{name: NodeResourcesFit}], enabled: [{name: NodeResourcesFit}]}}`), nil},
		{"no scores", profileText("p", `plugins: {score: {disabled: [{name: "*"}]}}`),
			[]warned{{at("score", 0), "no plugin scores nodes"}}},
		{"the scores of another plugin",
			profileText("p", `plugins: {score: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}}`), nil},
		{"a plugin that may score", profileText("p", `plugins: {score: {disabled: [{name: ImageLocality}]}, `+
			`multiPoint: {enabled: [{name: Coscheduling}]}}`), nil},
		{"a filter without its preFilter",
			profileText("p", `plugins: {preFilter: {disabled: [{name: NodePorts}, {name: NodeAffinity}]}}`),
			[]warned{{at("preFilter", 0), "every pod fails"}}},
		{"neither filter nor preFilter", profileText("p", `plugins: {preFilter: {disabled: [{name: `+
			`InterPodAffinity}]}, filter: {disabled: [{name: InterPodAffinity}]}}`),
			[]warned{{at("filter", 0), "affinity and anti-affinity between pods are ignored"}}},
		{"a score without its preScore", profileText("p", `plugins: {preScore: {disabled: [{name: "*"}]}}`),
			[]warned{{at("preScore", 0), "TaintToleration at score"}, {at("preScore", 0), "PodTopologySpread at score"},
				{at("preScore", 0), "InterPodAffinity at score"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, result := range resolveText(t, test.profile).ProfileResults {
				checkWarnings(t, result.Warnings, test.want)
				if !result.Accepted || result.Reason != v1alpha1.ReasonAccepted ||
					strings.Contains(result.Message, "Warnings: spec") != (len(test.want) > 0 && name == "p") &&
						name == "p" {
					t.Errorf("%+v", result)
				}
			}
		})
	}
}

func TestAShadowThatIsRolledOutGetsAWarning(t *testing.T) {
	result := resolveText(t, profileText("p", ""), profileText("s",
		"rollout: {strategy: Canary}, mode: Shadow, shadow: {profileRef: {name: p}}")).ProfileResults["s"]
	checkWarnings(t, result.Warnings, []warned{{"spec.rollout", `no effect on a profile of mode "Shadow"`}})
	if !result.Accepted {
		t.Errorf("%+v", result)
	}
}

func TestPolicyWarnings(t *testing.T) {
	extender := func(fields string) string {
		return policyText("q", fmt.Sprintf(`extenders: [{httpTimeout: 5s, filterVerb: f, %s}]`, fields))
	}
	for _, test := range []struct {
		name, policy string
		want         []warned
	}{
		{"no settings, no warnings", policyText("q", ``), nil},
		{"a percentage with almost no effect", policyText("q", `percentageOfNodesToScore: 1`),
			[]warned{{"spec.percentageOfNodesToScore", "ends at 1%"}}},
		{"a long backoff", policyText("q", `podMaxBackoff: 1h`),
			[]warned{{"spec.podMaxBackoff", "waits up to 1h0m0s"}}},
		{"a backoff of minutes", policyText("q", `podMaxBackoff: 5m`), nil},
		{"unschedulable pods that are retried continuously", policyText("q", `podMaxInUnschedulablePods: 1s`),
			[]warned{{"spec.podMaxInUnschedulablePods", "every 30s"}}},
		{"an extender on this machine", extender(`urlPrefix: "http://127.0.0.1:80"`), nil},
		{"an extender on this machine by name", extender(`urlPrefix: "http://localhost:80"`), nil},
		{"an extender elsewhere", extender(`urlPrefix: "http://gpu.example"`),
			[]warned{{"spec.extenders[0].urlPrefix", "neither encrypted nor authenticated"}}},
		{"an extender elsewhere over TLS", extender(`urlPrefix: "https://gpu.example"`), nil},
		{"a certificate that is not verified",
			extender(`urlPrefix: "https://gpu.example", tlsConfig: {insecure: true}`),
			[]warned{{"spec.extenders[0].tlsConfig.insecure", "not verified"}}},
		{"a certificate that is not verified, as in kube-scheduler",
			extender(`urlPrefix: "https://gpu.example", enableHTTPS: true`),
			[]warned{{"spec.extenders[0].enableHTTPS", "not verified"}}},
		{"no verb", policyText("q", `extenders: [{urlPrefix: "https://gpu.example"}]`),
			[]warned{{"spec.extenders[0]", "never called"}}},
		{"a weight without effect", extender(`urlPrefix: "https://gpu.example", weight: 3`),
			[]warned{{"spec.extenders[0].weight", "no effect"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := resolveText(t, test.policy).PolicyResults["q"]
			checkWarnings(t, result.Warnings, test.want)
			if !result.Accepted || strings.Contains(result.Message, "Warnings: spec") != (len(test.want) > 0) ||
				strings.Contains(result.Message, "secret") {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestWarningsDependOnThePolicy(t *testing.T) {
	const policy = `extenders: [{urlPrefix: "https://gpu.example", prioritizeVerb: p, weight: 1, managedResources: ` +
		`[{name: a.b/c, ignoredByScheduler: true}]}]`
	for _, test := range []struct {
		name, profile string
		want          []warned
	}{
		{"an extender that scores", `plugins: {score: {disabled: [{name: "*"}]}}`, nil},
		{"resources that are ignored for extenders",
			`pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [d.e/f]}}]`,
			[]warned{{"spec.pluginConfig[0].args.ignoredResources", "take its place"}}},
		{"other arguments", `pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [d.e]}}]`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := resolveText(t, profileText("p", test.profile), policyText("default", policy))
			checkWarnings(t, r.ProfileResults["p"].Warnings, test.want)
		})
	}
}

func TestNoSampleHasWarnings(t *testing.T) {
	files, err := filepath.Glob("../../../config/samples/livesched_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := resolveText(t, string(text))
		for name, result := range r.ProfileResults {
			checkWarnings(t, result.Warnings, nil)
			if !result.Accepted {
				t.Errorf("%s: %s", name, result.Message)
			}
		}
		for _, result := range r.PolicyResults {
			checkWarnings(t, result.Warnings, nil)
		}
	}
}

func TestObstaclesAreDistinguishedFromProblems(t *testing.T) {
	const tls = `extenders: [{urlPrefix: "https://gpu.example", filterVerb: f, tlsConfig: {secretRef: {namespace: n, ` +
		`name: s}}}]`
	older := strings.Replace(profileText("a", `schedulerName: s`), "name: a",
		`name: a, creationTimestamp: "2026-01-01T00:00:00Z"`, 1)
	for _, test := range []struct {
		name                string
		objects             []string
		problems, obstacles []warned
	}{
		{"no policy", []string{profileText("p", `policyRef: {name: q}`)}, nil,
			[]warned{{"spec.policyRef.name", "does not exist"}}},
		{"no policy, and an unknown plugin",
			[]string{profileText("p", `policyRef: {name: q}, percentageOfNodesToScore: 101, plugins: {score: `+
				`{enabled: [{name: X}]}}, pluginConfig: [{name: NodeName, args: {a: 1}}]`)},
			[]warned{{"spec.percentageOfNodesToScore", "must be"},
				{"spec.plugins.score.enabled[0].name", "unknown plugin"},
				{"spec.pluginConfig[0].args", "takes no args"}}, []warned{{"spec.policyRef.name", "does not exist"}}},
		{"no policy, which may contain the missing queue sort",
			[]string{profileText("p",
				`policyRef: {name: q}, plugins: {queueSort: {disabled: [{name: PrioritySort}]}}`)}, nil,
			[]warned{{"spec.policyRef.name", "does not exist"}}},
		{"no Secret", []string{policyText("default", tls), profileText("p", ``)}, nil,
			[]warned{{"spec.policyRef.name", "not accepted"}}},
		{"an older object has the scheduler name", []string{older, profileText("p", `schedulerName: s`)}, nil,
			[]warned{{"spec.schedulerName", "older"}}},
		{"another order of the queue",
			[]string{older, profileText("p",
				`plugins: {queueSort: {enabled: [{name: QoSSort}], disabled: [{name: "*"}]}}`)}, nil,
			[]warned{{"spec.plugins.queueSort", "older"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Objects without a creation time count as the oldest: give p a later one.
			objects := slices.Clone(test.objects)
			for i := range objects {
				objects[i] = strings.Replace(objects[i], "name: p}",
					`name: p, creationTimestamp: "2026-02-02T00:00:00Z"}`, 1)
			}
			result := resolveText(t, objects...).ProfileResults["p"]
			if result.Accepted {
				t.Errorf("accepted: %+v", result)
			}
			check := func(got []resolve.Problem, want []warned) {
				t.Helper()
				if !slices.EqualFunc(got, want, func(p resolve.Problem, w warned) bool {
					return p.Path == w.path && strings.Contains(p.Detail, w.part) && p.Reason != ""
				}) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
			check(result.Problems, test.problems)
			check(result.Obstacles, test.obstacles)
		})
	}
}

func TestUnknownSecretsCauseNoWarnings(t *testing.T) {
	const tls = `extenders: [{urlPrefix: "https://gpu.example", filterVerb: f, tlsConfig: {secretRef: {namespace: n, ` +
		`name: s}}}]`
	in := parseText(t, policyText("default", tls), profileText("p", ``))
	if result := resolve.Objects(in).PolicyResults["default"]; result.Accepted ||
		result.Reason != v1alpha1.ReasonSecretNotFound || len(result.Problems) > 0 || len(result.Obstacles) != 1 {
		t.Fatalf("a Secret that does not exist: %+v", result)
	}
	in.SecretsUnknown = true
	in.Secrets = map[types.NamespacedName]resolve.Secret{
		{Namespace: "n", Name: "s"}: resolve.UnreadableSecret(errors.New("not looked at"))}
	r := resolve.Objects(in)
	if !r.PolicyResults["default"].Accepted || !r.ProfileResults["p"].Accepted {
		t.Fatalf("%+v", r.PolicyResults)
	}
	if secret := r.Profiles["p"].Extenders[0].TLS.Secret; secret == nil {
		t.Error("the extender has lost its Secret")
	}
}
