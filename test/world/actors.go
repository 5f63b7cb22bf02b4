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
)

// actors change the cluster from time to time, each with random numbers of its own.
var actors = map[string]func(*World, *rand.Rand){
	"workloads":    (*World).changeWorkloads,
	"nodes":        (*World).changeNodes,
	"profiles":     (*World).changeProfiles,
	"policies":     (*World).changePolicy,
	"kills":        (*World).killReplica,
	"replacements": (*World).replaceReplicas,
	"stalls":       (*World).stallReplica,
	"outages":      (*World).endConnections,
	"restores":     (*World).restore,
	"compact":      (*World).compact,
	"budgets":      (*World).changeBudgets,
	"devices":      (*World).changeDevices,
	"groups":       (*World).changeGroups,
	"podgroups":    (*World).changePodGroups,
	"volumes":      (*World).changeVolumes,
	"others":       (*World).bindForeign,
	"autoscaler":   (*World).autoscale,
	"namespaces":   (*World).endNamespace,
	"images":       (*World).changeImages,
	"updates":      (*World).update,
	"drains":       (*World).drain,
	"services":     (*World).changeServices,
	"rollouts":     (*World).directRollout,
	"leases":       (*World).changeLease,
}

var actorNames = slices.Sorted(maps.Keys(actors))

// startActors lets actors act until the end, each so many seconds after the last time on average.
func (w *World) startActors(seconds map[string]int, end time.Time) {
	for _, name := range slices.Sorted(maps.Keys(seconds)) {
		act, random, mean := actors[name], w.actorStream(name), seconds[name]
		var next func()
		next = func() {
			if !time.Now().Before(end) {
				return
			}
			w.counts["actor: "+name]++
			act(w, random)
			w.after(time.Duration(random.ExpFloat64()*float64(mean)*float64(time.Second)), next)
		}
		w.after(time.Duration(random.IntN(mean*1000))*time.Millisecond, next)
	}
}

// must records an error of the API server that an actor does not expect.
func (w *World) must(err error) {
	// What was deleted is there again when etcd was restored.
	again := apierrors.IsAlreadyExists(err) && !w.restored.IsZero()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !again {
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
