// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission implements the validating webhook, which checks SchedulerProfiles and
// SchedulingPolicies before they are stored.
//
// It applies the controller's checks in advance: it resolves the objects of the cache, with the
// changed object in place of the old one, by the same pure function (resolve.Objects).
//
//   - Errors in a spec itself deny the request. The response has all of them, each with its field.
//   - Problems with or in other objects are warnings, because those objects may be applied next.
//   - Valid but inadvisable settings are warnings, too.
//   - Profiles that a change of a policy changes are named in a warning.
//   - A change that does not touch the spec is allowed, even if the spec is invalid.
//
// Only a verdict denies a request. If there is no verdict, because the request cannot be decoded or
// livesched cannot check it, the call fails (HTTP 500), and the webhook's failurePolicy applies.
//
// Anybody who reaches the port can send requests, and the scheduler runs in the same process. So
// the parts of the webhook limit what requests can take:
//
//	Serve       connections, shared fairly by source address (listener.go), and their time
//	Handler     the size of a request, reviews at the same time, and lines in the log
//	Validator   one resolve.Objects for a review, and a second one only to find whom a change harms
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
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Path is the path of the webhook.
const Path = "/validate"

// maxWait is less than the webhook's timeout in config/webhook, so that livesched reports what it
// waited for.
const maxWait = 4 * time.Second

// Validator reviews admission requests. It is immutable; the goroutines of the webhook server call
// it concurrently.
type Validator struct {
	// Reader reads the other objects, from a cache.
	Reader client.Reader
	// Scheme has the types of livesched.io/v1alpha1.
	Scheme *runtime.Scheme
	// Registered are the names of all plugins.
	Registered sets.Set[string]
	// AllowedHosts are the hosts that extenders may be at.
	AllowedHosts resolve.AllowedHosts
	// Clock provides the creation time of new objects.
	Clock clock.PassiveClock
}

// review returns the response to one request. An error means that there is no verdict.
func (v *Validator) review(ctx context.Context, request admission.Request) (admission.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	switch request.Kind.Kind {
	case "SchedulerProfile":
		return v.reviewProfile(ctx, request)
	case "SchedulingPolicy":
		return v.reviewPolicy(ctx, request)
	}
	return admission.Response{},
		fmt.Errorf("kind %q is neither SchedulerProfile nor SchedulingPolicy", request.Kind.Kind)
}

func (v *Validator) reviewProfile(ctx context.Context, request admission.Request) (admission.Response, error) {
	var before, after v1alpha1.SchedulerProfile
	if err := v.decode(request, &before, &after); err != nil {
		return admission.Response{}, err
	}
	keepsSpec := request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec)
	if request.Operation == admissionv1.Delete || keepsSpec || after.DeletionTimestamp != nil {
		return admission.Allowed(""), nil
	}
	current, err := v.current(ctx)
	if err != nil {
		return admission.Response{}, err
	}
	v.age(&after)
	next := current
	next.Profiles = replace(current.Profiles, after, func(p *v1alpha1.SchedulerProfile) string { return p.Name })
	c := compare(current, next)
	return c.verdict("SchedulerProfile", after.Name, c.after.ProfileResults), nil
}

func (v *Validator) reviewPolicy(ctx context.Context, request admission.Request) (admission.Response, error) {
	var before, after v1alpha1.SchedulingPolicy
	if err := v.decode(request, &before, &after); err != nil {
		return admission.Response{}, err
	}
	keepsSpec := request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec)
	if keepsSpec || after.DeletionTimestamp != nil {
		return admission.Allowed(""), nil
	}
	current, err := v.current(ctx)
	if err != nil {
		return admission.Response{}, err
	}
	if request.Operation == admissionv1.Delete {
		return admission.Allowed("").WithWarnings(deletionWarnings(current, before.Name)...), nil
	}
	v.age(&after)
	next := current
	next.Policies = replace(current.Policies, after, func(p *v1alpha1.SchedulingPolicy) string { return p.Name })
	c := compare(current, next)
	return c.verdict("SchedulingPolicy", after.Name, c.after.PolicyResults), nil
}

// decode decodes the objects before and after the change. An operation may have only one of them.
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

// current returns the current objects. It does not read Secrets, because a user who can write a
// policy may not be allowed to learn about them.
func (v *Validator) current(ctx context.Context) (resolve.Input, error) {
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	if err := v.Reader.List(ctx, &profiles); err != nil {
		return resolve.Input{}, fmt.Errorf("listing SchedulerProfiles: %w", err)
	}
	if err := v.Reader.List(ctx, &policies); err != nil {
		return resolve.Input{}, fmt.Errorf("listing SchedulingPolicies: %w", err)
	}
	return resolve.Input{Profiles: profiles.Items, Policies: policies.Items, SecretsUnknown: true,
		AllowedHosts: v.AllowedHosts, Registered: v.Registered}, nil
}

// age makes an object without a creation time the youngest: conflicts are resolved by age.
func (v *Validator) age(object client.Object) {
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(v.Clock.Now()))
	}
}

// replace returns a copy of a list in which an object replaces the one with the same name.
func replace[T any](list []T, object T, name func(*T) string) []T {
	var next []T
	for i := range list {
		if name(&list[i]) != name(&object) {
			next = append(next, list[i])
		}
	}
	return append(next, object)
}

// deletionWarnings returns a warning about the profiles that build on a policy.
func deletionWarnings(current resolve.Input, policy string) []string {
	profiles := resolve.Objects(current).PolicyResults[policy].Profiles
	switch {
	case len(profiles) == 0:
		return nil
	case policy == resolve.DefaultPolicyName:
		return []string{fmt.Sprintf(
			"SchedulerProfiles that build on SchedulingPolicy %q fall back to the built-in defaults: %s", policy,
			strings.Join(profiles, ", "))}
	default:
		return []string{fmt.Sprintf("SchedulerProfiles build on SchedulingPolicy %q: %s. livesched does not accept "+
			"them without it and keeps their last good revisions", policy, strings.Join(profiles, ", "))}
	}
}
