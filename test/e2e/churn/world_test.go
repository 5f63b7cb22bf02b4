// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testcluster"
)

// world is the cluster that the actors change. Their own calls have no faults.
type world struct {
	cluster   *testcluster.Cluster
	client    client.Client
	clientset kubernetes.Interface
	seed      uint64
	counts    *counts
	history   *history
	audit     *audit
	script    *script
	// fleet runs the replicas in this process, crew as processes. One of them is nil.
	fleet *fleet
	crew  *crew
	// observer is, beside a crew, a replica in this process that never leads. Its connection to the
	// API server has no faults.
	observer *replica
	// menu has the specs of profiles and policies.
	menu menu

	mu      sync.Mutex // guards mishaps
	mishaps []string   // errors of the actors themselves
}

// actor is one source of changes. Only its own goroutine uses it.
type actor struct {
	*world
	name string
	rng  *rand.Rand
}

// act takes one step. Steps come after random pauses, pause on average.
type act struct {
	name  string
	pause time.Duration
	step  func(ctx context.Context, a *actor) error
}

// run runs actors until ctx ends, and returns when the last one has stopped. The seed and the
// number of the round determine what each actor does.
func (w *world) run(ctx context.Context, round int, acts []act) {
	var all sync.WaitGroup
	for i, what := range acts {
		a := w.actor(what.name, round*1000+i)
		all.Go(func() {
			for a.rest(ctx, what.pause) {
				// A step that has begun is completed.
				if err := what.step(context.WithoutCancel(ctx), a); err != nil && !w.excused(err) {
					w.mishap(what.name, err)
				}
			}
		})
	}
	all.Wait()
}

// witness returns the replica in this process that decides as the leader does: the leader itself or
// the observer. It returns nil if no replica leads at the moment.
func (w *world) witness() *replica {
	if w.crew != nil {
		return w.observer
	}
	return w.fleet.leader()
}

// inProcess lists the replicas in this process.
func (w *world) inProcess() []*replica {
	if w.crew != nil {
		return []*replica{w.observer}
	}
	return w.fleet.all()
}

// excused reports whether the actors' own call may fail like this: beside a crew, the API server
// and etcd fail, too.
func (w *world) excused(err error) bool {
	if w.crew == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // there was no response
	}
	code := status.Status().Code
	// Some admission plugins of an API server that starts refuse everything for a moment.
	return code >= 500 || code == http.StatusTooManyRequests ||
		strings.Contains(err.Error(), "not yet ready to handle request")
}

// rest waits for a random time and reports whether there is more to do.
func (a *actor) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(time.Duration(a.rng.Int64N(int64(2 * pause))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// chance returns true with the given probability.
func (a *actor) chance(percent int) bool { return a.rng.IntN(100) < percent }

func one[T any](a *actor, of ...T) T { return of[a.rng.IntN(len(of))] }

// mishap notes an error of the actors' own calls.
func (w *world) mishap(where string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line := fmt.Sprintf("%s: %v", where, err); len(w.mishaps) < 50 && !slices.Contains(w.mishaps, line) {
		w.mishaps = append(w.mishaps, line)
	}
}

// verdict returns what went wrong so far and does not get better.
func (w *world) verdict() []string {
	w.mu.Lock()
	wrong := slices.Clone(w.mishaps)
	w.mu.Unlock()
	wrong = slices.Concat(wrong, w.history.verdict(), w.audit.problems(), w.script.verdict())
	if w.crew != nil {
		return append(wrong, w.crew.verdict()...)
	}
	return append(wrong, w.fleet.verdict()...)
}

// raced turns errors into nil that arise when two actors work on one object.
func raced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// did counts an action of an actor, unless another actor was faster.
func (a *actor) did(what string, err error) error {
	if err == nil {
		a.counts.add(what, 1)
	}
	return raced(err)
}

// change reads, changes and writes an object.
func change[T client.Object](ctx context.Context, a *actor, object T, f func(T)) error {
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	f(object)
	return a.client.Update(ctx, object)
}

// ignoring returns nil for errors that are expected.
func ignoring(err error, expected ...func(error) bool) error {
	if err != nil && slices.ContainsFunc(expected, func(is func(error) bool) bool { return is(err) }) {
		return nil
	}
	return err
}
