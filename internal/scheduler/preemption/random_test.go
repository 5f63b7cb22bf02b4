// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// A preemptor's victims leave in different ways, and their events come at any time: before or after
// its preemption ends, and before its scheduling cycle ends. In every order, the preemptor must be
// retried.
func TestRandomPreemptorsAreNeverStuck(t *testing.T) {
	p := newEnvironment(t)
	p.addNode("n1")
	for round := range 40 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		preemptor := p.pending(10)
		victims := p.randomVictims(r)
		failing := r.IntN(5) == 0
		p.calls.set(func(request *http.Request) error {
			if failing && deletes(request, victims[0].pod) {
				return errForbidden
			}
			return nil
		})

		popped := p.pop(preemptor)
		_, status := p.postFilter(popped.Pod)
		if !status.IsSuccess() {
			t.Fatalf("round %d, seed %d: preemption: %v", round, seed, status)
		}
		var going sync.WaitGroup
		for _, v := range victims {
			going.Go(func() { v.leave() })
		}
		if r.IntN(2) == 0 {
			going.Wait()
			p.ended()
		}
		popped.UnschedulablePlugins.Insert(names.NodeResourcesFit)
		if _, err := p.queue.Requeue(logr.Discard(), popped, nil); err != nil {
			t.Fatal(err)
		}
		going.Wait()
		p.ended()
		state, _ := p.queue.Get(preemptor.UID)
		if !sets.New(queue.Active, queue.Backoff, queue.ErrorBackoff).Has(state.Place) ||
			state.Place == queue.ErrorBackoff && !failing {
			t.Fatalf("round %d, seed %d: with %d victims gone the preemptor is %v, gated by %q, failing: %v", round,
				seed, len(victims), state.Place, state.GatingPlugin, failing)
		}
		p.calls.set(nil)
		p.queue.Delete(logr.Discard(), preemptor)
	}
}

// leaver is a victim that leaves by itself, either when it is evicted or in any case.
type leaver struct {
	pod   *corev1.Pod
	leave func()
}

// randomVictims puts pods on n1, in the cache and the snapshot: bound, being deleted by another
// client, on Permit or in PreBind.
func (p *environment) randomVictims(r *rand.Rand) []leaver {
	var victims []leaver
	for _, pod := range p.running("n1", 1+r.IntN(3)) {
		must(p.t, p.cache.AddPod(logr.Discard(), pod))
		victims = append(victims, leaver{pod: pod, leave: func() { p.gone(pod) }})
	}
	if r.IntN(3) == 0 {
		v := &victims[r.IntN(len(victims))]
		pod := v.pod
		v.leave = func() {
			if err := p.admin.CoreV1().Pods(namespace).
				Delete(p.ctx, pod.Name, *metav1.NewDeleteOptions(0)); !apierrors.IsNotFound(err) {
				must(p.t, err)
			}
			p.gone(pod)
		}
	}
	if r.IntN(2) == 0 {
		low := p.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "assumed-" + utilrand.String(5)},
			Spec: corev1.PodSpec{SchedulerName: "mine"}})
		victims = append(victims, p.assumedVictim(low, r.IntN(2) == 0))
	}
	return victims
}

// assumedVictim puts a pod on Permit or in PreBind; it leaves as a binding goroutine would make it
// leave.
func (p *environment) assumedVictim(pod *corev1.Pod, permit bool) leaver {
	assumed := p.assume(pod, "n1")
	undo := func() {
		must(p.t, p.cache.ForgetPod(logr.Discard(), assumed))
		p.queue.Move(logr.Discard(), schedframework.EventAssignedPodDelete, assumed, nil, nil)
	}
	if permit {
		p.waitingPods.Add(assumed, map[string]time.Duration{"Gate": time.Hour})
		return leaver{pod: assumed, leave: func() {
			p.waitingPods.Wait(p.ctx, assumed.UID)
			undo()
		}}
	}
	preparing, cancel := context.WithCancelCause(p.ctx)
	p.podsInPreBind.Add(assumed.UID, cancel)
	return leaver{pod: assumed, leave: func() {
		<-preparing.Done()
		p.podsInPreBind.Remove(assumed.UID)
		undo()
	}}
}
