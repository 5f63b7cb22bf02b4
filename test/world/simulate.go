// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	dto "github.com/prometheus/client_model/go"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/selfcheck"
)

// Result is what a world came to.
type Result struct {
	// Err is the first violation, nil if there was none.
	Err       error
	Counts    counts
	Simulated time.Duration

	log *transcript
}

// calm is how long the cluster has, after the trouble, to come to rest. It is shorter than the time
// after which livesched tries each pending pod again by default, whatever has happened: see
// policyWords.
const calm = 4 * time.Minute

// restless is the most writes, other than of leases and Events, that the livescheds may need in a
// minute in which nothing happens.
const restless = 20

// Simulate runs the world of a plan to its end.
func Simulate(t *testing.T, plan *Plan) (result Result) {
	utilruntime.ErrorHandlers = nil              // one of them sleeps, by a clock outside of the bubble
	legacyregistry.DefaultGatherer = noMetrics{} // one of the metrics reads files
	definitions()
	if err := servePodGroups(plan.Actors["podgroups"] > 0); err != nil {
		return Result{Err: err}
	}
	selfcheck.Enable(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2) // kube-scheduler does, but a bubble must not be the first
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	// What others draw depends on the seed, too, for the first world of a process.
	uuid.SetRand(rand.NewChaCha8([32]byte{byte(plan.Seed), byte(plan.Seed >> 8), byte(plan.Seed >> 16)}))
	utilrand.Seed(int64(plan.Seed))
	synctest.Test(t, func(t *testing.T) {
		seedRuntime(plan.Seed)
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

// play runs the world: a quiet beginning, and rounds of trouble.
func (w *World) play() {
	w.faults, w.kubelets, w.slowness.random = w.stream("faults"), w.stream("kubelets"), w.stream("slowness")
	nodes, profiles := w.stream("first nodes"), w.stream("first profiles")
	for range w.plan.Nodes {
		w.addNode(nodes)
	}
	w.firstProfiles(profiles)
	for i := range w.plan.Replicas {
		r := &replica{world: w, name: fmt.Sprint("livesched-", i)}
		w.replicas = append(w.replicas, r)
		r.start()
	}
	w.RunUntil(time.Now().Add(time.Minute), nil)
	w.cluster.oldest = w.cluster.revision
	for i := range w.plan.Rounds {
		w.playRound(i)
		if w.failure != nil {
			return
		}
	}
	w.playNight()
}

// playRound lets things go wrong for a while, and checks that the cluster comes to rest afterwards.
func (w *World) playRound(number int) {
	minutes, faults, active := w.plan.round(number)
	end := time.Now().Add(time.Duration(minutes) * time.Minute)
	w.log.add("round %d: %d minutes, faults %v, actors %v", number, minutes, faults, active)
	w.weather, w.troubled = faults, end
	w.startActors(active, end)
	w.RunUntil(end, nil)
	w.log.add("the trouble ends")
	w.weather, w.outage, w.aim = nil, time.Time{}, noAim
	w.settle(calm)
	if w.failure == nil {
		w.checkDecisions(number)
	}
	if w.failure == nil {
		w.checkTakeover(number)
	}
}

// settle lets some time pass, and checks that the cluster has come to rest.
func (w *World) settle(within time.Duration) {
	w.RunUntil(time.Now().Add(within-time.Minute), nil)
	before := w.counts["writes"]
	w.RunUntil(time.Now().Add(time.Minute), nil)
	if n := w.counts["writes"] - before; n > restless {
		w.fail("livesched writes %d times in a minute in which nothing happens", n)
	}
	if w.failure == nil {
		w.checkRest()
	}
}

// stop ends all processes.
func (w *World) stop() {
	w.stopping = true
	w.weather, w.outage, w.aim = nil, time.Time{}, noAim
	for _, r := range w.replicas {
		r.cancel()
	}
	over := func() bool {
		return !slices.ContainsFunc(w.replicas, func(r *replica) bool { return !r.over })
	}
	w.RunUntil(time.Now().Add(time.Minute), over)
	for _, r := range w.replicas {
		if !r.over {
			w.fail("%s does not end", r.process.name)
		}
	}
	for _, r := range w.replicas {
		r.process.disconnect()
	}
	w.RunUntil(time.Now().Add(10*time.Minute), nil) // what waits for a while before it ends
}

// noMetrics implements metrics.Gatherer.
type noMetrics struct{}

func (noMetrics) Gather() ([]*dto.MetricFamily, error) { return nil, nil }
