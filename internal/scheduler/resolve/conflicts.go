// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
)

// candidate is a profile object that may get to run.
type candidate struct {
	object *v1alpha1.SchedulerProfile
	// current is the present spec, nil if it is invalid: then problems has the reasons.
	current  *Profile
	problems problems
	// warnings are those about the spec.
	warnings problems
	// accepted is the message for an accepted spec.
	accepted string
	// policy is the one that current was resolved with.
	policy *policy
}

// olderFirst orders candidates by age, then by name, which no two share.
func olderFirst(a, b *candidate) int {
	return cmp.Or(
		a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time),
		cmp.Compare(a.object.Name, b.object.Name),
	)
}

// resolveProfileObject resolves a profile object.
func (r *resolver) resolveProfileObject(object *v1alpha1.SchedulerProfile) *candidate {
	last := slices.Clone(r.input.LastGood.Profiles[object.Name])
	if last = slices.DeleteFunc(last, func(good GoodProfile) bool { return good.UID != object.UID }); len(last) > 0 {
		r.out.remembered.Profiles[object.Name] = last
	}
	c := &candidate{object: object, accepted: "The spec is valid"}
	p, found := r.policyOf(&object.Spec)
	if len(found) == 0 {
		if last := r.lastCandidate(object, p); last != nil {
			r.candidates[object.Name] = last
			return last
		}
		c.policy = p
		c.current, found = r.resolveProfile(object.Name, &object.Spec, p.base)
	} else {
		found = append(found, r.checkWithoutPolicy(object.Name, &object.Spec)...)
	}
	c.problems = found
	if c.current == nil {
		return c
	}
	if c.current.Shadow == nil { // what a shadow follows may change
		r.candidates[object.Name] = c
	}
	c.warnings = r.profileWarnings(object.Name, &object.Spec, p.base, c.current.Config.Plugins)
	c.current.setSource(GoodProfile{UID: object.UID, Generation: object.Generation, Spec: *object.Spec.DeepCopy(),
		Policy: p.good})
	if p.result.KeptLastGood {
		c.accepted = fmt.Sprintf(
			"The spec is valid. SchedulingPolicy %q is not: its last good generation %d stays in use", p.good.Name,
			p.good.Generation)
	}
	return c
}

// lastGood returns the latest last good profile of an object that still resolves, nil if there is
// none, or if the API server has not answered yet about a Secret of a later one: pods wait rather
// than follow a spec that was replaced. Then, unanswered has the problems of that one. It modifies
// nothing.
func (r *resolver) lastGood(object *v1alpha1.SchedulerProfile) (last *Profile, unanswered problems) {
	for _, good := range r.out.remembered.Profiles[object.Name] {
		profile, found := r.resolveGood(object.Name, good)
		if profile != nil {
			return profile, nil
		}
		if good.Policy != nil && anyUnanswered(good.Policy.pinned(r.input.Secrets).Secrets) {
			return nil, found
		}
	}
	return nil, nil
}

// resolveGood resolves a last good spec. It returns problems if that does not resolve any more.
func (r *resolver) resolveGood(objectName string, good GoodProfile) (*Profile, problems) {
	policy := GoodPolicy{}
	if good.Policy != nil {
		policy = good.Policy.pinned(r.input.Secrets)
		good.Policy = &policy
	}
	b, found := r.resolvePolicy(policy.Name, &policy.Spec, policy.Secrets)
	if len(found) > 0 {
		return nil, found
	}
	profile, found := r.resolveProfile(objectName, &good.Spec, b)
	if len(found) > 0 {
		return nil, found
	}
	profile.setSource(good)
	return profile, nil
}

// setSource records the specs that a profile was resolved from.
func (p *Profile) setSource(source GoodProfile) {
	p.UID, p.Generation, p.Source = source.UID, source.Generation, source
	if source.Policy != nil {
		p.PolicyGeneration = source.Policy.Generation
	}
}

// winners holds the profiles that run so far, while candidates are added from the oldest to the
// youngest.
//
//   - The first profile sorts the queue. A younger profile whose present spec asks for another
//     order is not accepted; its last good spec stays in use, even if that asks for another order,
//     too: its plugins do not depend on the order.
//   - A profile that runs takes its scheduler name. A younger profile of that name is not accepted
//     and does not run at all.
//   - An invalid profile runs its last good spec, at the rank of the object's age. One without a
//     last good spec takes nothing. One whose last good spec may still resolve, once the API server
//     has answered about a Secret, takes its scheduler name.
type winners struct {
	sorter  *Profile
	holders map[string]*Profile
	// awaited holds the names of the objects that take a scheduler name before they run.
	awaited map[string]string
}

func (r *resolver) resolveConflicts(candidates []*candidate) {
	s := &winners{holders: r.out.Profiles, awaited: map[string]string{}}
	for _, c := range candidates {
		if isShadow(&c.object.Spec) {
			r.resolveShadow(c)
			continue
		}
		result := Result{
			Generation: c.object.Generation, SchedulerName: SchedulerName(c.object),
			Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: withWarnings(c.accepted, c.warnings),
			Warnings: c.warnings,
		}
		running, conflict := s.present(c)
		var stable *Profile
		if running != nil {
			if stable, conflict = r.tried(c, running); len(conflict) > 0 {
				running = nil
			}
		}
		if objections := append(c.problems, conflict...); len(objections) > 0 {
			result.Accepted, result.Reason, result.Message = false, objections[0].Reason, objections.message()
			result.Problems, result.Obstacles = objections.divide()
		}
		if stable != nil && running != nil {
			r.out.Candidates[running.SchedulerName] = running
			running = stable
		}
		if running == nil {
			last, unanswered := r.lastGood(c.object)
			if last != nil && s.isFree(last.SchedulerName) {
				running, result.KeptLastGood = last, true
			} else if len(unanswered) > 0 && s.isFree(result.SchedulerName) {
				s.awaited[result.SchedulerName] = c.object.Name
			}
		}
		if running != nil {
			s.holders[running.SchedulerName] = running
			s.sorter = cmp.Or(s.sorter, running)
		}
		r.out.ProfileResults[c.object.Name] = result
	}
	if s.sorter != nil {
		r.out.SortedBy = s.sorter.SchedulerName
	}
}

// isFree reports whether no profile has taken a scheduler name.
func (w *winners) isFree(name string) bool { return w.holders[name] == nil && w.awaited[name] == "" }

// present returns the present spec of a candidate if it can run, and otherwise the conflict that it
// lost, if any.
func (w *winners) present(c *candidate) (*Profile, problems) {
	if c.current == nil {
		return nil, nil
	}
	var conflict problems
	if name := c.current.SchedulerName; !w.isFree(name) {
		older := w.awaited[name]
		if holder := w.holders[name]; holder != nil {
			older = holder.Name
		}
		conflict.add(v1alpha1.ReasonSchedulerNameConflict, schedulerNamePath(&c.object.Spec),
			"the older SchedulerProfile %q has the scheduler name %q", older, name)
		return nil, conflict
	}
	if w.sorter != nil && w.sorter.QueueSort != c.current.QueueSort {
		conflict.add(v1alpha1.ReasonQueueSortConflict,
			queueSortPath(&c.object.Spec, c.current.QueueSort.Name, w.sorter.QueueSort.Name),
			"all profiles share one queue: it is sorted by %s, as requested by the older SchedulerProfile %q, and "+
				"cannot be sorted by %s",
			w.sorter.QueueSort, w.sorter.Name, c.current.QueueSort)
		return nil, conflict
	}
	return c.current, nil
}

// queueSortPath returns the field that makes a profile's queue sort differ from the winner's.
func queueSortPath(spec *v1alpha1.SchedulerProfileSpec, plugin, winners string) *field.Path {
	path := field.NewPath("spec")
	for i, config := range spec.PluginConfig {
		if config.Name == plugin && plugin == winners {
			return path.Child("pluginConfig").Index(i).Child("args")
		}
	}
	if spec.Plugins != nil && len(spec.Plugins.QueueSort.Enabled) > 0 {
		return path.Child("plugins", "queueSort")
	}
	return path.Child("policyRef", "name")
}
