// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission checks SchedulerProfiles and SchedulingPolicies before they are stored: what
// the API server calls as a validating webhook.
//
// It says what the controller would say a moment later, with the same pure function
// (config.Resolve), the objects of the cache and the one that is asked about in the place of its
// old self:
//
//   - What is wrong with a spec by itself is refused, all of it at once, each with its field.
//   - What lies in other objects, or becomes of other objects, is a warning: they may be applied a
//     moment later.
//   - What is legal but unwise is a warning, too.
//   - A change that leaves the spec alone is let through, whatever the spec is.
//
// A verdict is the only reason to refuse. Where there is none, since the request cannot be read or
// livesched cannot tell, the call fails (HTTP 500), and the failurePolicy of the webhook decides.
package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// Path that reviews are posted to.
const Path = "/validate"

// maxWait is less than the timeout of the webhook in config/webhook, so that it is livesched that
// says what it waited for.
const maxWait = 4 * time.Second

// Validator answers reviews. Its methods are called by the goroutines of the webhook server, many
// at a time; it changes nothing.
type Validator struct {
	// Reader reads the other objects, from a cache.
	Reader client.Reader
	// Scheme has the types of livesched.io/v1alpha1.
	Scheme *runtime.Scheme
	// Registered are the names of all plugins.
	Registered sets.Set[string]
	// Clock says how old an object is that has no creation time yet.
	Clock clock.PassiveClock
}

// review answers one request. An error means that there is no verdict.
func (v *Validator) review(ctx context.Context, request admission.Request) (admission.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	switch request.Kind.Kind {
	case "SchedulerProfile":
		return v.reviewProfile(ctx, request)
	case "SchedulingPolicy":
		return v.reviewPolicy(ctx, request)
	}
	return admission.Response{}, fmt.Errorf("kind %q is neither SchedulerProfile nor SchedulingPolicy", request.Kind.Kind)
}

func (v *Validator) reviewProfile(ctx context.Context, request admission.Request) (admission.Response, error) {
	var before, after v1alpha1.SchedulerProfile
	if err := v.decode(request, &before, &after); err != nil {
		return admission.Response{}, err
	}
	leavesSpec := request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec)
	if request.Operation == admissionv1.Delete || leavesSpec || after.DeletionTimestamp != nil {
		return admission.Allowed(""), nil
	}
	present, err := v.present(ctx)
	if err != nil {
		return admission.Response{}, err
	}
	v.age(&after)
	next := present
	next.Profiles = replace(present.Profiles, after, func(p *v1alpha1.SchedulerProfile) string { return p.Name })
	c := compare(config.Resolve(present), config.Resolve(next))
	return c.verdict("SchedulerProfile", after.Name, c.after.ProfileResults), nil
}

func (v *Validator) reviewPolicy(ctx context.Context, request admission.Request) (admission.Response, error) {
	var before, after v1alpha1.SchedulingPolicy
	if err := v.decode(request, &before, &after); err != nil {
		return admission.Response{}, err
	}
	leavesSpec := request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec)
	if leavesSpec || after.DeletionTimestamp != nil {
		return admission.Allowed(""), nil
	}
	present, err := v.present(ctx)
	if err != nil {
		return admission.Response{}, err
	}
	if request.Operation == admissionv1.Delete {
		return admission.Allowed("").WithWarnings(deletion(present, before.Name)...), nil
	}
	v.age(&after)
	next := present
	next.Policies = replace(present.Policies, after, func(p *v1alpha1.SchedulingPolicy) string { return p.Name })
	c := compare(config.Resolve(present), config.Resolve(next))
	return c.verdict("SchedulingPolicy", after.Name, c.after.PolicyResults), nil
}

// decode reads the object before and after the change, as far as the operation has them.
func (v *Validator) decode(request admission.Request, before, after client.Object) error {
	decoder := admission.NewDecoder(v.Scheme)
	switch request.Operation {
	case admissionv1.Create:
		return decoder.DecodeRaw(request.Object, after)
	case admissionv1.Update:
		if err := decoder.DecodeRaw(request.OldObject, before); err != nil {
			return err
		}
		return decoder.DecodeRaw(request.Object, after)
	case admissionv1.Delete:
		return decoder.DecodeRaw(request.OldObject, before)
	}
	return fmt.Errorf("operation %q is none of CREATE, UPDATE and DELETE", request.Operation)
}

// present is what there is. Secrets are not looked at: those who may write a policy need not learn
// about them.
func (v *Validator) present(ctx context.Context) (config.Input, error) {
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	if err := v.Reader.List(ctx, &profiles); err != nil {
		return config.Input{}, fmt.Errorf("listing SchedulerProfiles: %w", err)
	}
	if err := v.Reader.List(ctx, &policies); err != nil {
		return config.Input{}, fmt.Errorf("listing SchedulingPolicies: %w", err)
	}
	return config.Input{Profiles: profiles.Items, Policies: policies.Items, SecretsUnknown: true, Registered: v.Registered}, nil
}

// age makes an object that has no creation time the youngest: conflicts go by age.
func (v *Validator) age(object client.Object) {
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(v.Clock.Now()))
	}
}

// replace returns a copy of a list with an object in the place of its old self.
func replace[T any](list []T, object T, name func(*T) string) []T {
	var next []T
	for i := range list {
		if name(&list[i]) != name(&object) {
			next = append(next, list[i])
		}
	}
	return append(next, object)
}

// deletion warns of the profiles that build on a policy.
func deletion(present config.Input, policy string) []string {
	profiles := config.Resolve(present).PolicyResults[policy].Profiles
	switch {
	case len(profiles) == 0:
		return nil
	case policy == config.DefaultPolicyName:
		return []string{fmt.Sprintf("SchedulerProfiles that build on SchedulingPolicy %q fall back to the built-in defaults: %s", policy, strings.Join(profiles, ", "))}
	default:
		return []string{fmt.Sprintf("SchedulerProfiles build on SchedulingPolicy %q: %s. They are not accepted without it; what ran last goes on", policy, strings.Join(profiles, ", "))}
	}
}
