// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// actors change the cluster from time to time, each with random numbers of its own.
var actors = map[string]func(*World, *rand.Rand){
	"workloads": (*World).changeWorkloads,
	"nodes":     (*World).changeNodes,
	"budgets":   (*World).changeBudgets,
	"devices":   (*World).changeDevices,
	"groups":    (*World).changeGroups,
	"profiles":  (*World).changeProfiles,
	"kills":     (*World).killReplica,
	"compact":   (*World).compact,
}

var actorNames = slices.Sorted(maps.Keys(actors))

// startActors lets the actors of the plan act until the end.
func (w *World) startActors(end time.Time) {
	for _, name := range actorNames {
		seconds := w.plan.Actors[name]
		if seconds == 0 {
			continue
		}
		random := w.stream("actor " + name)
		var act func()
		act = func() {
			if !time.Now().Before(end) {
				return
			}
			w.counts["actor: "+name]++
			actors[name](w, random)
			w.after(time.Duration(random.ExpFloat64()*float64(seconds)*float64(time.Second)), act)
		}
		w.after(time.Duration(random.IntN(seconds*1000))*time.Millisecond, act)
	}
}

// must records an error of the API server that an actor does not expect.
func (w *World) must(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.fail("an actor: %v", err)
	}
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// sorted returns the objects of a map in the order of their keys.
func sorted[T any](m map[string]T) []T {
	var all []T
	for _, key := range slices.SortedFunc(maps.Keys(m), cmp.Compare[string]) {
		all = append(all, m[key])
	}
	return all
}

// changeProfiles writes a profile.
func (w *World) changeProfiles(r *rand.Rand) {
	profile := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: one(r, []string{"one", "two"})}}
	err := w.cluster.objects.Get(w.ctx, client.ObjectKeyFromObject(profile), profile)
	exists := err == nil
	profile.Spec = w.newProfile(r)
	w.log.add("profile %s", profile.Name)
	switch {
	case !exists:
		err = w.cluster.objects.Create(w.ctx, profile)
	default:
		err = w.cluster.objects.Update(w.ctx, profile)
	}
	w.must(err)
}

// killReplica ends a process.
func (w *World) killReplica(r *rand.Rand) {
	if replica := one(r, w.replicas); !replica.over {
		replica.kill()
	}
}

// compact makes etcd forget what is older than a few minutes, or all but the present.
func (w *World) compact(r *rand.Rand) {
	revision := w.cluster.revision
	if r.IntN(4) == 0 {
		w.etcd.Compact(revision)
		return
	}
	w.after(5*time.Minute, func() { w.etcd.Compact(revision) })
}
