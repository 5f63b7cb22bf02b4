// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/testcluster"
)

// replicas is the number of livesched processes. One leads.
const replicas = 2

// stopTimeout is how long a livesched may take to end: far longer than its own limit.
const stopTimeout = time.Minute

// fleet runs the replicas. Each has a slot, in which another one follows when it ends.
type fleet struct {
	config *rest.Config
	logger klog.Logger
	script *script
	counts *counts
	audit  *audit

	// turn is held while replicas are stopped and started.
	turn sync.Mutex

	mu      sync.Mutex // guards what follows
	slots   [replicas]*replica
	started int
	wild    bool
	sick    []string
}

// replica is one livesched.
type replica struct {
	*testcluster.Running
	number int
	faults *faults
	clock  *steppedClock
	probes string
}

// lockedStart starts a replica in a slot.
func (f *fleet) lockedStart(slot int) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started++
	r := &replica{number: f.started, faults: newFaults(f.counts, f.audit), clock: &steppedClock{},
		probes: fmt.Sprintf("127.0.0.1:%d", port)}
	if f.wild {
		r.faults.begin(faultPercent)
	}
	o := testcluster.Options()
	o.OutOfTree = f.script.registry()
	o.Clock = r.clock
	o.HealthProbeBindAddress = r.probes
	o.LeaderElect, o.LeaderElectionNamespace, o.LeaderElectionName = true, "kube-system", "churn"
	// As short as a busy machine allows.
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 6*time.Second, 4*time.Second, 500*time.Millisecond
	o.ProfileBuildTimeout = 20 * time.Second
	logger := f.logger.WithValues("replica", r.number)
	if r.Running, err = testcluster.RunFor(context.Background(), logger, r.faults.config(f.config), o); err != nil {
		return fmt.Errorf("starting replica %d: %w", r.number, err)
	}
	f.slots[slot] = r
	return nil
}

// lockedStop ends the replica in a slot, which releases the lease.
func (f *fleet) lockedStop(slot int) error {
	f.mu.Lock()
	r := f.slots[slot]
	f.slots[slot] = nil
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	err := r.Stop(stopTimeout)
	switch {
	case err == nil || strings.Contains(err.Error(), "leader election lost"):
		return nil
	case strings.Contains(err.Error(), "within grace period"), strings.Contains(err.Error(), "did not close in time"):
		// A process would end now. The check of goroutines finds whatever does not end at all.
		f.counts.add("replicas slow to stop", 1)
		return nil
	}
	return fmt.Errorf("replica %d: %w", r.number, err)
}

// stop ends all replicas.
func (f *fleet) stop() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	var errs []error
	for slot := range f.slots {
		errs = append(errs, f.lockedStop(slot))
	}
	return errors.Join(errs...)
}

// restart replaces a replica with a new one.
func (f *fleet) restart(slot int) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	return errors.Join(f.lockedStop(slot), f.lockedStart(slot))
}

func (f *fleet) all() []*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.slots[:]), func(r *replica) bool { return r == nil })
}

// revive fills the slots of replicas that have ended, as replicas do that lose the lease.
func (f *fleet) revive() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	for slot := range f.slots {
		f.mu.Lock()
		r := f.slots[slot]
		f.mu.Unlock()
		if r != nil {
			select {
			case <-r.Done():
				f.counts.add("replicas that lost the lease", 1)
			default:
				continue
			}
		}
		if err := errors.Join(f.lockedStop(slot), f.lockedStart(slot)); err != nil {
			return err
		}
	}
	return nil
}

// faultPercent is the percentage of the calls of certain kinds that fail.
const faultPercent = 12

// begin enables faults in the calls of all replicas, also of later ones; end disables them.
func (f *fleet) begin() {
	f.mu.Lock()
	f.wild = true
	f.mu.Unlock()
	for _, r := range f.all() {
		r.faults.begin(faultPercent)
	}
}

func (f *fleet) end() {
	f.mu.Lock()
	f.wild = false
	f.mu.Unlock()
	for _, r := range f.all() {
		r.faults.end()
	}
}

// leader returns the replica that schedules, nil if there is none at the moment.
func (f *fleet) leader() *replica {
	for _, r := range f.all() {
		select {
		case <-r.Elected():
			return r
		default:
		}
	}
	return nil
}

// probe checks whether the replicas are live, as a kubelet does.
func (f *fleet) probe(ctx context.Context) {
	for _, r := range f.all() {
		if line := r.livez(ctx); line != "" {
			f.mu.Lock()
			f.sick = append(f.sick, line)
			f.mu.Unlock()
		}
	}
}

func (f *fleet) verdict() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sick)
}

// livez returns the failure that the endpoint reports. An endpoint that does not listen, yet or any
// more, reports none.
func (r *replica) livez(ctx context.Context) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.probes+"/livez", nil)
	if err != nil {
		return err.Error()
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return ""
	}
	body, _ := io.ReadAll(answer.Body)
	return fmt.Sprintf("livez of replica %d: %s: %s", r.number, answer.Status, body)
}

// care revives and probes. It acts all the time.
var care = act{"care for replicas", 300 * time.Millisecond, func(ctx context.Context, a *actor) error {
	a.fleet.probe(ctx)
	return a.fleet.revive()
}}

// cutActs cut watches, or a replica's whole connection for a moment.
var cutActs = []act{
	{"cut watches", 2 * time.Second, func(_ context.Context, a *actor) error {
		of := one(a, "/pods", "/nodes", "/livesched.io/", "/persistentvolume", "/")
		for _, r := range a.fleet.all() {
			if a.chance(60) {
				r.faults.cut(func(path string) bool { return strings.Contains(path, of) })
			}
		}
		return nil
	}},
	{"outages", 12 * time.Second, func(ctx context.Context, a *actor) error {
		all := a.fleet.all()
		if len(all) == 0 {
			return nil
		}
		r := one(a, all...)
		a.counts.add("outages", 1)
		r.faults.sever()
		a.rest(ctx, time.Second)
		r.faults.rejoin()
		return nil
	}},
}

// restartActs stop replicas, or disconnect them for so long that they lose the lease.
var restartActs = []act{
	{"restart replicas", 8 * time.Second, func(_ context.Context, a *actor) error {
		a.counts.add("replicas restarted", 1)
		return a.fleet.restart(a.rng.IntN(replicas))
	}},
	{"cut off leaders", 25 * time.Second, func(ctx context.Context, a *actor) error {
		r := a.fleet.leader()
		if r == nil {
			return nil
		}
		a.counts.add("leaders cut off", 1)
		r.faults.sever()
		timer := time.NewTimer(10 * time.Second)
		defer timer.Stop()
		select {
		case <-r.Done():
		case <-timer.C:
		}
		r.faults.rejoin()
		return nil
	}},
}
