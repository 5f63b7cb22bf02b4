// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

func profile(name string, hours int, spec v1alpha1.SchedulerProfileSpec) *v1alpha1.SchedulerProfile {
	return &v1alpha1.SchedulerProfile{ObjectMeta: meta(name, hours), Spec: spec}
}

func policy(name string, hours int, spec v1alpha1.SchedulingPolicySpec) *v1alpha1.SchedulingPolicy {
	return &v1alpha1.SchedulingPolicy{ObjectMeta: meta(name, hours), Spec: spec}
}

func buildsOn(policy string) v1alpha1.SchedulerProfileSpec {
	return v1alpha1.SchedulerProfileSpec{PolicyRef: v1alpha1.PolicyReference{Name: policy}}
}

// broken has two problems of different kinds.
func broken() v1alpha1.SchedulerProfileSpec {
	return v1alpha1.SchedulerProfileSpec{
		Plugins: &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "NoSuchPlugin"}}}},
		PluginConfig: []v1alpha1.PluginConfig{
			{Name: "NodeResourcesFit",
				Args: runtime.RawExtension{Raw: []byte(`{"scoringStrategy":{"type":"Wrong"}}`)}}},
	}
}

// noBind disables all bind plugins.
func noBind() v1alpha1.SchedulerProfileSpec {
	return v1alpha1.SchedulerProfileSpec{
		Plugins: &v1alpha1.Plugins{Bind: v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: "*"}}}}}
}

func brokenPolicy() v1alpha1.SchedulingPolicySpec {
	return v1alpha1.SchedulingPolicySpec{Parallelism: ptr.To[int32](0), PercentageOfNodesToScore: ptr.To[int32](101)}
}

func withSecret() v1alpha1.SchedulingPolicySpec {
	return v1alpha1.SchedulingPolicySpec{Extenders: []v1alpha1.Extender{{
		URLPrefix: "https://gpu.example.svc", FilterVerb: "f",
		TLSConfig: &v1alpha1.ExtenderTLSConfig{SecretRef: &v1alpha1.SecretReference{Namespace: "n", Name: "s"}},
	}}}
}

// metaOnly changes only the metadata.
func metaOnly(p *v1alpha1.SchedulerProfile) *v1alpha1.SchedulerProfile {
	p.Labels = map[string]string{"changed": "yes"}
	p.Finalizers = []string{"example.com/keep"}
	return p
}

func parallel(goroutines int32) v1alpha1.SchedulingPolicySpec {
	return v1alpha1.SchedulingPolicySpec{Parallelism: &goroutines}
}

// many returns profiles that build on the policy "q".
func many(count int) (profiles []v1alpha1.SchedulerProfile) {
	for i := range count {
		profiles = append(profiles, *profile(fmt.Sprintf("p%d", i), 1, buildsOn("q")))
	}
	return profiles
}

func TestReviews(t *testing.T) {
	deleted := metav1.NewTime(now)
	leaving := profile("p", 1, broken())
	leaving.DeletionTimestamp = &deleted
	for _, test := range []struct {
		name          string
		present       objects
		before, after client.Object
		// denied are parts of the causes, as field: message. Without any, the change is allowed.
		denied []string
		// warned are parts of the warnings.
		warned []string
	}{
		{name: "a profile of defaults", after: profile("p", 0, v1alpha1.SchedulerProfileSpec{})},
		{name: "a broken profile", after: profile("p", 0, broken()), denied: []string{
			`spec.plugins.score.enabled[0].name: Unsupported value: unknown plugin "NoSuchPlugin"`,
			`spec.pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Wrong": supported values: ` +
				`"LeastAllocated"`,
		}},
		{name: "a profile without a bind plugin", after: profile("p", 0, noBind()),
			denied: []string{`spec.plugins.bind: Invalid value: no plugin binds pods`}},
		{name: "an update that breaks a profile", before: profile("p", 1, v1alpha1.SchedulerProfileSpec{}),
			after: profile("p", 1, broken()), denied: []string{"NoSuchPlugin", "scoringStrategy.type"}},
		{name: "an update that mends a profile", before: profile("p", 1, broken()),
			after: profile("p", 1, v1alpha1.SchedulerProfileSpec{})},
		{name: "a label and a finalizer on a broken profile", before: profile("p", 1, broken()),
			after: metaOnly(profile("p", 1, broken()))},
		{name: "a broken profile that is being deleted", before: profile("p", 1, v1alpha1.SchedulerProfileSpec{}),
			after: leaving},
		{name: "deleting a broken profile", before: profile("p", 1, broken())},
		{name: "a profile before its policy", after: profile("p", 0, buildsOn("q")),
			warned: []string{`spec.policyRef.name: SchedulingPolicy "q" does not exist`}},
		{name: "a broken profile before its policy", after: profile("p", 0, func() v1alpha1.SchedulerProfileSpec {
			spec := broken()
			spec.PolicyRef.Name = "q"
			return spec
		}()), denied: []string{"NoSuchPlugin", "scoringStrategy.type"}},
		{name: "a profile on a broken policy",
			present: objects{policies: []v1alpha1.SchedulingPolicy{*policy("q", 1, brokenPolicy())}},
			after:   profile("p", 0, buildsOn("q")), warned: []string{`SchedulingPolicy "q" is not accepted`}},
		{name: "a scheduler name of an older profile",
			present: objects{profiles: []v1alpha1.SchedulerProfile{
				*profile("older", 1, v1alpha1.SchedulerProfileSpec{SchedulerName: "p"})}},
			after:  profile("p", 0, v1alpha1.SchedulerProfileSpec{}),
			warned: []string{`metadata.name: the older SchedulerProfile "older" has the scheduler name "p"`}},
		{name: "an object without a creation time is the youngest",
			present: objects{profiles: []v1alpha1.SchedulerProfile{
				*profile("older", 1, v1alpha1.SchedulerProfileSpec{SchedulerName: "p"})}},
			after:  &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
			warned: []string{`the older SchedulerProfile "older" has the scheduler name`}},
		{name: "an inadvisable setting",
			after:  profile("p", 0, v1alpha1.SchedulerProfileSpec{PercentageOfNodesToScore: ptr.To[int32](1)}),
			warned: []string{"spec.percentageOfNodesToScore: the search for nodes ends at 1%"}},
		{name: "a changed object replaces the one in the cache",
			present: objects{profiles: []v1alpha1.SchedulerProfile{*profile("p", 1, broken())}},
			before:  profile("p", 1, broken()), after: profile("p", 1, v1alpha1.SchedulerProfileSpec{})},

		{name: "a broken policy", after: policy("q", 0, brokenPolicy()), denied: []string{
			"spec.percentageOfNodesToScore: Invalid value: must be from 0 to 100, is 101",
			"spec.parallelism: Invalid value: must be 1 or more, is 0",
		}},
		{name: "an update that breaks a policy", before: policy("q", 1, v1alpha1.SchedulingPolicySpec{}),
			after: policy("q", 1, brokenPolicy()), denied: []string{"percentageOfNodesToScore", "parallelism"}},
		{name: "a policy whose Secret may exist", after: policy("q", 0, withSecret())},
		{name: "an update that does not change a broken policy", before: policy("q", 1, brokenPolicy()),
			after: policy("q", 1, brokenPolicy())},
		{name: "an update of a policy that breaks a profile",
			present: objects{
				profiles: []v1alpha1.SchedulerProfile{
					*profile("p", 1,
						v1alpha1.SchedulerProfileSpec{
							Plugins: &v1alpha1.Plugins{
								QueueSort: v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: "PrioritySort"}}}},
							PolicyRef: v1alpha1.PolicyReference{Name: "q"}})},
				policies: []v1alpha1.SchedulingPolicy{
					*policy("q", 1,
						v1alpha1.SchedulingPolicySpec{QueueSort: &v1alpha1.QueueSort{Name: "PrioritySort"}})},
			},
			before: policy("q", 1, v1alpha1.SchedulingPolicySpec{QueueSort: &v1alpha1.QueueSort{Name: "PrioritySort"}}),
			after:  policy("q", 1, v1alpha1.SchedulingPolicySpec{}),
			warned: []string{
				`SchedulerProfile "p" is no longer accepted with this change: spec.plugins.queueSort.enabled`}},
		{name: "a policy that makes a profile valid",
			present: objects{profiles: []v1alpha1.SchedulerProfile{*profile("p", 1, buildsOn("q"))}},
			after:   policy("q", 0, v1alpha1.SchedulingPolicySpec{})},
		{name: "a new default policy, which profiles without a policyRef build on",
			present: objects{profiles: []v1alpha1.SchedulerProfile{
				*profile("b", 1, v1alpha1.SchedulerProfileSpec{}), *profile("a", 2, v1alpha1.SchedulerProfileSpec{}),
				*profile("c", 3, buildsOn("q")),
			}},
			after: policy("default", 0, parallel(4)),
			warned: []string{
				`this change of SchedulingPolicy "default" changes the SchedulerProfiles that build on it: a, b`}},
		{name: "a new default policy that makes no difference",
			present: objects{profiles: []v1alpha1.SchedulerProfile{*profile("a", 1, v1alpha1.SchedulerProfileSpec{})}},
			after:   policy("default", 0, v1alpha1.SchedulingPolicySpec{RevisionHistoryLimit: ptr.To[int32](3)})},
		{name: "an update of a policy that many profiles build on",
			present: objects{profiles: many(10),
				policies: []v1alpha1.SchedulingPolicy{*policy("q", 1, v1alpha1.SchedulingPolicySpec{})}},
			before: policy("q", 1, v1alpha1.SchedulingPolicySpec{}), after: policy("q", 1, parallel(4)),
			warned: []string{"build on it: p0, p1, p2, p3, p4, p5, p6, p7 and 2 more"}},
		{name: "deleting an unused policy",
			present: objects{policies: []v1alpha1.SchedulingPolicy{*policy("q", 1, v1alpha1.SchedulingPolicySpec{})}},
			before:  policy("q", 1, v1alpha1.SchedulingPolicySpec{})},
		{name: "deleting a policy that profiles build on",
			present: objects{
				profiles: []v1alpha1.SchedulerProfile{*profile("b", 1, buildsOn("q")), *profile("a", 2, buildsOn("q")),
					*profile("c", 3, buildsOn("other"))},
				policies: []v1alpha1.SchedulingPolicy{*policy("q", 1, v1alpha1.SchedulingPolicySpec{})},
			},
			before: policy("q", 1, v1alpha1.SchedulingPolicySpec{}),
			warned: []string{
				`SchedulerProfiles build on SchedulingPolicy "q": a, b. livesched does not accept them without it`}},
		{name: "deleting the default policy",
			present: objects{
				profiles: []v1alpha1.SchedulerProfile{*profile("a", 1, v1alpha1.SchedulerProfileSpec{})},
				policies: []v1alpha1.SchedulingPolicy{*policy("default", 1, v1alpha1.SchedulingPolicySpec{})},
			},
			before: policy("default", 1, v1alpha1.SchedulingPolicySpec{}),
			warned: []string{`fall back to the built-in defaults: a`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, code := post(t, newValidator(t, &test.present), change(t, test.before, test.after))
			if response == nil {
				t.Fatalf("no verdict: HTTP %d", code)
			}
			if response.UID != "the-request" || response.Allowed != (len(test.denied) == 0) {
				t.Errorf("allowed %v, UID %q", response.Allowed, response.UID)
			}
			if !slices.EqualFunc(response.Warnings, test.warned, strings.Contains) {
				t.Errorf("warnings %q, want %q", response.Warnings, test.warned)
			}
			var causes []string
			if response.Result != nil && response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					causes = append(causes, cause.Field+": "+cause.Message)
				}
			}
			if !slices.EqualFunc(causes, test.denied, strings.Contains) {
				t.Errorf("causes %q, want %q", causes, test.denied)
			}
			if len(test.denied) > 0 &&
				(response.Result.Code != http.StatusUnprocessableEntity ||
					response.Result.Reason != metav1.StatusReasonInvalid ||
					!strings.Contains(response.Result.Message, test.denied[0]) ||
					response.Result.Details.Group != "livesched.io") {
				t.Errorf("status %+v", response.Result)
			}
		})
	}
}

func TestTheCallFailsWithoutAVerdict(t *testing.T) {
	one := func(t *testing.T) *objects { t.Helper(); return &objects{} }
	for _, test := range []struct {
		name    string
		present *objects
		code    int
		body    string
	}{
		{"what is no JSON", one(t), http.StatusBadRequest, `{`},
		{"what is no review", one(t), http.StatusInternalServerError, `{"kind":"Pod","apiVersion":"v1"}`},
		{"an empty body", one(t), http.StatusInternalServerError, ``},
		{"no request", one(t), http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`},
		{"another kind", one(t), http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"Pod"},"operation":"CREATE","object":{}}}`},
		{"another operation", one(t), http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"SchedulerProfile"},"operation":"CONNECT"}}`},
		{"an object that cannot be read", one(t), http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"spec":{"plugins":7}}}}`},
		{"objects that cannot be listed", &objects{err: errors.New("no")}, http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"metadata":{"name":"p"}}}}`},
		{"a cache that is not filled in time", &objects{hang: true}, http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"metadata":{"name":"p"}}}}`},
		{"a panic", nil, http.StatusInternalServerError,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"metadata":{"name":"p"}}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if response, code := postBody(t, newValidator(t, test.present), []byte(test.body)); response != nil ||
					code != test.code {
					t.Errorf("HTTP %d, want %d; %+v", code, test.code, response)
				}
				if took := time.Since(start); test.present != nil && test.present.hang &&
					(took < time.Second || took >= 5*time.Second) {
					t.Errorf("gave up after %v: the API server waits 5s", took)
				}
			})
		})
	}
}
