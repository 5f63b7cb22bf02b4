// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/livesched/livesched/api/v1alpha1"
)

// statuses follows the statuses of all profiles with an informer, which calls observe. wait may be
// called by any goroutine.
type statuses struct {
	mu sync.Mutex // guards the fields below
	// programmed holds the last status that reported a generation as programmed, by profile.
	programmed map[string]programmed
	// changed is closed and replaced when a status changes.
	changed chan struct{}
}

// programmed is what a status reports as active, and when the informer saw that.
type programmed struct {
	generation, policyGeneration int64
	at                           time.Time
}

// watchStatuses follows statuses until ctx ends.
func watchStatuses(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*statuses, error) {
	objects, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	go func() { _ = objects.Start(ctx) }() // it fails only if it is started twice
	informer, err := objects.GetInformer(ctx, &v1alpha1.SchedulerProfile{})
	if err != nil {
		return nil, err
	}
	s := &statuses{programmed: map[string]programmed{}, changed: make(chan struct{})}
	observe := func(object any) {
		if p, ok := object.(*v1alpha1.SchedulerProfile); ok {
			s.observe(p)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: observe,
		UpdateFunc: func(_, object any) { observe(object) }})
	return s, err
}

func (s *statuses) observe(p *v1alpha1.SchedulerProfile) {
	now := time.Now()
	condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
	if condition == nil || condition.Status != metav1.ConditionTrue || p.Status.Active == nil {
		return
	}
	next := programmed{generation: p.Status.Active.Generation, at: now}
	if policy := p.Status.Active.Policy; policy != nil {
		next.policyGeneration = policy.Generation
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.programmed[p.Name]; was.generation == next.generation && was.policyGeneration == next.policyGeneration {
		return
	}
	s.programmed[p.Name] = next
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait waits until the statuses of some profiles report at least these generations, and returns
// when the last of them did.
func (s *statuses) wait(ctx context.Context, names []string,
	generation, policyGeneration int64) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		changed, missing := s.changed, 0
		for _, name := range names {
			p := s.programmed[name]
			if p.generation < generation || p.policyGeneration < policyGeneration {
				missing++
			} else if p.at.After(last) {
				last = p.at
			}
		}
		s.mu.Unlock()
		if missing == 0 {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return last, fmt.Errorf("%d of %d profiles are not programmed: %w", missing, len(names), context.Cause(ctx))
		}
	}
}
