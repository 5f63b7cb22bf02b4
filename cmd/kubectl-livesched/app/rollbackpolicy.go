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

// policyOfProfile sees to it that the policy of a profile is what it was in the revision, if that
// is what is wanted.
func (r *rollback) policyOfProfile(ctx context.Context) error {
	name := policyNameOf(r.target.Profile)
	present, err := readPolicy(ctx, r.client, name)
	if err != nil {
		return err
	}
	recorded := r.target.Policy
	switch equal, err := samePolicy(recorded, present); {
	case err != nil:
		return err
	case equal:
		return nil
	}
	others, err := r.builtOn(ctx, name, r.past.profile.Name)
	if err != nil {
		return err
	}
	switch {
	case r.policy == policyKeep && present == nil && name != defaultPolicy:
		return fmt.Errorf("SchedulingPolicy %q, which revision %d was built on, does not exist: --policy=keep would leave the profile without one; --policy=restore creates it", name, r.target.Number)
	case r.policy == policyKeep:
		r.say("schedulingpolicy/%s stays as it is, unlike in revision %d", name, r.target.Number)
		return nil
	case recorded == nil:
		return r.fromBuiltIn(name, others)
	case r.policy == "" && len(others) > 0:
		return fmt.Errorf("revision %d was built on generation %d of SchedulingPolicy %q, which is another today, and these profiles build on it, too: %s. "+
			"Nothing was changed. --policy=restore brings it back, for them as well; --policy=keep builds the profile of the revision on the policy of today",
			r.target.Number, recorded.Generation, name, strings.Join(others, ", "))
	}
	return r.restore(ctx, recorded, present)
}

// fromBuiltIn is the error for a revision that was built on the built-in defaults, in whose place
// there is a policy today.
func (r *rollback) fromBuiltIn(name string, others []string) error {
	consequence := "no other profile builds on it"
	if len(others) > 0 {
		consequence = "these profiles build on it, too: " + strings.Join(others, ", ")
	}
	return fmt.Errorf("revision %d was built on the built-in defaults, and today there is a SchedulingPolicy %q (%s). Nothing was changed. "+
		"Delete it first (kubectl delete schedulingpolicy %s), or say --policy=keep to build the profile of the revision on it", r.target.Number, name, consequence, name)
}

// restore brings a policy back.
func (r *rollback) restore(ctx context.Context, recorded *history.Policy, present *v1alpha1.SchedulingPolicy) error {
	if present == nil {
		policy := newPolicy(recorded.Name, &recorded.Spec)
		if err := r.create(ctx, policy); err != nil {
			return err
		}
		r.say("schedulingpolicy/%s created as it was in revision %d", policy.Name, r.target.Number)
		return nil
	}
	if err := r.update(ctx, present, func() { setPolicy(present, recorded) }); err != nil {
		return err
	}
	r.say("schedulingpolicy/%s restored to what it was in revision %d", present.Name, r.target.Number)
	return nil
}

// builtOn names the profiles that build on a policy, without the one that is left out.
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

// samePolicy says whether the policy of a revision is the one of today. No policy is as good as one
// that says nothing: both are the built-in defaults.
func samePolicy(recorded *history.Policy, present *v1alpha1.SchedulingPolicy) (bool, error) {
	if (recorded == nil) != (present == nil) && (recorded == nil && present.Name != defaultPolicy || present == nil && recorded.Name != defaultPolicy) {
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
