// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/test/world/apiserver"
	"github.com/livesched/livesched/test/world/etcd"
)

// World is a cluster with several replicas of livesched, in a bubble of testing/synctest. It has a
// goroutine of its own, which alone uses it: that goroutine delivers one message at a time, or lets
// one actor act, and waits until all other goroutines have nothing left to do. Only then does time
// go on.
type World struct {
	// ctx ends with the bubble.
	ctx      context.Context
	plan     *Plan
	etcd     *etcd.Etcd
	network  *network
	agenda   agenda
	log      *transcript
	cluster  *cluster
	replicas []*replica
	// weather is what goes wrong now.
	weather weather
	// troubled is until when things go wrong.
	troubled time.Time
	// outage is until when the API server is not available, and restored is when etcd was restored
	// last.
	outage, restored time.Time
	// aim is what the next restore of etcd waits for.
	aim aim
	// term is who leads, and excused until when nodes may be over their resources.
	term    term
	excused time.Time
	// leaseChanged is when a user has changed the Lease last, and hasty when a process has taken it
	// after that without having seen the last holder.
	leaseChanged, hasty time.Time
	// overwritten has the paths of status that a process wrote last which does not lead, or whose
	// last write was executed twice.
	overwritten map[string]bool
	// uncertain is when a write of a claim was executed that others may take as failed, or do not
	// expect, by the path of the claim's status.
	uncertain map[string]time.Time
	// interrupted is until when a process ended last, or had no API server.
	interrupted time.Time
	counts      counts
	// failure is the first violation of an invariant.
	failure error

	// faults and kubelets have the random numbers of the faults and of the kubelets.
	faults, kubelets *rand.Rand
	// streams have the random numbers of each actor.
	streams  map[string]*rand.Rand
	slowness slowness
	alarms   alarms
	// stopping means that the world ends.
	stopping bool
}

// New returns a world with an API server and no replicas. Call it in a bubble.
func New(ctx context.Context, plan *Plan) (*World, error) {
	w := &World{ctx: ctx, plan: plan, etcd: etcd.New(), log: newTranscript(), counts: counts{},
		overwritten: map[string]bool{}, uncertain: map[string]time.Time{}, streams: map[string]*rand.Rand{}}
	server, err := apiserver.New(ctx, w.etcd, definitions()...)
	if err != nil {
		return nil, err
	}
	w.network = &network{server: &apiserver.Transport{Handler: server}, wake: make(chan struct{}, 1)}
	w.cluster, err = newCluster(w, &rest.Config{Host: "http://world", Transport: w.network.server, QPS: -1})
	return w, err
}

// stream returns random numbers for one purpose. Another purpose that takes more of them does not
// change these.
func (w *World) stream(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(w.plan.Seed, h.Sum64()))
}

// actorStream returns the random numbers of an actor, which go on from round to round.
func (w *World) actorStream(name string) *rand.Rand {
	if w.streams[name] == nil {
		w.streams[name] = w.stream("actor " + name)
	}
	return w.streams[name]
}

// task is something that happens at a time.
type task struct {
	at     time.Time
	number int
	run    func()
}

// agenda has the tasks by time. Tasks of the same time are run in the order in which they were
// added.
type agenda struct {
	tasks  []*task
	number int
}

func (a *agenda) Len() int { return len(a.tasks) }
func (a *agenda) Less(i, j int) bool {
	if !a.tasks[i].at.Equal(a.tasks[j].at) {
		return a.tasks[i].at.Before(a.tasks[j].at)
	}
	return a.tasks[i].number < a.tasks[j].number
}
func (a *agenda) Swap(i, j int) { a.tasks[i], a.tasks[j] = a.tasks[j], a.tasks[i] }
func (a *agenda) Push(x any)    { a.tasks = append(a.tasks, x.(*task)) }
func (a *agenda) Pop() any {
	last := a.tasks[len(a.tasks)-1]
	a.tasks = a.tasks[:len(a.tasks)-1]
	return last
}

// at adds a task.
func (w *World) at(t time.Time, run func()) {
	w.agenda.number++
	heap.Push(&w.agenda, &task{at: t, number: w.agenda.number, run: run})
}

// after adds a task.
func (w *World) after(d time.Duration, run func()) { w.at(time.Now().Add(d), run) }

// stepsPerCollection is after how many steps garbage is collected. It is a compromise between the
// time that a collection takes and that of memory which is new to the process.
const stepsPerCollection = 2048

// RunUntil lets time pass, until a time, until done returns true, or until an invariant is violated
// unless the world ends.
func (w *World) RunUntil(end time.Time, done func() bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		synctest.Wait()
		if w.observe(); w.failure != nil && !w.stopping || done != nil && done() {
			return
		}
		if w.collect() {
			continue
		}
		now := time.Now()
		if len(w.agenda.tasks) > 0 && !w.agenda.tasks[0].at.After(now) {
			if w.counts["steps"]++; w.counts["steps"]%stepsPerCollection == 0 {
				collectGarbage()
				seedScheduler(w.plan.Seed + uint64(w.counts["steps"]))
			}
			heap.Pop(&w.agenda).(*task).run()
			continue
		}
		if !now.Before(end) {
			return
		}
		next := end
		if len(w.agenda.tasks) > 0 && w.agenda.tasks[0].at.Before(end) {
			next = w.agenda.tasks[0].at
		}
		timer.Reset(next.Sub(now))
		select {
		case <-timer.C:
		case <-w.network.wake:
		}
	}
}

// fail records a violation.
func (w *World) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.log.add("VIOLATION: %v", w.failure)
	}
}
