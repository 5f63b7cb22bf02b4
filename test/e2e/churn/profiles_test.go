// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

var (
	// schedulerNames are the names that profiles claim; the first one always has a profile.
	schedulerNames = []string{"alpha", "beta", "gamma", "delta"}
	policyNames    = []string{"default", "policy-1", "policy-2"}
)

// nobody is a scheduler name that no profile claims.
const nobody = "nobody"

var profileActs = []act{
	{"change profiles", 1200 * time.Millisecond, changeProfile},
	{"replace profiles", 2500 * time.Millisecond, replaceProfile},
	{"change policies", 2 * time.Second, changePolicy},
	{"reload bursts", 8 * time.Second, burst},
}

// profileSpecs are valid specs. All of them keep the default filters, so that none breaks a
// guarantee.
var profileSpecs = []string{
	``,
	`plugins: {multiPoint: {enabled: [{name: Churner}]}}`,
	`plugins: {multiPoint: {enabled: [{name: Churner}]}}`,
	`plugins: {multiPoint: {enabled: [{name: Churner}, {name: NodeResourcesBalancedAllocation, weight: 5}]}}`,
	`{policyRef: {name: policy-1}, plugins: {multiPoint: {enabled: [{name: Churner}]}}}`,
	`{policyRef: {name: policy-2}, percentageOfNodesToScore: 30, plugins: {multiPoint: {enabled: [{name: Churner}]}, ` +
		`score: {disabled: [{name: "*"}]}}}`,
	`{policyRef: {name: policy-1}, plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: ` +
		`TaintToleration, weight: 9}]}}}`,
	`{plugins: {postFilter: {disabled: [{name: "*"}]}}}`,
	`{plugins: {multiPoint: {enabled: [{name: Churner}], disabled: [{name: DefaultPreemption}]}}}`,
	`{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, ` +
		`weight: 1}]}}}]}`,
	`{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}], plugins: {multiPoint: {enabled: ` +
		`[{name: Churner}]}}}`,
	`{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 3, ` +
		`topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}]}`,
	`{plugins: {queueSort: {disabled: [{name: "*"}], enabled: [{name: Sorter}]}}}`,
}

// menu has the specs from which actors choose.
type menu struct {
	profiles, brokenProfiles, policies, brokenPolicies []string
	// deletions lets actors delete policies that profiles need.
	deletions bool
}

var (
	everySpec = menu{profiles: profileSpecs, brokenProfiles: brokenSpecs, policies: policySpecs,
		brokenPolicies: brokenPolicies, deletions: true}
	// plainSpecs are for replicas without out-of-tree plugins. They are always valid. A replica
	// that starts while a spec is invalid continues with the last stored one, which another replica
	// may never have seen; so the test could not say which spec decides.
	plainSpecs = menu{profiles: plain(profileSpecs), policies: plain(policySpecs)}
)

// plain returns the specs that name no out-of-tree plugin.
func plain(specs []string) []string {
	return slices.DeleteFunc(slices.Clone(specs), func(spec string) bool {
		return strings.Contains(spec, churnerName) || strings.Contains(spec, sorterName)
	})
}

// brokenSpecs are invalid.
var brokenSpecs = []string{
	`plugins: {multiPoint: {enabled: [{name: NoSuchPlugin}]}}`,
	`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Nonsense}}}]`,
	`pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 1000}}]`,
	`policyRef: {name: no-such-policy}`,
	`plugins: {bind: {disabled: [{name: "*"}]}}`,
}

// policySpecs keep pods waiting for an event for an hour: the flush must not hide a missed event.
var policySpecs = []string{
	`{podInitialBackoff: 50ms, podMaxBackoff: 1s}`,
	`{podInitialBackoff: 1ms, podMaxBackoff: 1ms, percentageOfNodesToScore: 50}`,
	`{podInitialBackoff: 200ms, podMaxBackoff: 2s, algorithmSource: {provider: ClusterAutoscalerProvider}}`,
	`{podInitialBackoff: 100ms, podMaxBackoff: 1s, queueSort: {name: Sorter}}`,
	`{podInitialBackoff: 100ms, podMaxBackoff: 1s, parallelism: 2}`,
}

var brokenPolicies = []string{
	`{podInitialBackoff: 10ms, podMaxBackoff: 1s, algorithmSource: {policy: {predicates: [{name: NoSuchPredicate}]}}}`,
	`{podInitialBackoff: 10ms, podMaxBackoff: 1s, queueSort: {name: NoSuchPlugin}}`,
}

func profileSpec(text string) v1alpha1.SchedulerProfileSpec {
	var spec v1alpha1.SchedulerProfileSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // of a literal
	}
	return spec
}

func policySpec(text string) v1alpha1.SchedulingPolicySpec {
	var spec v1alpha1.SchedulingPolicySpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // of a literal
	}
	spec.PodMaxInUnschedulablePods = &metav1.Duration{Duration: time.Hour}
	return spec
}

// createProfiles creates the missing ones of the profiles and policies that a round begins with.
func createProfiles(ctx context.Context, a *actor) error {
	var errs []error
	for _, name := range policyNames {
		errs = append(errs,
			raced(a.client.Create(ctx,
				&v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec: policySpec(policySpecs[0])})))
	}
	for _, name := range schedulerNames {
		p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: profileSpec(one(a, a.menu.profiles...))}
		p.Spec.SchedulerName = name
		errs = append(errs, raced(a.client.Create(ctx, p)))
	}
	return errors.Join(errs...)
}

func changeProfile(ctx context.Context, a *actor) error {
	var list v1alpha1.SchedulerProfileList
	if err := a.client.List(ctx, &list); err != nil || len(list.Items) == 0 {
		return err
	}
	p := &list.Items[a.rng.IntN(len(list.Items))]
	specs, what := a.menu.profiles, "profiles changed"
	if len(a.menu.brokenProfiles) > 0 && a.chance(20) {
		specs, what = a.menu.brokenProfiles, "profiles broken"
	}
	return a.did(what, a.respec(ctx, p, one(a, specs...)))
}

// respec gives a profile another spec, with its scheduler name.
func (a *actor) respec(ctx context.Context, p *v1alpha1.SchedulerProfile, text string) error {
	return change(ctx, a, p, func(p *v1alpha1.SchedulerProfile) {
		name := p.Spec.SchedulerName
		p.Spec = profileSpec(text)
		p.Spec.SchedulerName = name
	})
}

// replaceProfile deletes a profile, or creates one: for a name without a profile, or for one that
// another profile has claimed.
func replaceProfile(ctx context.Context, a *actor) error {
	var list v1alpha1.SchedulerProfileList
	if err := a.client.List(ctx, &list); err != nil {
		return err
	}
	if len(list.Items) > len(schedulerNames)+1 || len(list.Items) >= len(schedulerNames) && a.chance(50) {
		p := &list.Items[a.rng.IntN(len(list.Items))]
		if p.Name == schedulerNames[0] {
			return nil
		}
		return a.did("profiles deleted", a.client.Delete(ctx, p))
	}
	p := &v1alpha1.SchedulerProfile{Spec: profileSpec(one(a, a.menu.profiles...))}
	p.Name = one(a, schedulerNames...)
	p.Spec.SchedulerName = p.Name
	if a.chance(30) { // an object with a new name
		p.Name = fmt.Sprintf("profile-%d", a.rng.Uint32())
	}
	return a.did("profiles created", a.client.Create(ctx, p))
}

func changePolicy(ctx context.Context, a *actor) error {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: one(a, policyNames...)}}
	specs, what := a.menu.policies, "policies changed"
	if len(a.menu.brokenPolicies) > 0 && a.chance(15) {
		specs, what = a.menu.brokenPolicies, "policies broken"
	}
	spec := policySpec(one(a, specs...))
	err := change(ctx, a, p, func(p *v1alpha1.SchedulingPolicy) { p.Spec = spec })
	if client.IgnoreNotFound(err) == nil && err != nil {
		p = &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: spec}
		return a.did("policies created", a.client.Create(ctx, p))
	}
	// Without "default", the flush would come after five minutes, so keep that one.
	if err == nil && p.Name != "default" && a.menu.deletions && a.chance(15) {
		return a.did("policies deleted", a.client.Delete(ctx, p))
	}
	return a.did(what, err)
}

// burst changes a profile several times in quick succession, like a hasty user.
func burst(ctx context.Context, a *actor) error {
	for range 10 {
		if err := changeProfile(ctx, a); err != nil {
			return err
		}
	}
	a.counts.add("reload bursts", 1)
	return nil
}
