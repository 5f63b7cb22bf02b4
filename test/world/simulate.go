// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Result is what a world came to.
type Result struct {
	// Err is the first violation, nil if there was none.
	Err       error
	Counts    counts
	Simulated time.Duration

	log *transcript
}

// calm is how long the cluster has, after the trouble, to come to rest.
const calm = 15 * time.Minute

// Simulate runs the world of a plan to its end.
func Simulate(t *testing.T, plan *Plan) (result Result) {
	utilruntime.ErrorHandlers = nil // one of them sleeps, by a clock outside of the bubble
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		w, err := New(ctx, plan)
		if err != nil {
			cancel()
			result.Err = err
			return
		}
		w.play()
		w.stop()
		cancel()
		synctest.Wait()
		result = Result{Err: w.failure, Counts: w.counts, Simulated: time.Since(began), log: w.log}
	})
	return result
}

// play runs the world: a quiet beginning, trouble, and a time to come to rest.
func (w *World) play() {
	w.plan.faults, w.kubelets = w.stream("faults"), w.stream("kubelets")
	nodes, profiles := w.stream("first nodes"), w.stream("first profiles")
	for range w.plan.Nodes {
		w.addNode(nodes)
	}
	for range 6 {
		w.changeProfiles(profiles)
	}
	for i := range w.plan.Replicas {
		r := &replica{world: w, name: fmt.Sprint("livesched-", i)}
		w.replicas = append(w.replicas, r)
		r.start()
	}
	w.RunUntil(time.Now().Add(time.Minute), nil)
	w.weather = w.plan.weather()
	end := time.Now().Add(time.Duration(w.plan.Minutes) * time.Minute)
	w.startActors(end)
	w.RunUntil(end, nil)
	w.log.add("the trouble ends")
	w.weather = weather{}
	w.RunUntil(time.Now().Add(calm), nil)
	if w.failure == nil {
		w.checkRest()
	}
}

// checkRest checks what holds once the cluster has come to rest.
func (w *World) checkRest() {
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName != "" {
			continue
		}
		scheduled := corev1.PodCondition{}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				scheduled = c
			}
		}
		w.counts["pending at the end"]++
		w.log.add("pod %s is pending: %s: %s", pod.Name, scheduled.Reason, scheduled.Message)
		if scheduled.Reason != corev1.PodReasonUnschedulable {
			w.fail("pod %s has no node, and no condition that says why: %q", pod.Name, scheduled.Reason)
		}
	}
}

// stop ends all processes.
func (w *World) stop() {
	w.stopping = true
	w.weather = weather{}
	for _, r := range w.replicas {
		r.cancel()
	}
	failure := w.failure
	w.failure = nil
	over := func() bool {
		return !slices.ContainsFunc(w.replicas, func(r *replica) bool { return !r.over })
	}
	w.RunUntil(time.Now().Add(time.Minute), over)
	if w.failure = failure; failure == nil {
		for _, r := range w.replicas {
			if !r.over {
				w.fail("%s does not end", r.process.name)
			}
		}
	}
	for _, r := range w.replicas {
		r.process.disconnect()
	}
	failure = w.failure
	w.failure = nil
	w.RunUntil(time.Now().Add(10*time.Minute), nil) // what waits for a while before it ends
	w.failure = failure
}
