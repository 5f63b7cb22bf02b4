// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// exportedOnly compares the exported fields of resolutions.
var exportedOnly = cmp.FilterPath(func(p cmp.Path) bool {
	field, ok := p.Last().(cmp.StructField)
	return ok && (field.Name() == "remembered" || field.Name() == "profiles" || field.Name() == "resolver")
}, cmp.Ignore())

// world is a changing set of objects: each step changes some of it at random, and every resolved
// profile runs.
type world struct {
	random   *rand.Rand
	clock    int
	profiles map[string]v1alpha1.SchedulerProfile
	policies map[string]v1alpha1.SchedulingPolicy
	lastGood resolve.LastGood
}

func (w *world) step() {
	w.clock++
	for range 1 + w.random.Intn(3) {
		if w.random.Intn(3) > 0 {
			w.changeProfile(fmt.Sprintf("p%d", w.random.Intn(5)))
		} else {
			w.changePolicy([]string{"default", "q1", "q2"}[w.random.Intn(3)])
		}
	}
}

func (w *world) meta(name string, old metav1.ObjectMeta) metav1.ObjectMeta {
	if old.Name == "" {
		created := metav1.Date(2026, 1, 1, 0, 0, w.random.Intn(3), 0, time.UTC)
		return metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, w.clock)), Generation: 1,
			CreationTimestamp: created}
	}
	if w.random.Intn(5) > 0 { // etcd was restored, and the object has changed since in another way
		old.Generation++
	}
	return old
}

func (w *world) changeProfile(name string) {
	if w.random.Intn(5) == 0 {
		delete(w.profiles, name)
		return
	}
	old := w.profiles[name]
	profile := v1alpha1.SchedulerProfile{ObjectMeta: w.meta(name, old.ObjectMeta), Spec: old.Spec}
	if old.Name == "" && w.random.Intn(4) == 0 {
		profile.Spec.SchedulerName = "shared"
	}
	switch w.random.Intn(7) {
	case 0:
		profile.Spec.PercentageOfNodesToScore = ptr.To(int32(w.random.Intn(120))) // may be too much
	case 1:
		profile.Spec.Plugins = nil
	case 2:
		profile.Spec.Plugins = &v1alpha1.Plugins{QueueSort: v1alpha1.PluginSet{
			Enabled:  []v1alpha1.Plugin{{Name: []string{"QoSSort", "DeadlineSort"}[w.random.Intn(2)]}},
			Disabled: []v1alpha1.Plugin{{Name: "*"}},
		}}
	case 3:
		profile.Spec.Plugins = &v1alpha1.Plugins{
			Score: v1alpha1.PluginSet{
				Enabled: []v1alpha1.Plugin{{Name: "NodeResourcesFit", Weight: ptr.To(int32(w.random.Intn(5) - 1))}}}}
	case 4:
		profile.Spec.Plugins = &v1alpha1.Plugins{
			Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "Unknown"}}}}
	case 5:
		profile.Spec.PluginConfig = randomSpec(w.random).PluginConfig
	case 6:
		profile.Spec.PolicyRef.Name = []string{"", "default", "q1", "q2", "q3"}[w.random.Intn(5)]
	}
	w.profiles[name] = profile
}

func (w *world) changePolicy(name string) {
	if w.random.Intn(4) == 0 {
		delete(w.policies, name)
		return
	}
	policy := v1alpha1.SchedulingPolicy{ObjectMeta: w.meta(name, w.policies[name].ObjectMeta)}
	switch w.random.Intn(6) {
	case 0:
		policy.Spec.Parallelism = ptr.To(int32(w.random.Intn(20)))
	case 1:
		policy.Spec.QueueSort = &v1alpha1.QueueSort{Name: "QoSSort",
			Args: runtime.RawExtension{Raw: []byte(`{"a": 1}`)}}
	case 2:
		policy.Spec.AlgorithmSource = &v1alpha1.AlgorithmSource{Provider: ptr.To(v1alpha1.ClusterAutoscalerProvider)}
	case 3:
		policy.Spec.AlgorithmSource = &v1alpha1.AlgorithmSource{Policy: w.randomLegacy()}
	case 4:
		policy.Spec.PodInitialBackoff = &metav1.Duration{Duration: time.Duration(w.random.Intn(15)) * time.Second}
	}
	w.policies[name] = policy
}

// randomLegacy returns a legacy policy with known and unknown names.
func (w *world) randomLegacy() *v1alpha1.LegacyPolicy {
	policy := &v1alpha1.LegacyPolicy{AlwaysCheckAllPredicates: w.random.Intn(2) == 0}
	for range w.random.Intn(4) {
		predicate := v1alpha1.PredicatePolicy{Name: "Unknown"}
		if predicates := resolve.LegacyPredicates(); w.random.Intn(20) > 0 {
			entry := predicates[w.random.Intn(len(predicates))]
			predicate.Name, predicate.Argument = entry.Name, randomPredicateArgument(w.random, entry.Argument)
		}
		policy.Predicates = append(policy.Predicates, predicate)
	}
	for range w.random.Intn(4) {
		priorities := resolve.LegacyPriorities()
		entry := priorities[w.random.Intn(len(priorities))]
		policy.Priorities = append(policy.Priorities, v1alpha1.PriorityPolicy{
			Name: entry.Name, Weight: int32(w.random.Intn(20)),
			Argument: randomPriorityArgument(w.random, entry.Argument),
		})
	}
	return policy
}

func randomPredicateArgument(random *rand.Rand, kind string) *v1alpha1.PredicateArgument {
	labels := []string{"a", "b", "c"}[:random.Intn(4)]
	switch kind {
	case "serviceAffinity":
		return &v1alpha1.PredicateArgument{ServiceAffinity: &v1alpha1.ServiceAffinity{Labels: labels}}
	case "labelsPresence":
		return &v1alpha1.PredicateArgument{LabelsPresence: &v1alpha1.LabelsPresence{Labels: labels,
			Presence: random.Intn(2) == 0}}
	}
	return nil
}

func randomPriorityArgument(random *rand.Rand, kind string) *v1alpha1.PriorityArgument {
	label := []string{"a", "b", "c"}[random.Intn(3)]
	switch kind {
	case "serviceAntiAffinity":
		return &v1alpha1.PriorityArgument{ServiceAntiAffinity: &v1alpha1.ServiceAntiAffinity{Label: label}}
	case "labelPreference":
		return &v1alpha1.PriorityArgument{LabelPreference: &v1alpha1.LabelPreference{Label: label,
			Presence: random.Intn(2) == 0}}
	case "requestedToCapacityRatioArguments":
		ratio := &v1alpha1.RequestedToCapacityRatioArguments{Shape: []v1alpha1.UtilizationShapePoint{
			{Utilization: random.Int31n(50), Score: random.Int31n(11)},
			{Utilization: 40 + random.Int31n(60), Score: random.Int31n(11)},
		}}
		if random.Intn(2) == 0 {
			ratio.Resources = []v1alpha1.ResourceSpec{{Name: "cpu", Weight: random.Int63n(200)},
				{Name: "memory", Weight: random.Int63n(3)}}
		}
		return &v1alpha1.PriorityArgument{RequestedToCapacityRatioArguments: ratio}
	}
	return nil
}

// input lists the objects in random order.
func (w *world) input() resolve.Input {
	in := resolve.Input{LastGood: w.lastGood, Registered: registered()}
	for _, profile := range w.profiles {
		in.Profiles = append(in.Profiles, profile)
	}
	for _, policy := range w.policies {
		in.Policies = append(in.Policies, policy)
	}
	w.random.Shuffle(len(in.Profiles),
		func(i, j int) { in.Profiles[i], in.Profiles[j] = in.Profiles[j], in.Profiles[i] })
	w.random.Shuffle(len(in.Policies),
		func(i, j int) { in.Policies[i], in.Policies[j] = in.Policies[j], in.Policies[i] })
	return in
}

func TestResultDoesNotDependOnTheOrderOfObjectsAndRunningProfilesContinue(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	w := &world{random: rand.New(rand.NewSource(seed)), profiles: map[string]v1alpha1.SchedulerProfile{},
		policies: map[string]v1alpha1.SchedulingPolicy{}}
	var before, chained *resolve.Resolution
	for step := range 600 {
		w.step()
		in := w.input()
		untouched := snapshot(t, in)
		resolution := resolve.Objects(in)
		checkInvariants(t, in, resolution)
		if !bytes.Equal(untouched, snapshot(t, in)) {
			t.Fatalf("step %d: the input was changed", step)
		}
		if diff := cmp.Diff(resolution, resolve.Objects(w.input()), exportedOnly); diff != "" {
			t.Fatalf("step %d: another order of the objects resolves otherwise:\n%s", step, diff)
		}
		next := w.input()
		next.Last = chained
		chained = resolve.Objects(next)
		if diff := cmp.Diff(resolution, chained, exportedOnly); diff != "" {
			t.Fatalf("step %d: with the last resolution it resolves otherwise:\n%s", step, diff)
		}
		if diff := cmp.Diff(resolution.LastGood(running(resolution)), chained.LastGood(running(chained))); diff != "" {
			t.Fatalf("step %d: with the last resolution other specs are the last good ones:\n%s", step, diff)
		}
		checkNoneStopped(t, w, before, resolution)
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
		w.lastGood = resolution.LastGood(running(resolution))
		if run, again := revisions(resolution), revisions(resolve.Objects(w.input())); !maps.Equal(run, again) {
			t.Fatalf("step %d: what runs is not what is resolved once it runs:\n%s", step, cmp.Diff(run, again))
		}
		before = resolution
	}
}

func snapshot(t *testing.T, in resolve.Input) []byte {
	t.Helper()
	text, err := json.Marshal(struct {
		Profiles []v1alpha1.SchedulerProfile
		Policies []v1alpha1.SchedulingPolicy
		LastGood resolve.LastGood
	}{in.Profiles, in.Policies, in.LastGood})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// revisions returns the object and revision that run, by scheduler name.
func revisions(r *resolve.Resolution) map[string]string {
	shown := map[string]string{}
	for name, profile := range r.Profiles {
		shown[name] = profile.Name + " " + profile.Revision
	}
	return shown
}

// checkNoneStopped checks that a scheduler name that had a profile still has one while an object
// that ran and claims it exists; and that a profile that is not accepted continues to run
// unchanged.
func checkNoneStopped(t *testing.T, w *world, before, after *resolve.Resolution) {
	t.Helper()
	if before == nil {
		return
	}
	for name, ran := range before.Profiles {
		object, exists := w.profiles[ran.Name]
		if !exists || object.UID != ran.UID {
			continue
		}
		runs := after.Profiles[name]
		if runs == nil {
			t.Errorf("nothing runs under the name %q any more, result %+v", name, after.ProfileResults[ran.Name])
			continue
		}
		if runs.Name == ran.Name && !after.ProfileResults[ran.Name].Accepted && runs.Revision != ran.Revision {
			t.Errorf("profile %q is not accepted and yet changed: %+v", name, after.ProfileResults[ran.Name])
		}
	}
}
