// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// differ resolves the sides of comparisons.
type differ struct {
	client     client.Client
	namespace  string // of livesched
	registered sets.Set[string]
}

// newDiffer returns a differ for a livesched with some plugins in addition to the built-in ones.
func (o *options) newDiffer(c client.Client, plugins []string) differ {
	return differ{client: c, namespace: o.liveschedNamespace, registered: resolve.BuiltIn().Insert(plugins...)}
}

// revision returns the side of a revision: see isDefault for the active one.
func (d *differ) revision(ctx context.Context, p *past, revision string) (print.Side, error) {
	if isDefault(revision) {
		return d.active(ctx, p)
	}
	r, err := p.find(revision)
	if err != nil {
		return print.Side{}, err
	}
	return d.ofRevision(r, revisionText(r))
}

func (d *differ) ofRevision(r *history.Revision, label string) (print.Side, error) {
	var policy *v1alpha1.SchedulingPolicy
	if r.Policy != nil {
		policy = newPolicy(r.Policy.Name, &r.Policy.Spec)
	}
	if r.Profile == nil {
		return policySide(label, policy), nil
	}
	return d.resolve(label, newProfile(r.ObjectName, r.Profile), policy)
}

// active returns the side of the active revision: the revision that the status names or, if that is
// not stored, the objects if the status names their generations.
func (d *differ) active(ctx context.Context, p *past) (print.Side, error) {
	const label = "active"
	if r := p.running(); r != nil {
		return d.ofRevision(r, label+" "+revisionText(r))
	}
	if p.policy != nil {
		if meta.IsStatusConditionTrue(p.policy.Status.Conditions, v1alpha1.ConditionAccepted) &&
			p.policy.Status.ObservedGeneration == p.policy.Generation {
			return policySide(label, p.policy), nil
		}
		return print.Side{Label: "not active"}, nil
	}
	active := p.profile.Status.Active
	if active == nil {
		return print.Side{Label: "not active"}, nil
	}
	policy, err := readPolicy(ctx, d.client, policyNameOf(&p.profile.Spec))
	if err != nil {
		return print.Side{}, err
	}
	samePolicy := active.Policy == nil && policy == nil || active.Policy != nil && policy != nil &&
		active.Policy.Generation == policy.Generation
	if active.Generation != p.profile.Generation || !samePolicy {
		return print.Side{}, fmt.Errorf("the active revision %s of %s is not stored in namespace %s: specify the "+
			"namespace of livesched (--livesched-namespace)", active.Revision, p, d.namespace)
	}
	return d.resolve(label, p.profile, policy)
}

// applied returns the side of the applied spec, accepted or not.
func (d *differ) applied(ctx context.Context, p *past) (print.Side, error) {
	label := fmt.Sprintf("applied (generation %d)", p.object().GetGeneration())
	s := policySide(label, p.policy)
	if p.profile != nil {
		policy, err := readPolicy(ctx, d.client, policyNameOf(&p.profile.Spec))
		if err != nil {
			return print.Side{}, err
		}
		if s, err = d.resolve(label, p.profile, policy); err != nil {
			return print.Side{}, err
		}
	}
	if refused := refusal(p.object()); refused != "" {
		s.Invalid = refused
	}
	return s, nil
}

// refusal returns why the present generation of an object is not active, in the words of status,
// empty if it is or if livesched has not said so.
func refusal(object client.Object) string {
	for _, name := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		c := meta.FindStatusCondition(conditionsOf(object), name)
		if c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == object.GetGeneration() {
			return fmt.Sprintf("%s is False (%s): %s", name, c.Reason, c.Message)
		}
	}
	return ""
}

// policySide returns the side of a policy itself.
func policySide(label string, policy *v1alpha1.SchedulingPolicy) print.Side {
	if policy == nil {
		return print.Side{Label: label}
	}
	return print.Side{Label: label, Specs: specs(nil, policy)}
}

// specs returns the specs of a profile and a policy, without what is not part of a revision.
func specs(profile *v1alpha1.SchedulerProfile, policy *v1alpha1.SchedulingPolicy) map[string]any {
	all := map[string]any{}
	if profile != nil {
		spec := profile.Spec.DeepCopy()
		spec.RevisionHistoryLimit = nil
		all["profile"] = spec
	}
	if policy != nil {
		spec := policy.Spec.DeepCopy()
		spec.RevisionHistoryLimit = nil
		all["policy"] = spec
	}
	return all
}

// resolve resolves a profile with a policy, which may be nil. If it is invalid, the side has the
// reason.
func (d *differ) resolve(label string, profile *v1alpha1.SchedulerProfile,
	policy *v1alpha1.SchedulingPolicy) (print.Side, error) {
	input := resolve.Input{Profiles: []v1alpha1.SchedulerProfile{*profile}, Registered: d.registered,
		SecretsUnknown: true, AllowedHosts: resolve.AnyHost()}
	if policy != nil {
		input.Policies = []v1alpha1.SchedulingPolicy{*policy}
	}
	s := print.Side{Label: label, Specs: specs(profile, policy)}
	if profile.Spec.Mode == v1alpha1.ProfileShadow { // what counts is how it decides
		profile = profile.DeepCopy()
		profile.Spec.Mode, profile.Spec.Shadow = "", nil
		input.Profiles[0] = *profile
	}
	resolution := resolve.Objects(input)
	result := resolution.ProfileResults[profile.Name]
	if !result.Accepted {
		s.Invalid = fmt.Sprintf("invalid (%s): %s", result.Reason, result.Message)
		if result.Reason == v1alpha1.ReasonUnknownPlugin {
			s.Invalid += " (if your livesched has the plugin, name it with --plugins)"
		}
		return s, nil
	}
	var err error
	s.Description, err = resolve.Describe(resolution.Profiles[resolve.SchedulerName(profile)])
	return s, err
}

// compareFiles compares the active revisions with the result of applying the files.
func (o *diffOptions) compareFiles(ctx context.Context) ([]print.Difference, error) {
	documents, err := o.readFiles(o.In)
	if err != nil {
		return nil, err
	}
	profiles, policies := validate.Profiles(documents), validate.Policies(documents)
	if len(profiles)+len(policies) == 0 {
		return nil, errors.New("no SchedulerProfile or SchedulingPolicy found")
	}
	c, err := o.options.client()
	if err != nil {
		return nil, err
	}
	o.differ = o.newDiffer(c, o.plugins)
	inFiles := map[string]bool{}
	for i := range profiles {
		inFiles[profiles[i].Name] = true
	}
	byName := map[string]*v1alpha1.SchedulingPolicy{}
	for i := range policies {
		byName[policies[i].Name] = &policies[i]
	}
	var there v1alpha1.SchedulerProfileList
	if err := o.differ.client.List(ctx, &there); err != nil {
		return nil, err
	}
	for i := range there.Items {
		if profile := &there.Items[i]; !inFiles[profile.Name] && byName[policyNameOf(&profile.Spec)] != nil {
			profiles = append(profiles, *profile)
		}
	}
	var differences []print.Difference
	for i := range profiles {
		d, err := o.compareFile(ctx, &profiles[i], byName)
		if err != nil {
			return nil, err
		}
		differences = append(differences, d)
	}
	return differences, nil
}

func (o *diffOptions) compareFile(ctx context.Context, profile *v1alpha1.SchedulerProfile,
	policies map[string]*v1alpha1.SchedulingPolicy) (print.Difference, error) {
	from := print.Side{Label: "does not exist"}
	p, err := readPast(ctx, o.differ.client, o.namespace, objectName{history.KindProfile, profile.Name})
	if err == nil {
		from, err = o.active(ctx, p)
	} else if apierrors.IsNotFound(err) {
		err = nil
	}
	if err != nil {
		return print.Difference{}, err
	}
	policy := policies[policyNameOf(&profile.Spec)]
	if policy == nil {
		if policy, err = readPolicy(ctx, o.differ.client, policyNameOf(&profile.Spec)); err != nil {
			return print.Difference{}, err
		}
	}
	to, err := o.resolve("in the files", profile, policy)
	if err == nil && to.Invalid != "" {
		err = fmt.Errorf("SchedulerProfile %q, %s: %s", profile.Name, to.Label, to.Invalid)
	}
	return print.NewDifference(history.KindProfile, profile.Name, from, to), err
}
