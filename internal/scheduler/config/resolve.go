// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Input is all that Resolve looks at. It is not changed.
type Input struct {
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	// Secrets that the policies name, those that exist. See SecretRefs.
	Secrets map[types.NamespacedName]Secret
	// SecretsUnknown: Secrets cannot be looked at, and each that is named is taken to exist and to
	// be right. Then Secrets are not looked at, and revisions that depend on one are not those that
	// run.
	SecretsUnknown bool
	// LastGood stands in for what is invalid. The zero value is that nothing has run.
	LastGood LastGood
	// Registered are the names of the plugins that there are factories for.
	Registered sets.Set[string]
}

// Resolution is what is to run, and a result for every object. It holds on to the input, for
// Before, and shares no memory with it otherwise, apart from LastGood.
type Resolution struct {
	// Profiles to run, by scheduler name, those that are kept on their last good spec included.
	Profiles map[string]*Profile
	// SortedBy is the scheduler name of the profile whose queue sort orders the queue. Empty if no
	// profile is to run.
	SortedBy string
	// ProfileResults and PolicyResults have an entry for every object, by its name.
	ProfileResults map[string]Result
	PolicyResults  map[string]Result

	// remembered is what stays last good whatever runs.
	remembered LastGood
	// profiles are the objects, and resolver resolves a last good spec when it is asked for.
	profiles map[string]*v1alpha1.SchedulerProfile
	resolver *resolver
}

// Profile is a profile to run. It is read-only.
type Profile struct {
	// Name and UID of the SchedulerProfile object.
	Name string
	UID  types.UID
	// Generation of the spec that this is; older than that of the object if it is the last good
	// one.
	Generation int64
	// SchedulerName is the name by which pods choose the profile.
	SchedulerName string
	// PolicyName is the policy that the profile builds on.
	PolicyName string
	// PolicyGeneration is the generation of the policy's spec, 0 where the built-in defaults stand
	// in for it.
	PolicyGeneration int64

	// Config has the plugins of the policy's algorithm source merged with the profile's, not
	// expanded to extension points, and the arguments of all plugins, defaulted and validated, in
	// kube-scheduler's internal types.
	Config *schedconfig.KubeSchedulerProfile
	// QueueSort is how the profile wants the queue to be ordered. The oldest profile has its way.
	QueueSort QueueSort

	// PodInitialBackoff and PodMaxBackoff bound the wait of a pod after failed attempts.
	PodInitialBackoff, PodMaxBackoff time.Duration
	// PodMaxInUnschedulablePods is how long an unschedulable pod waits for an event before it is
	// tried again anyhow.
	PodMaxInUnschedulablePods time.Duration
	// PercentageOfNodesToScore is the profile's or, where that is unset, the policy's. 0 is every
	// node.
	PercentageOfNodesToScore int32
	// Parallelism is the number of goroutines that look at nodes for one pod.
	Parallelism int32
	// CheckAllFilters has all filters look at a node, after one has refused it too, so that all
	// reasons are reported.
	CheckAllFilters bool
	// Extenders are asked in this order.
	Extenders []Extender

	// Revision is a hash of all that the profile's behaviour depends on, except that of the one
	// queue that all share: two profiles of one revision can share their plugin instances.
	Revision string
	// Source are the specs that this was resolved from, to be remembered once it runs.
	Source GoodProfile
}

// Result is what became of one object.
type Result struct {
	// Generation of the object that was looked at.
	Generation int64
	// Accepted: the spec is valid and agrees with the other objects.
	Accepted bool
	// Reason and Message of the condition Accepted (v1alpha1.Reason…).
	Reason, Message string
	// Problems in the spec itself, in the order in which they were found: it cannot be accepted
	// whatever the other objects are.
	Problems []Problem
	// Obstacles are what keeps the spec from being accepted beside the objects that there are: a
	// policy or a Secret that does not exist or is not right, a conflict that was lost. It is
	// accepted if there are neither problems nor obstacles.
	Obstacles []Problem
	// Warnings are what is legal but unwise in a spec without problems. They change nothing, and
	// have no Reason.
	Warnings []Problem
	// KeptLastGood: the spec is not accepted and the last good one goes on. Of a policy: it stands
	// in for the profiles that build on it.
	KeptLastGood bool
	// SchedulerName of a profile.
	SchedulerName string
	// Profiles that build on a policy and are accepted, by object name, sorted.
	Profiles []string
}

// resolver carries what one Resolve works with.
type resolver struct {
	input           Input
	registered      sets.Set[string]
	registeredNames string
	// defaults is kube-scheduler's default configuration, with the default set of plugins.
	defaults *schedconfig.KubeSchedulerConfiguration
	policies map[string]*policy
	out      *Resolution
}

// policy is a policy object once it was looked at.
type policy struct {
	// base is nil if the spec is not accepted and there is no last good one.
	base *base
	// good is the spec that base was resolved from. nil: the built-in defaults.
	good   *GoodPolicy
	result Result
}

// Resolve turns objects into what is to run. The order of the objects does not matter.
func Resolve(in Input) *Resolution {
	r := &resolver{
		input:           in,
		registered:      in.Registered,
		registeredNames: strings.Join(sets.List(in.Registered), ", "),
		policies:        map[string]*policy{},
		out: &Resolution{
			Profiles:       map[string]*Profile{},
			ProfileResults: map[string]Result{},
			PolicyResults:  map[string]Result{},
			remembered:     LastGood{Profiles: map[string][]GoodProfile{}, Policies: map[string][]GoodPolicy{}},
			profiles:       map[string]*v1alpha1.SchedulerProfile{},
		},
	}
	defaults, err := latest.Default()
	if err != nil {
		// It is made of constants: an error is one in the build, and no object could be resolved.
		panic(fmt.Sprintf("kube-scheduler's default configuration: %v", err))
	}
	r.defaults = defaults
	if in.SecretsUnknown {
		r.input.Secrets = assumedSecrets(in.Policies, in.LastGood)
	}
	r.out.resolver = r

	for i := range in.Policies {
		r.lookAtPolicy(&in.Policies[i])
	}
	var candidates []*candidate
	for i := range in.Profiles {
		candidates = append(candidates, r.lookAtProfile(&in.Profiles[i]))
	}
	slices.SortFunc(candidates, olderFirst)
	r.settle(candidates)
	r.report(candidates)
	return r.out
}

// lookAtPolicy resolves a policy object, or its last good spec in its place.
func (r *resolver) lookAtPolicy(object *v1alpha1.SchedulingPolicy) {
	p := &policy{result: Result{Generation: object.Generation, Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: "The spec is valid"}}
	r.policies[object.Name] = p

	resolved, found := r.resolvePolicy(&object.Spec, r.input.Secrets)
	if own, _ := found.divide(); len(own) == 0 {
		p.result.Warnings = policyWarnings(&object.Spec)
	}
	if len(found) == 0 {
		p.result.Message = withWarnings(p.result.Message, p.result.Warnings)
		p.base = resolved
		p.good = &GoodPolicy{
			Name: object.Name, UID: object.UID, Generation: object.Generation, Spec: *object.Spec.DeepCopy(),
			Secrets: secretsOf(&object.Spec, r.input.Secrets),
		}
		r.out.remembered.Policies[object.Name] = []GoodPolicy{*p.good}
		return
	}
	p.result.Accepted, p.result.Reason, p.result.Message = false, found[0].Reason, found.message()
	p.result.Problems, p.result.Obstacles = found.divide()

	last := slices.Clone(r.input.LastGood.Policies[object.Name])
	last = slices.DeleteFunc(last, func(good GoodPolicy) bool { return good.UID != object.UID })
	if len(last) == 0 {
		return
	}
	r.out.remembered.Policies[object.Name] = last
	for i := range last {
		good := last[i].pinned(r.input.Secrets)
		if resolved, found := r.resolvePolicy(&good.Spec, good.Secrets); len(found) == 0 {
			p.base, p.good, p.result.KeptLastGood = resolved, &good, true
			last[i] = good
			return
		}
	}
}

// policyOf finds the policy that a profile builds on. There is none without a base; found then says
// why.
func (r *resolver) policyOf(spec *v1alpha1.SchedulerProfileSpec) (*policy, problems) {
	var found problems
	name, path := policyName(spec), field.NewPath("spec", "policyRef", "name")
	p, exists := r.policies[name]
	switch {
	case !exists && name == DefaultPolicyName:
		return r.builtIn(), nil
	case !exists:
		found.add(v1alpha1.ReasonPolicyNotFound, path, "SchedulingPolicy %q does not exist", name)
	case p.base == nil:
		found.add(v1alpha1.ReasonPolicyNotAccepted, path, "SchedulingPolicy %q is not accepted (%s): %s", name, p.result.Reason, p.result.Message)
	}
	return p, found
}

// builtIn is the policy "default" while there is no such object.
func (r *resolver) builtIn() *policy {
	resolved, _ := r.resolvePolicy(&v1alpha1.SchedulingPolicySpec{}, nil) // an empty spec has no problems
	return &policy{base: resolved}
}

// report completes the results of the policies.
func (r *resolver) report(candidates []*candidate) {
	for name, p := range r.policies {
		for _, c := range candidates {
			if policyName(&c.object.Spec) == name && r.out.ProfileResults[c.object.Name].Accepted {
				p.result.Profiles = append(p.result.Profiles, c.object.Name)
			}
		}
		slices.Sort(p.result.Profiles)
		r.out.PolicyResults[name] = p.result
	}
}
