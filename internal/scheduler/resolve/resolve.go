// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Input is everything that Objects reads. Objects does not modify it.
type Input struct {
	Profiles []v1alpha1.SchedulerProfile
	Policies []v1alpha1.SchedulingPolicy
	// Secrets holds the existing Secrets that policies name. See SecretRefs.
	Secrets map[types.NamespacedName]Secret
	// SecretsUnknown means that Secrets cannot be read: each Secret that is named is assumed to
	// exist and to be valid. Then the field Secrets is ignored, and revisions that depend on a
	// Secret differ from those that run.
	SecretsUnknown bool
	// AllowedHosts are the hosts that extenders may be at. The zero value allows none.
	AllowedHosts AllowedHosts
	// LastGood replaces invalid specs. The zero value means that nothing has run yet.
	LastGood LastGood
	// Registered holds the names of the registered plugins.
	Registered sets.Set[string]
	// Last is an earlier resolution, with the same Registered and AllowedHosts, or nil. What it
	// found about objects of the same UID and generation is used again, so that the cost depends on
	// what has changed. It makes no difference to the result.
	Last *Resolution
}

// Resolution holds the profiles to run, and a result for every object. It keeps the input, for
// Before, and shares no other memory with it, except LastGood. It shares immutable memory with the
// last resolution.
type Resolution struct {
	// Profiles are the profiles to run, by scheduler name, including those that run their last good
	// spec.
	Profiles map[string]*Profile
	// Shadows are the profiles that shadow others, by Profile.ID. They have no last good specs.
	Shadows map[string]*Profile
	// Candidates are the present specs that are to be rolled out step by step, by scheduler name.
	// Profiles has what runs meanwhile, which is the last good spec. See Promote.
	Candidates map[string]*Profile
	// Canaries are the candidates that get a share of the pods, by Profile.ID. The caller adds
	// them, and the shadows of other candidates to Shadows: see Try.
	Canaries map[string]*Profile
	// SortedBy is the scheduler name of the profile whose queue sort orders the queue. Empty if no
	// profile is to run.
	SortedBy string
	// ProfileResults and PolicyResults have an entry for every object, by its name.
	ProfileResults map[string]Result
	PolicyResults  map[string]Result

	// remembered holds the last good specs that are kept regardless of the profiles that run.
	remembered LastGood
	// profiles are the objects. resolver resolves a last good spec on demand.
	profiles map[string]*v1alpha1.SchedulerProfile
	resolver *resolver
}

// Profile is a resolved profile, ready to be built. It is immutable.
type Profile struct {
	// Name and UID of the SchedulerProfile object.
	Name string
	UID  types.UID
	// Generation is the metadata.generation of the spec. It is older than the object's if this is
	// the last good spec.
	Generation int64
	// SchedulerName is the name by which pods choose the profile, or the profile that it follows.
	SchedulerName string
	// Shadow is what a shadow follows, nil for a profile that schedules pods.
	Shadow *Shadow
	// Canary means that the profile is tried on a share of the pods of its scheduler name.
	Canary bool
	// PolicyName is the policy that the profile builds on.
	PolicyName string
	// PolicyGeneration is the metadata.generation of the policy's spec, 0 for the built-in
	// defaults.
	PolicyGeneration int64

	// Config has the plugins of the policy's algorithm source merged with the profile's, not
	// expanded to extension points, and the arguments of all plugins, defaulted and validated, in
	// kube-scheduler's internal types.
	Config *schedconfig.KubeSchedulerProfile
	// QueueSort is the order of the queue that the profile asks for. The oldest profile decides.
	QueueSort QueueSort

	// Settings come from the policy, except that a profile may set PercentageOfNodesToScore.
	Settings

	// Revision is a hash of everything that the profile's behaviour depends on, except the order of
	// the shared queue: two profiles of one revision can share their plugin instances.
	Revision string
	// Source holds the specs that the profile was resolved from, to be remembered once it runs.
	Source GoodProfile
}

// ID identifies the profile among those that run at one time: it is the scheduler name or, for a
// shadow or a canary, derived from the object's name.
func (p *Profile) ID() string {
	switch {
	case p.Shadow != nil:
		return shadowID(p.Name)
	case p.Canary:
		return "canary/" + p.Name
	}
	return p.SchedulerName
}

// AsCanary returns the profile as it is tried on a share of the pods.
func (p *Profile) AsCanary() *Profile {
	canary := *p
	canary.Canary = true
	return &canary
}

// AsShadow returns the profile as it decides the pods of what runs for the same object.
func (p *Profile) AsShadow() *Profile {
	shadow := *p
	shadow.Shadow = &Shadow{Profile: p.Name, SamplePercent: 100}
	return &shadow
}

// shadowID returns the ID of a shadow. No scheduler name of a profile has a slash.
func shadowID(objectName string) string { return "shadow/" + objectName }

// Shadow is what a shadow profile follows. Its JSON is part of revisions.
type Shadow struct {
	// Profile is the name of the SchedulerProfile.
	Profile string `json:"profile"`
	// SamplePercent is the percentage of its decisions that the shadow compares, from 1 to 100.
	SamplePercent int32 `json:"samplePercent"`
}

// Settings are the settings of a policy apart from plugins. Their JSON is part of revisions.
type Settings struct {
	// PodInitialBackoff and PodMaxBackoff bound the wait of a pod after failed attempts.
	PodInitialBackoff time.Duration `json:"podInitialBackoff"`
	PodMaxBackoff     time.Duration `json:"podMaxBackoff"`
	// PodMaxInUnschedulablePods is how long an unschedulable pod waits for an event before it is
	// retried without one.
	PodMaxInUnschedulablePods time.Duration `json:"podMaxInUnschedulablePods"`
	// PodGroupReserveAfter is how long a group of pods that fits nowhere waits before room is kept
	// for it. 0: room is never kept.
	PodGroupReserveAfter time.Duration `json:"podGroupReserveAfter,omitempty"`
	// PercentageOfNodesToScore is the percentage after which the search for nodes ends. 0 means
	// every node.
	PercentageOfNodesToScore int32 `json:"percentageOfNodesToScore"`
	// Parallelism is the number of goroutines that evaluate nodes for one pod.
	Parallelism int32 `json:"parallelism"`
	// CheckAllFilters runs all filters on a node even after one has refused it, so that all reasons
	// are reported.
	CheckAllFilters bool `json:"checkAllFilters,omitempty"`
	// Extenders are called in this order.
	Extenders []Extender `json:"extenders,omitempty"`
}

// Result is the result for one object.
type Result struct {
	// Generation is the metadata.generation of the object.
	Generation int64
	// Accepted means that the spec is valid and does not conflict with other objects.
	Accepted bool
	// Reason and Message of the condition Accepted (v1alpha1.Reason…).
	Reason, Message string
	// Problems are problems of the spec itself, in the order in which they were found: it is not
	// accepted regardless of other objects.
	Problems []Problem
	// Obstacles are problems with other objects: a policy or a Secret that does not exist or is
	// invalid, a lost conflict. The spec is accepted if there are neither problems nor obstacles.
	Obstacles []Problem
	// Warnings are about a spec without problems that is valid but unwise. They have no effect and
	// no Reason.
	Warnings []Problem
	// KeptLastGood means that the spec is not accepted and the last good one stays in use; for a
	// policy, by the profiles that build on it.
	KeptLastGood bool
	// SchedulerName is the scheduler name of a profile, "" for a shadow.
	SchedulerName string
	// ShadowID is the Profile.ID of a shadow, "" for other objects.
	ShadowID string
	// Profiles lists the accepted profiles that build on a policy, by object name, sorted.
	Profiles []string
}

// ID returns the Profile.ID of what the object resolves to.
func (r Result) ID() string { return cmp.Or(r.ShadowID, r.SchedulerName) }

// Promote makes a candidate the profile to run under its scheduler name.
func (r *Resolution) Promote(schedulerName string) {
	r.Profiles[schedulerName] = r.Candidates[schedulerName]
	delete(r.Candidates, schedulerName)
}

// Try makes a candidate, AsShadow or AsCanary, run beside the profile with its scheduler name.
func (r *Resolution) Try(candidate *Profile) {
	if candidate.Shadow != nil {
		r.Shadows[candidate.ID()] = candidate
	} else {
		r.Canaries[candidate.ID()] = candidate
	}
}

// Tries reports whether a profile that decides pods has the revision that is to be rolled out step
// by step, so that it must not decide all of them.
func (r *Resolution) Tries(p *Profile) bool {
	candidate := r.Candidates[p.SchedulerName]
	return p.Schedules() && candidate != nil && candidate.Revision == p.Revision
}

// Schedules reports whether the profile decides the pods of its scheduler name, but for a canary's
// share.
func (p *Profile) Schedules() bool { return p.Shadow == nil && !p.Canary }

// ByID returns a profile or shadow by its Profile.ID, nil if there is none.
func (r *Resolution) ByID(id string) *Profile {
	for _, profiles := range []map[string]*Profile{r.Shadows, r.Canaries} {
		if profile := profiles[id]; profile != nil {
			return profile
		}
	}
	return r.Profiles[id]
}

// All yields all profiles, shadows and canaries by Profile.ID, in no order.
func (r *Resolution) All() iter.Seq2[string, *Profile] {
	return func(yield func(string, *Profile) bool) {
		for _, profiles := range []map[string]*Profile{r.Profiles, r.Shadows, r.Canaries} {
			for id, profile := range profiles {
				if !yield(id, profile) {
					return
				}
			}
		}
	}
}

// resolver is the state of one call of Objects.
type resolver struct {
	input Input
	// defaults is kube-scheduler's default configuration, with the default set of plugins.
	defaults *schedconfig.KubeSchedulerConfiguration
	policies map[string]*policy
	// noPolicy is the policy "default" for the case that there is no such object.
	noPolicy *policy
	// candidates holds the candidates by object name.
	candidates map[string]*candidate
	out        *Resolution
}

// policy is a resolved policy object.
type policy struct {
	// base is nil if the spec is not accepted and there is no last good one.
	base *base
	// good is the spec that base was resolved from, nil for the built-in defaults.
	good   *GoodPolicy
	result Result
	// version is the metadata.resourceVersion of the object.
	version string
}

// Objects resolves objects to the profiles to run. The order of the objects does not matter.
func Objects(in Input) *Resolution {
	r := &resolver{
		input:      in,
		policies:   map[string]*policy{},
		candidates: map[string]*candidate{},
		out: &Resolution{
			Profiles:       map[string]*Profile{},
			Shadows:        map[string]*Profile{},
			Candidates:     map[string]*Profile{},
			Canaries:       map[string]*Profile{},
			ProfileResults: map[string]Result{},
			PolicyResults:  map[string]Result{},
			remembered:     LastGood{Profiles: map[string][]GoodProfile{}, Policies: map[string][]GoodPolicy{}},
			profiles:       map[string]*v1alpha1.SchedulerProfile{},
		},
	}
	if in.Last != nil {
		r.defaults, r.noPolicy = in.Last.resolver.defaults, in.Last.resolver.noPolicy
	} else {
		r.defaults = upstreamDefaults()
		// an empty spec has no problems
		base, _ := r.resolvePolicy(DefaultPolicyName, &v1alpha1.SchedulingPolicySpec{}, nil)
		r.noPolicy = &policy{base: base}
	}
	if in.SecretsUnknown {
		r.input.Secrets = assumedSecrets(in.Policies, in.LastGood)
	}
	r.out.resolver = r

	for i := range in.Policies {
		r.resolvePolicyObject(&in.Policies[i])
	}
	for i := range in.Profiles {
		r.out.profiles[in.Profiles[i].Name] = &in.Profiles[i]
	}
	var candidates []*candidate
	for i := range in.Profiles {
		candidates = append(candidates, r.resolveProfileObject(&in.Profiles[i]))
	}
	slices.SortFunc(candidates, olderFirst)
	r.resolveConflicts(candidates)
	r.report(candidates)
	r.input.Last = nil // or no resolution could be freed
	return r.out
}

// upstreamDefaults returns kube-scheduler's default configuration.
func upstreamDefaults() *schedconfig.KubeSchedulerConfiguration {
	defaults, err := latest.Default()
	if err != nil {
		// The defaults are constants: an error is a bug in the build, and no object could be
		// resolved.
		panic(fmt.Sprintf("kube-scheduler's default configuration: %v", err))
	}
	return defaults
}

// resolvePolicyObject resolves a policy object or, if its spec is invalid, its last good one.
func (r *resolver) resolvePolicyObject(object *v1alpha1.SchedulingPolicy) {
	if last := r.lastPolicy(object); last != nil {
		r.policies[object.Name] = last
		r.out.remembered.Policies[object.Name] = []GoodPolicy{*last.good}
		return
	}
	p := &policy{version: object.ResourceVersion, result: Result{Generation: object.Generation, Accepted: true,
		Reason: v1alpha1.ReasonAccepted, Message: "The spec is valid"}}
	r.policies[object.Name] = p

	resolved, found := r.resolvePolicy(object.Name, &object.Spec, r.input.Secrets)
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
		if resolved, found := r.resolvePolicy(good.Name, &good.Spec, good.Secrets); len(found) == 0 {
			p.base, p.good, p.result.KeptLastGood = resolved, &good, true
			last[i] = good
			return
		}
		if anyUnanswered(good.Secrets) {
			return
		}
	}
}

// policyOf returns the policy that a profile builds on. It returns problems if there is no usable
// one.
func (r *resolver) policyOf(spec *v1alpha1.SchedulerProfileSpec) (*policy, problems) {
	var found problems
	name, path := policyName(spec), field.NewPath("spec", "policyRef", "name")
	p, exists := r.policies[name]
	switch {
	case !exists && name == DefaultPolicyName:
		return r.noPolicy, nil
	case !exists:
		found.add(v1alpha1.ReasonPolicyNotFound, path, "SchedulingPolicy %q does not exist", name)
	case p.base == nil:
		found.add(v1alpha1.ReasonPolicyNotAccepted, path, "SchedulingPolicy %q is not accepted (%s): %s", name,
			p.result.Reason, p.result.Message)
	}
	return p, found
}

// report completes the results of the policies.
func (r *resolver) report(candidates []*candidate) {
	for _, c := range candidates {
		if p := r.policies[policyName(&c.object.Spec)]; p != nil && r.out.ProfileResults[c.object.Name].Accepted {
			p.result.Profiles = append(p.result.Profiles, c.object.Name)
		}
	}
	for name, p := range r.policies {
		slices.Sort(p.result.Profiles)
		r.out.PolicyResults[name] = p.result
	}
}
