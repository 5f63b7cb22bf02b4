// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// report holds what a pass leaves to be written: what runs, and why nothing else does. Immutable.
type report struct {
	state
	// profiles and policies hold all objects, as the pass has seen them.
	profiles map[types.UID]*v1alpha1.SchedulerProfile
	policies map[types.UID]*v1alpha1.SchedulingPolicy
	// good holds the last accepted specs of the policies, by name, the latest first.
	good map[string][]resolve.GoodPolicy
	// replaced holds the profiles, by resolve.Profile.ID, whose present spec could not be built at
	// the last attempt, so that an older one runs.
	replaced map[string]bool
	// waiting holds the profiles, by resolve.Profile.ID, that are built in one of the next passes,
	// or held back until then. Their statuses and the statuses of their policies are written then.
	waiting map[string]bool
	// unreadable is the error of the last attempt to read the stored revisions, nil if they were
	// read.
	unreadable error
	// settled: see ProfileReconciler.Settled.
	settled bool
}

// report returns the report of a pass after its swap.
func (r *ProfileReconciler) report(p *pass) *report {
	next := &report{
		state: state{
			resolution: p.resolution, running: p.running, failed: p.plan.failed, pending: p.plan.pending,
			reserved: p.plan.reserved, kubeScheduler: p.kubeScheduler.Holder, counted: r.reporter.counted,
			rollouts: p.rollouts, awaitsRevisions: r.memory.isBlind(),
		},
		profiles:   make(map[types.UID]*v1alpha1.SchedulerProfile, len(p.objects.profiles)),
		policies:   make(map[types.UID]*v1alpha1.SchedulingPolicy, len(p.objects.policies)),
		good:       r.last.good.Policies,
		replaced:   map[string]bool{},
		waiting:    map[string]bool{},
		unreadable: r.memory.failed,
		settled:    r.Settled(),
	}
	for i := range p.objects.profiles {
		next.profiles[p.objects.profiles[i].UID] = &p.objects.profiles[i]
	}
	for i := range p.objects.policies {
		next.policies[p.objects.policies[i].UID] = &p.objects.policies[i]
	}
	for name, outcome := range p.builds.wanted {
		if outcome.Failed {
			next.replaced[name] = true
		}
		if outcome.Waiting {
			next.waiting[name] = true
		}
	}
	if p.plan.unclear != "" {
		next.waiting[p.plan.unclear] = true
	}
	return next
}

// has reports whether the object exists.
func (r *report) has(uid types.UID) bool { return r.profiles[uid] != nil || r.policies[uid] != nil }

// waits reports whether the profile of an object is built in one of the next passes.
func (r *report) waits(object *v1alpha1.SchedulerProfile) bool {
	_, reason := r.pendingOf(object)
	return reason != "" && r.waiting[r.resolution.ProfileResults[object.Name].ID()]
}

// waitsIn reports whether a profile that is to run with a policy is built in one of the next
// passes, also if that is a last good spec.
func (r *report) waitsIn(object *v1alpha1.SchedulingPolicy) bool {
	for name := range r.waiting {
		if cfg := r.resolution.ByID(name); cfg != nil && cfg.PolicyName == object.Name {
			return true
		}
	}
	return slices.ContainsFunc(r.resolution.PolicyResults[object.Name].Profiles, func(name string) bool {
		return r.waiting[r.resolution.ProfileResults[name].ID()]
	})
}

// goodPolicy returns the last accepted spec of a policy, nil if there is none.
func (r *report) goodPolicy(object *v1alpha1.SchedulingPolicy) *resolve.GoodPolicy {
	if good := r.good[object.Name]; len(good) > 0 {
		return &good[0]
	}
	return nil
}

// outlook holds everything that the report of one object depends on, except the present time: equal
// outlooks have the same revision and status.
type outlook struct {
	resourceVersion   string
	accepted, kept    bool
	reason, message   string
	schedulerName     string
	profiles, older   string // that build on a policy
	runs              identity
	failure, pending  string
	pendingGeneration int64
	replaced, waits   bool
	goodGeneration    int64
	unreadable        string
	settled           bool
	missing           string // the part of the condition about kinds that are not served
	kubeScheduler     string // the part of the condition about a running kube-scheduler
	follows           string // the part of the condition about what a shadow follows
	rollout           string // status.rollout, or the profiles in which a policy is rolled out
	reserved          string // why another scheduler's name keeps profiles from running
}

// identity identifies a running profile and the policy that it was built on.
type identity struct {
	uid, policyUID               types.UID
	generation, policyGeneration int64
	revision, policyName         string
}

func (r *report) profileOutlook(object *v1alpha1.SchedulerProfile) outlook {
	o := r.outlook(object.ResourceVersion, r.resolution.ProfileResults[object.Name])
	id := r.resolution.ProfileResults[object.Name].ID()
	if running := r.running[id]; running != nil {
		cfg := running.config
		o.missing = running.missing
		o.runs = identity{
			uid: cfg.UID, generation: cfg.Generation, revision: cfg.Revision, policyName: cfg.PolicyName,
			policyGeneration: cfg.PolicyGeneration,
		}
		if good := cfg.Source.Policy; good != nil {
			o.runs.policyUID = good.UID
		}
	}
	if err := r.failureOf(object); err != nil {
		o.failure = err.Error()
	}
	o.pendingGeneration, o.pending = r.pendingOf(object)
	o.kubeScheduler = besideKubeScheduler(o.schedulerName, r.kubeScheduler)
	if r.isReserved(object) {
		o.reserved = r.nameInUse()
	}
	o.replaced, o.waits = r.replaced[id], r.waits(object)
	o.follows = r.follows(object)
	if status := r.rolloutStatus(object); status != nil {
		text, _ := json.Marshal(status) // it consists of numbers and strings
		o.rollout = string(text)
	}
	return o
}

func (r *report) policyOutlook(object *v1alpha1.SchedulingPolicy) outlook {
	o := r.outlook(object.ResourceVersion, r.resolution.PolicyResults[object.Name])
	users := r.usersOf(object)
	o.profiles, o.older = strings.Join(users.current, "\n"), strings.Join(users.older, "\n")
	o.failure, o.pending = strings.Join(r.failedIn(object), "\n"), strings.Join(r.pendingIn(object), "\n")
	o.waits, o.reserved = r.waitsIn(object), strings.Join(r.reservedIn(object), "\n")
	tried, aborted := r.triedIn(object)
	o.rollout = strings.Join(tried, "\n") + "|" + strings.Join(aborted, "\n")
	if good := r.goodPolicy(object); good != nil {
		o.goodGeneration = good.Generation
	}
	return o
}

// outlook returns the part of an outlook that profiles and policies share.
func (r *report) outlook(resourceVersion string, result resolve.Result) outlook {
	o := outlook{
		resourceVersion: resourceVersion,
		accepted:        result.Accepted, kept: result.KeptLastGood, reason: result.Reason, message: result.Message,
		schedulerName: result.SchedulerName,
		settled:       r.settled,
	}
	if r.unreadable != nil {
		o.unreadable = r.unreadable.Error()
	}
	return o
}
