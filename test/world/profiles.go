// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

// profileSpecs are specs of profiles that accept the same pods.
var profileSpecs = []string{
	`{}`,
	`percentageOfNodesToScore: 50`,
	`plugins: {score: {disabled: [{name: "*"}]}}`,
	`plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 10}]}}`,
	`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy:
  {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]`,
	`revisionHistoryLimit: 1`,
	`plugins: {multiPoint: {enabled: [{name: ` + slowPlugin + `}]}}`,
	`plugins: {preFilter: {enabled: [{name: ` + slowPlugin + `}]}, score: {disabled: [{name: "*"}]}}`,
}

// badProfileSpecs are specs that the API server stores, and livesched does not accept.
var badProfileSpecs = []string{
	`plugins: {filter: {enabled: [{name: ` + missingPlugin + `}]}}`,
	`policyRef: {name: ` + missingPolicy + `}`,
	`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: ` + missingPlugin + `}}}]`,
}

const (
	missingPlugin = "Missing"
	missingPolicy = "missing"
)

// rollouts are how changes take effect.
var rollouts = []string{
	`rollout: {strategy: Immediate}`,
	`rollout: {strategy: Canary, canary: {shadowDuration: 5s, analysis: {minOwners: 1}, steps:
  [{setWeight: 20}, {pause: {duration: 5s}}, {setWeight: 60}]}}`,
	`rollout: {strategy: Canary, canary: {shadowDuration: 0s, steps: [{setWeight: 50}, {pause: {}}]}}`,
}

// policyNames are those of the policies that profiles reference.
var policyNames = []string{"default", "patient"}

// profileNames are those of the profiles, and of the schedulers that pods ask for.
var profileNames = []string{"one", "two"}

func mustUnmarshal(text string, into any) {
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
}

// firstProfiles creates policies, and profiles that livesched accepts.
func (w *World) firstProfiles(r *rand.Rand) {
	for _, name := range policyNames {
		policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: newPolicy(r)}
		w.must(w.cluster.objects.Create(w.ctx, policy))
	}
	for _, name := range profileNames {
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		mustUnmarshal(one(r, profileSpecs), &profile.Spec)
		w.must(w.cluster.objects.Create(w.ctx, profile))
	}
}

// changeProfiles writes a profile.
func (w *World) changeProfiles(r *rand.Rand) {
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: one(r, profileNames)}}
	w.must(w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(profile), profile))
	profile.Spec = v1alpha1.SchedulerProfileSpec{}
	specs := profileSpecs
	if r.IntN(4) == 0 {
		specs = badProfileSpecs
	}
	mustUnmarshal(one(r, specs), &profile.Spec)
	if profile.Spec.PolicyRef.Name == "" {
		profile.Spec.PolicyRef.Name = one(r, policyNames)
	}
	if r.IntN(3) == 0 {
		var rollout v1alpha1.SchedulerProfileSpec
		mustUnmarshal(one(r, rollouts), &rollout)
		profile.Spec.Rollout = rollout.Rollout
	}
	w.log.add("profile %s", profile.Name)
	w.must(w.cluster.objects.Update(w.ctx, profile))
}

// newPolicy returns the spec of a policy that lets pods wait for an event for as long as a world
// lasts: a retry without an event would hide that an event wakes no pod.
func newPolicy(r *rand.Rand) (spec v1alpha1.SchedulingPolicySpec) {
	mustUnmarshal(fmt.Sprintf(`{podMaxInUnschedulablePods: 1000h, podInitialBackoff: %s, podMaxBackoff: %s,
percentageOfNodesToScore: %d, parallelism: %d, revisionHistoryLimit: %d}`,
		one(r, []string{"100ms", "1s", "5s"}), one(r, []string{"5s", "10s", "40s"}), r.IntN(100), 1+r.IntN(16),
		1+r.IntN(5)), &spec)
	return spec
}

// changePolicy writes or deletes a policy.
func (w *World) changePolicy(r *rand.Rand) {
	policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: one(r, policyNames)}}
	err := w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(policy), policy)
	exists := err == nil
	policy.Spec = newPolicy(r)
	switch {
	case !exists:
		w.log.add("create policy %s", policy.Name)
		err = w.cluster.objects.Create(w.ctx, policy)
	case r.IntN(5) == 0:
		w.log.add("delete policy %s", policy.Name)
		err = w.cluster.objects.Delete(w.ctx, policy)
		if policy.Name == policyNames[0] { // without it, pods are tried again after five minutes
			w.after(30*time.Second, func() { w.restorePolicy(policy) })
		}
	default:
		w.log.add("policy %s", policy.Name)
		err = w.cluster.objects.Update(w.ctx, policy)
	}
	w.must(err)
}

// restorePolicy creates a policy again, unless it exists.
func (w *World) restorePolicy(policy *v1alpha1.SchedulingPolicy) {
	again := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: policy.Spec}
	if err := w.cluster.objects.Create(w.ctx, again); !apierrors.IsAlreadyExists(err) {
		w.log.add("create policy %s again", policy.Name)
		w.must(err)
	}
}

// checkProfiles checks that the status of each profile describes its spec.
func (w *World) checkProfiles() {
	for _, name := range profileNames {
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(profile), profile); err != nil {
			w.fail("profile %s: %v", name, err)
			return
		}
		if err := w.checkProfile(profile); err != nil {
			w.fail("profile %s: %v; its status: %+v", name, err, profile.Status)
		}
	}
}

func (w *World) checkProfile(profile *v1alpha1.SchedulerProfile) error {
	good, err := w.isGood(profile)
	if err != nil {
		return err
	}
	status := &profile.Status
	is := func(condition string, value metav1.ConditionStatus) bool {
		return apimeta.IsStatusConditionPresentAndEqual(status.Conditions, condition, value)
	}
	programmed := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgrammed)
	switch {
	case status.ObservedGeneration != profile.Generation:
		return fmt.Errorf("the status is that of generation %d of %d", status.ObservedGeneration, profile.Generation)
	case status.Active == nil || programmed == nil:
		return fmt.Errorf("no revision is active")
	case is(v1alpha1.ConditionAccepted, metav1.ConditionTrue) != good:
		return fmt.Errorf("accepted, although it is not valid, or the other way around: valid is %v", good)
	case is(v1alpha1.ConditionReady, metav1.ConditionTrue) != is(v1alpha1.ConditionProgrammed, metav1.ConditionTrue):
		return fmt.Errorf("ready and programmed differ")
	case !good:
		if programmed.Reason != v1alpha1.ReasonKeptLastGood {
			return fmt.Errorf("does not keep the last good spec")
		}
	case programmed.Status == metav1.ConditionTrue:
		if status.Active.Generation != profile.Generation {
			return fmt.Errorf("generation %d is active, not %d", status.Active.Generation, profile.Generation)
		}
	case programmed.Reason == v1alpha1.ReasonRollingOut, programmed.Reason == v1alpha1.ReasonRolloutAborted:
	default:
		return fmt.Errorf("is not programmed")
	}
	return nil
}

// isGood reports whether livesched must accept the spec of a profile.
func (w *World) isGood(profile *v1alpha1.SchedulerProfile) (bool, error) {
	name := profile.Spec.PolicyRef.Name
	policy := &v1alpha1.SchedulingPolicy{}
	err := w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: name}, policy)
	switch {
	case apierrors.IsNotFound(err) && name != policyNames[0]:
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	}
	text, err := yaml.Marshal(profile.Spec)
	return !strings.Contains(string(text), missingPlugin), err
}
