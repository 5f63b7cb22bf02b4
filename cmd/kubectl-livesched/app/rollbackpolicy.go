// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
)

// policyOfProfile restores the policy of a profile as it was in the revision, if --policy allows
// it. It returns the policy on which the profile builds then, nil for the built-in defaults.
func (r *rollback) policyOfProfile(ctx context.Context) (*v1alpha1.SchedulingPolicy, error) {
	name := policyNameOf(r.target.Profile)
	present, err := readPolicy(ctx, r.client, name)
	if err != nil {
		return nil, err
	}
	recorded := r.target.Policy
	switch equal, err := samePolicy(recorded, present); {
	case err != nil:
		return nil, err
	case equal:
		return present, nil
	}
	others, err := r.builtOn(ctx, name, r.past.profile.Name)
	if err != nil {
		return nil, err
	}
	if err := r.mayRestore(name, others, present); err != nil {
		return nil, err
	}
	if r.policy == policyKeep {
		r.say("schedulingpolicy/%s kept; it differs from the policy of %s", name, revisionText(r.target))
		return present, nil
	}
	return r.restore(ctx, recorded, present)
}

// mayRestore returns an error if the policy of a profile differs from the policy in the revision
// and must not be restored or kept. The others are the profiles that also build on it.
func (r *rollback) mayRestore(name string, others []string, present *v1alpha1.SchedulingPolicy) error {
	recorded := r.target.Policy
	switch {
	case r.policy == policyKeep && present == nil && name != defaultPolicy:
		return fmt.Errorf("SchedulingPolicy %q, which %s was built on, does not exist: --policy=keep would leave the "+
			"profile without a policy; --policy=restore creates it", name, revisionText(r.target))
	case r.policy == policyKeep:
		return nil
	case recorded == nil:
		return r.fromBuiltIn(name, others)
	case r.policy == "" && len(others) > 0:
		return fmt.Errorf("%s was built on generation %d of SchedulingPolicy %q, which has changed since, and other "+
			"profiles build on it: %s. "+
			"Nothing was changed. Use --policy=restore to restore the policy for all of them, or --policy=keep to "+
			"build the profile on the current policy",
			revisionText(r.target), recorded.Generation, name, strings.Join(others, ", "))
	}
	return nil
}

// fromBuiltIn returns the error for a revision that was built on the built-in defaults, which a
// policy has replaced since.
func (r *rollback) fromBuiltIn(name string, others []string) error {
	consequence := "no other profile builds on it"
	if len(others) > 0 {
		consequence = "other profiles build on it: " + strings.Join(others, ", ")
	}
	return fmt.Errorf(
		"%s was built on the built-in defaults, but now SchedulingPolicy %q exists (%s). Nothing was changed. "+
			"Delete the policy first (kubectl delete schedulingpolicy %s), or use --policy=keep to build the profile "+
			"on it", revisionText(r.target), name, consequence, name)
}

// restore restores or creates the policy of the revision.
func (r *rollback) restore(ctx context.Context, recorded *history.Policy,
	present *v1alpha1.SchedulingPolicy) (*v1alpha1.SchedulingPolicy, error) {
	var before *v1alpha1.SchedulingPolicy
	var err error
	policy, done := present, "restored"
	if present == nil {
		policy, done = newPolicy(recorded.Name, &recorded.Spec), "created"
		err = r.create(ctx, policy)
	} else {
		before = present.DeepCopy()
		err = r.update(ctx, policy, func() { setPolicy(policy, recorded) })
	}
	if err != nil {
		return nil, err
	}
	r.restored = append(r.restored, policy)
	if err := r.showPolicy(before, policy); err != nil {
		return nil, err
	}
	r.say("schedulingpolicy/%s %s as it was in %s", policy.Name, done, revisionText(r.target))
	return policy, nil
}

// builtOn returns the names of the profiles that build on a policy, without the excepted one.
func (r *rollback) builtOn(ctx context.Context, policy, except string) ([]string, error) {
	var profiles v1alpha1.SchedulerProfileList
	if err := r.client.List(ctx, &profiles); err != nil {
		return nil, err
	}
	var names []string
	for i := range profiles.Items {
		if profile := &profiles.Items[i]; profile.Name != except && policyNameOf(&profile.Spec) == policy {
			names = append(names, profile.Name)
		}
	}
	return names, nil
}

// samePolicy reports whether the policy of a revision equals the current one. A missing default
// policy equals an empty one: both mean the built-in defaults.
func samePolicy(recorded *history.Policy, present *v1alpha1.SchedulingPolicy) (bool, error) {
	if (recorded == nil) != (present == nil) &&
		(recorded == nil && present.Name != defaultPolicy || present == nil && recorded.Name != defaultPolicy) {
		return false, nil
	}
	var before, now v1alpha1.SchedulingPolicySpec
	if recorded != nil {
		before = recorded.Spec
	}
	if present != nil {
		now = present.Spec
	}
	hashBefore, err := history.Hash(&before)
	if err != nil {
		return false, err
	}
	hashNow, err := history.Hash(&now)
	return hashBefore == hashNow, err
}
