// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// policyNames are those of the policies that profiles reference.
var policyNames = []string{"default", "patient"}

// waiting is the spec of a policy that lets pods wait for an event: see policyWords.
const waiting = `podMaxInUnschedulablePods: 1000h`

// profileNames are those of the profiles, and of the schedulers that pods ask for.
var profileNames = []string{"one", "two"}

// shadowName is the name of the profile that follows one of the others.
const shadowName = "shadow"

func mustUnmarshal(text string, into any) {
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
}

// firstProfiles creates policies, and profiles that livesched accepts.
func (w *World) firstProfiles(r *rand.Rand) {
	for _, name := range policyNames {
		policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.must(w.cluster.objects.Create(w.ctx, policy))
		for !w.writePolicy(name, r) {
		}
	}
	for _, name := range profileNames {
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.must(w.cluster.objects.Create(w.ctx, profile))
	}
	for _, name := range profileNames {
		for w.failure == nil {
			if w.writeProfile(name, r); w.resolved().ProfileResults[name].Accepted {
				break
			}
		}
	}
	shadow := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: shadowName}}
	mustUnmarshal(`{mode: Shadow, shadow: {profileRef: {name: `+profileNames[0]+`}}}`, &shadow.Spec)
	w.must(w.cluster.objects.Create(w.ctx, shadow))
}

// changeProfiles writes a profile.
func (w *World) changeProfiles(r *rand.Rand) {
	switch r.IntN(8) {
	default:
		w.writeProfile(one(r, profileNames), r)
	case 0:
		w.shadowAlike(one(r, profileNames))
	case 1:
		w.writeSpec("SchedulerProfile", "schedulerprofiles", shadowName, shadowWords, r)
	}
}

// writeProfile gives a profile another spec. It reports whether the API server has accepted it.
func (w *World) writeProfile(name string, r *rand.Rand) bool {
	return w.writeSpec("SchedulerProfile", "schedulerprofiles", name, profileWords, r)
}

func (w *World) writePolicy(name string, r *rand.Rand) bool {
	return w.writeSpec("SchedulingPolicy", "schedulingpolicies", name, policyWords, r)
}

// writeSpec gives a custom resource another spec. It reports whether the API server has accepted
// it.
func (w *World) writeSpec(kind, plural, name string, words words, r *rand.Rand) bool {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: name}, object); err != nil {
		w.must(err)
		return false
	}
	spec, valid := drawSpec(r, plural, words)
	if kind == "SchedulerProfile" && r.IntN(2) == 0 {
		similar := object.DeepCopy()
		if name != shadowName { // so that one profile is like another one but for little
			w.must(w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: one(r, profileNames)}, similar))
		}
		old, _, _ := unstructured.NestedMap(similar.Object, "spec")
		change(r, old, spec)
		spec, valid = old, true
	}
	object.Object["spec"] = spec
	err := w.cluster.objects.Update(w.ctx, object)
	w.log.add("%s %s: %v: %v", kind, name, spec, err)
	switch {
	case apierrors.IsInvalid(err):
		w.counts["specs that the API server refuses"]++
	case err != nil:
		w.must(err)
	case !valid:
		w.fail("%s %s: the API server accepts a spec that its schema does not allow: %v", kind, name, spec)
	}
	return err == nil
}

// changePolicy writes, deletes or creates a policy.
func (w *World) changePolicy(r *rand.Rand) {
	policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: one(r, policyNames)}}
	err := w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(policy), policy)
	switch {
	case apierrors.IsNotFound(err):
		w.restorePolicy(policy.Name)
	case err != nil:
		w.must(err)
	case r.IntN(5) == 0:
		w.log.add("delete policy %s", policy.Name)
		w.must(w.cluster.objects.Delete(w.ctx, policy))
		if policy.Name == policyNames[0] { // without it, pods are tried again after five minutes
			w.after(30*time.Second, func() { w.restorePolicy(policy.Name) })
		}
	default:
		w.writePolicy(policy.Name, r)
	}
}

// restorePolicy creates a policy, unless it exists.
func (w *World) restorePolicy(name string) {
	policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mustUnmarshal(waiting, &policy.Spec)
	if err := w.cluster.objects.Create(w.ctx, policy); !apierrors.IsAlreadyExists(err) {
		w.log.add("create policy %s again", name)
		w.must(err)
	}
}

// resolved returns what livesched makes of the present specs if it has never seen others. If they
// cannot be read, that is a violation.
func (w *World) resolved() *resolve.Resolution {
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	err := errors.Join(w.cluster.objects.List(w.ctx, &profiles), w.cluster.objects.List(w.ctx, &policies))
	if err != nil {
		w.fail("profiles: %v", err)
	}
	return resolve.Objects(resolve.Input{Profiles: profiles.Items, Policies: policies.Items, Registered: registered()})
}

// checkProfiles checks that the status of each profile and of each policy describes its spec,
// whatever specs there were before.
func (w *World) checkProfiles() {
	resolved := w.resolved()
	for _, name := range append(slices.Clone(profileNames), shadowName) {
		profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(profile), profile); err != nil {
			w.fail("profile %s: %v", name, err)
			return
		}
		if err := w.checkProfile(profile, resolved); err != nil {
			w.fail("profile %s: %v; its status: %+v", name, err, profile.Status)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resolved.PolicyResults)) {
		result := resolved.PolicyResults[name]
		policy := &v1alpha1.SchedulingPolicy{}
		if err := w.cluster.objects.Get(w.ctx, client.ObjectKey{Name: name}, policy); err != nil {
			w.fail("policy %s: %v", name, err)
			return
		}
		accepted := apimeta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionAccepted)
		if policy.Status.ObservedGeneration != policy.Generation || accepted != result.Accepted {
			w.fail("policy %s: accepted is %v, want %v (%s); its status: %+v", name, accepted, result.Accepted,
				result.Message, policy.Status)
		}
		if err := w.checkUsers(policy, resolved); err != nil {
			w.fail("policy %s: %v; its status: %+v", name, err, policy.Status)
		}
	}
}

// checkUsers checks that the status of a policy names the profiles that build on it, and that it is
// programmed if those run it whose accepted spec does.
func (w *World) checkUsers(policy *v1alpha1.SchedulingPolicy, resolved *resolve.Resolution) error {
	users, programmed := sets.New[string](), resolved.PolicyResults[policy.Name].Accepted
	for _, object := range sorted(w.cluster.profiles) {
		profile := w.profileOf(object)
		result := resolved.ProfileResults[profile.Name]
		config := resolved.Profiles[result.SchedulerName]
		if profile.Name == shadowName {
			config = resolved.Shadows[result.ID()]
		}
		active := profile.Status.Active
		runs := active != nil && active.Policy != nil && active.Policy.Name == policy.Name
		if wants := result.Accepted && config.PolicyName == policy.Name; wants || runs {
			users.Insert(profile.Name)
			// A policy of this name that was deleted may have had the same generation.
			runs = runs && active.Policy.Generation == policy.Generation &&
				!active.Since.Before(&policy.CreationTimestamp)
			programmed = programmed && (!wants || runs ||
				apimeta.IsStatusConditionTrue(profile.Status.Conditions, v1alpha1.ConditionProgrammed))
		}
	}
	if !slices.Equal(policy.Status.Profiles, sets.List(users)) {
		return fmt.Errorf("it is used by %v", sets.List(users))
	}
	if apimeta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionProgrammed) != programmed {
		return fmt.Errorf("programmed is not %v", programmed)
	}
	return nil
}

func (w *World) checkProfile(profile *v1alpha1.SchedulerProfile, resolved *resolve.Resolution) error {
	result := resolved.ProfileResults[profile.Name]
	status := &profile.Status
	is := func(condition string, value metav1.ConditionStatus) bool {
		return apimeta.IsStatusConditionPresentAndEqual(status.Conditions, condition, value)
	}
	programmed := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgrammed)
	switch {
	case status.ObservedGeneration != profile.Generation:
		return fmt.Errorf("the status is that of generation %d of %d", status.ObservedGeneration, profile.Generation)
	case is(v1alpha1.ConditionAccepted, metav1.ConditionTrue) != result.Accepted:
		return fmt.Errorf("accepted is not %v (%s)", result.Accepted, result.Message)
	case profile.Name == shadowName:
		return w.checkShadow(profile, resolved)
	case status.Active == nil || programmed == nil:
		return fmt.Errorf("no revision is active")
	case is(v1alpha1.ConditionReady, metav1.ConditionTrue) != is(v1alpha1.ConditionProgrammed, metav1.ConditionTrue):
		return fmt.Errorf("ready and programmed differ")
	case !result.Accepted:
		if programmed.Reason != v1alpha1.ReasonKeptLastGood {
			return fmt.Errorf("does not keep the last good spec")
		}
	case programmed.Status == metav1.ConditionTrue:
		if want := resolved.Profiles[result.SchedulerName].Revision; status.Active.Revision != want {
			return fmt.Errorf("revision %s is active, not %s", status.Active.Revision, want)
		}
		if status.Active.Generation != profile.Generation {
			return fmt.Errorf("generation %d is active, not %d", status.Active.Generation, profile.Generation)
		}
	case programmed.Reason == v1alpha1.ReasonRollingOut, programmed.Reason == v1alpha1.ReasonRolloutAborted:
		return checkRollout(profile, resolved.Profiles[result.SchedulerName].Revision,
			programmed.Reason == v1alpha1.ReasonRolloutAborted)
	default:
		return fmt.Errorf("is not programmed")
	}
	return nil
}
