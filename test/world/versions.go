// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// versions are the specs that profiles and policies had, and what was active when.
type versions struct {
	profiles map[string][]version[v1alpha1.SchedulerProfile]
	policies map[string][]version[v1alpha1.SchedulingPolicy]
	// active are the revisions that profiles have, by UID.
	active map[types.UID]activeRevision
}

// version is an object with a spec, nil for none.
type version[T any] struct {
	object *T
	// until is when the next version came, zero for the present one.
	until time.Time
}

// activeRevision is the revision of a profile that its status says is active, and since when.
type activeRevision struct {
	revision string
	since    time.Time
}

func newVersions() *versions {
	return &versions{profiles: map[string][]version[v1alpha1.SchedulerProfile]{},
		policies: map[string][]version[v1alpha1.SchedulingPolicy]{}, active: map[types.UID]activeRevision{}}
}

// noteVersion adds a version of an object unless its spec is the same as before.
func noteVersion[T any](of map[string][]version[T], name string, before, after *unstructured.Unstructured) error {
	if before != nil && after != nil && before.GetUID() == after.GetUID() &&
		before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	if n := len(of[name]); n > 0 {
		of[name][n-1].until = time.Now()
	}
	if after == nil {
		of[name] = append(of[name], version[T]{})
		return nil
	}
	object, err := typed[T](after)
	of[name] = append(of[name], version[T]{object: object})
	return err
}

func typed[T any](object *unstructured.Unstructured) (*T, error) {
	into := new(T)
	return into, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// checkActive checks, when another revision of a profile becomes active, that a spec has it which
// the profile had while the former one was active: none from before that.
func (w *World) checkActive(profile *v1alpha1.SchedulerProfile) {
	if profile.Status.Active == nil || profile.Name == shadowName {
		return
	}
	versions := w.cluster.versions
	was, is := versions.active[profile.UID], profile.Status.Active.Revision
	if was.revision == is {
		return
	}
	versions.active[profile.UID] = activeRevision{is, time.Now()}
	if was.revision == "" {
		return
	}
	since := was.since.Add(-lateness)
	if time.Since(w.restored) < lateness { // what was active then may be active again
		since = time.Time{}
	}
	w.counts["changes of what is active"]++
	if !versions.resolve(profile, is, since) {
		w.fail("profile %s runs revision %s, and had it no more when revision %s became active", profile.Name, is,
			was.revision)
	}
}

// resolve reports whether a revision is that of a spec that a profile has had since then.
func (v *versions) resolve(profile *v1alpha1.SchedulerProfile, revision string, since time.Time) bool {
	for _, of := range slices.Backward(v.profiles[profile.Name]) { // nearly always, it is one of the last
		if of.object == nil || of.object.UID != profile.UID || !of.until.IsZero() && of.until.Before(since) {
			continue
		}
		// Whether there is a policy, and what it says, may be known earlier or later than the
		// profile. A policy that is not accepted leaves the last good one.
		if revisionOf(of.object, nil) == revision {
			return true
		}
		for _, with := range slices.Backward(v.policies[cmp.Or(of.object.Spec.PolicyRef.Name, policyNames[0])]) {
			found := revisionOf(of.object, with.object)
			if found == revision {
				return true
			}
			if found != "" && !with.until.IsZero() && with.until.Before(since) {
				break
			}
		}
	}
	return false
}

// revisionOf returns the revision of a profile with a policy, "" if it is not accepted. policy may
// be nil.
func revisionOf(profile *v1alpha1.SchedulerProfile, policy *v1alpha1.SchedulingPolicy) string {
	in := resolve.Input{Profiles: []v1alpha1.SchedulerProfile{*profile}, Registered: registered()}
	if policy != nil {
		in.Policies = []v1alpha1.SchedulingPolicy{*policy}
	}
	resolved := resolve.Objects(in)
	result := resolved.ProfileResults[profile.Name]
	if !result.Accepted {
		return ""
	}
	return resolved.Profiles[result.SchedulerName].Revision
}

// registered returns the names of the plugins of the livescheds.
var registered = sync.OnceValue(func() sets.Set[string] {
	registry, err := plugins.NewRegistry(framework.Registry{slowPlugin: newQuick})
	if err != nil {
		panic(err)
	}
	return sets.KeySet(registry)
})
