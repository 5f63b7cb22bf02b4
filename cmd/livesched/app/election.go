// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/lease"
)

// election is the leader election of a manager. It is nil without leader election.
type election struct {
	options *Options
	lock    *lease.Lock
	term    *lease.Term
}

// newElection returns the leader election that the options ask for. A process does not take the
// lease once stopping is closed.
func newElection(restConfig *rest.Config, o *Options, stopping <-chan struct{}) (*election, error) {
	if !o.LeaderElect {
		return nil, nil
	}
	if err := o.requireLeaseNamespace(); err != nil {
		return nil, err
	}
	host := o.Host
	if host == "" {
		var err error
		if host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("naming this replica in the lease: %w", err)
		}
	}
	cfg := rest.AddUserAgent(rest.CopyConfig(restConfig), "leader-election")
	watch, err := clientset.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the client that watches the lease: %w", err)
	}
	// A request that hangs must not cost the lease: there has to be time for another one.
	cfg.Timeout = max(o.RenewDeadline/2, time.Second)
	client, err := clientset.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the client for the lease: %w", err)
	}
	term := lease.NewTerm(o.RenewDeadline)
	return &election{options: o, term: term, lock: lease.NewLock(lease.Config{
		Namespace:   o.leaseNamespace(),
		Name:        o.LeaderElectionName,
		Identity:    host + "_" + string(uuid.NewUUID()),
		Client:      client,
		Watch:       watch,
		RetryPeriod: o.RetryPeriod,
		Term:        term,
		Stopping:    stopping,
	})}, nil
}

// configure adds the election to the options of a manager.
func (e *election) configure(options ctrl.Options) ctrl.Options {
	if e == nil {
		return options
	}
	options.LeaderElection = true
	options.LeaderElectionResourceLockInterface = e.lock
	options.LeaderElectionID = e.options.LeaderElectionName // in metrics
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration = &e.options.LeaseDuration
	options.RenewDeadline = &e.options.RenewDeadline
	options.RetryPeriod = &e.options.RetryPeriod
	return options
}

// recordEvents makes the election record Events about the lease. Call it before the manager starts.
func (e *election) recordEvents(mgr ctrl.Manager) {
	if e != nil {
		//nolint:staticcheck // client-go's leader election needs a recorder of core Events
		e.lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(e.lock.Identity())
	}
}

// awaitReady makes the election leave a free lease to replicas that are ready. Call it before the
// manager starts.
func (e *election) awaitReady(ready <-chan struct{}) {
	if e != nil {
		e.lock.AwaitReady(ready)
	}
}

// leading returns the term of the leader, nil without leader election.
func (e *election) leading() *lease.Term {
	if e == nil {
		return nil
	}
	return e.term
}

// holder returns the identity of the replica that leads, "" if none is known.
func (e *election) holder() string { return e.lock.Holder() }
