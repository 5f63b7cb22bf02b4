// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// revision returns the side of a revision of a profile; 0 is the active one.
func (o *diffOptions) revision(ctx context.Context, p *past, number int64) (side, error) {
	if number == 0 {
		return o.active(ctx, p)
	}
	r, err := p.numbered(number)
	if err != nil {
		return side{}, err
	}
	return o.ofRevision(r, fmt.Sprintf("revision %d", r.Number))
}

func (o *diffOptions) ofRevision(r *history.Revision, label string) (side, error) {
	profile := newProfile(r.ObjectName, r.Profile)
	var policy *v1alpha1.SchedulingPolicy
	if r.Policy != nil {
		policy = newPolicy(r.Policy.Name, &r.Policy.Spec)
	}
	return o.resolve(label, profile, policy)
}

// active returns the side of the active revision: the revision that the status names or, if that is
// not stored, the objects if their generations are those that the status names.
func (o *diffOptions) active(ctx context.Context, p *past) (side, error) {
	active := p.profile.Status.Active
	if active == nil {
		return side{label: "not active"}, nil
	}
	label := "active"
	if r := p.running(); r != nil {
		return o.ofRevision(r, fmt.Sprintf("%s (revision %d)", label, r.Number))
	}
	policy, err := readPolicy(ctx, o.client, policyNameOf(&p.profile.Spec))
	if err != nil {
		return side{}, err
	}
	samePolicy := active.Policy == nil && policy == nil || active.Policy != nil && policy != nil && active.Policy.Generation == policy.Generation
	if active.Generation != p.profile.Generation || !samePolicy {
		return side{}, fmt.Errorf("the active revision %s of %s is not stored in namespace %s: specify the namespace of livesched (--livesched-namespace)", active.Revision, p, o.liveschedNamespace)
	}
	return o.resolve(label, p.profile, policy)
}

// applied returns the side of the applied spec, accepted or not.
func (o *diffOptions) applied(ctx context.Context, p *past) (side, error) {
	policy, err := readPolicy(ctx, o.client, policyNameOf(&p.profile.Spec))
	if err != nil {
		return side{}, err
	}
	return o.resolve(fmt.Sprintf("applied (generation %d)", p.profile.Generation), p.profile, policy)
}

// resolve resolves a profile with a policy, which may be nil.
func (o *diffOptions) resolve(label string, profile *v1alpha1.SchedulerProfile, policy *v1alpha1.SchedulingPolicy) (side, error) {
	input := config.Input{Profiles: []v1alpha1.SchedulerProfile{*profile}, Registered: o.registered, SecretsUnknown: true, AllowedHosts: config.AnyHost()}
	if policy != nil {
		input.Policies = []v1alpha1.SchedulingPolicy{*policy}
	}
	resolution := config.Resolve(input)
	result := resolution.ProfileResults[profile.Name]
	if !result.Accepted {
		return side{}, fmt.Errorf("SchedulerProfile %q, %s: invalid (%s): %s", profile.Name, label, result.Reason, result.Message)
	}
	description, err := config.Describe(resolution.Profiles[config.SchedulerName(profile)])
	return side{label: label, description: description}, err
}

// compareFiles compares the active revisions with the result of applying the files.
func (o *diffOptions) compareFiles(ctx context.Context) ([]difference, error) {
	documents, err := manifests.Read(o.files, o.recursive, o.In)
	if err != nil {
		return nil, err
	}
	profiles, policies := validate.Profiles(documents), validate.Policies(documents)
	if len(profiles)+len(policies) == 0 {
		return nil, errors.New("no SchedulerProfile or SchedulingPolicy found")
	}
	inFiles := map[string]bool{}
	for i := range profiles {
		inFiles[profiles[i].Name] = true
	}
	byName := map[string]*v1alpha1.SchedulingPolicy{}
	for i := range policies {
		byName[policies[i].Name] = &policies[i]
	}
	var there v1alpha1.SchedulerProfileList
	if err := o.client.List(ctx, &there); err != nil {
		return nil, err
	}
	for i := range there.Items {
		if profile := &there.Items[i]; !inFiles[profile.Name] && byName[policyNameOf(&profile.Spec)] != nil {
			profiles = append(profiles, *profile)
		}
	}
	var differences []difference
	for i := range profiles {
		d, err := o.compareFile(ctx, &profiles[i], byName)
		if err != nil {
			return nil, err
		}
		differences = append(differences, d)
	}
	return differences, nil
}

func (o *diffOptions) compareFile(ctx context.Context, profile *v1alpha1.SchedulerProfile, policies map[string]*v1alpha1.SchedulingPolicy) (difference, error) {
	from := side{label: "does not exist"}
	p, err := readPast(ctx, o.client, o.liveschedNamespace, history.KindProfile, profile.Name)
	if err == nil {
		from, err = o.active(ctx, p)
	} else if apierrors.IsNotFound(err) {
		err = nil
	}
	if err != nil {
		return difference{}, err
	}
	policy := policies[policyNameOf(&profile.Spec)]
	if policy == nil {
		if policy, err = readPolicy(ctx, o.client, policyNameOf(&profile.Spec)); err != nil {
			return difference{}, err
		}
	}
	to, err := o.resolve("in the files", profile, policy)
	return newDifference(profile.Name, from, to), err
}
