// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// assumeWithin bounds the wait for a claim that was created. It is how often DynamicResources asks.
const assumeWithin = time.Second

// arrivals lets binding cycles wait for claims that they have created. Event handlers and binding
// cycles use it at the same time. The zero value is ready for use.
type arrivals struct {
	mu      sync.Mutex                    // guards waiting
	waiting map[types.UID]chan<- struct{} // closed when the claim is in the assume cache
}

// expect returns a channel that is closed when the claim is added, unless stop is called before.
// Only one binding cycle may expect a claim.
func (a *arrivals) expect(claim types.UID) (arrived <-chan struct{}, stop func()) {
	added := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[types.UID]chan<- struct{}{}
	}
	a.waiting[claim] = added
	return added, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, claim)
	}
}

// handler returns the handler of the assume cache.
func (a *arrivals) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		claim := objectOf[resourcev1.ResourceClaim](obj).UID
		a.mu.Lock()
		defer a.mu.Unlock()
		if added, ok := a.waiting[claim]; ok {
			close(added)
			delete(a.waiting, claim)
		}
	}}
}

// AssumeClaimAfterAPICall implements ResourceClaimTracker. The claim for the extended resources of
// a pod was created a moment ago, and the cache may not have it yet. The plugin then asks again
// after a second. This waits for the claim instead, so that the first answer is the last.
func (c narrowableClaims) AssumeClaimAfterAPICall(claim *resourcev1.ResourceClaim) error {
	if !IsExtended(claim) {
		return c.ResourceClaimTracker.AssumeClaimAfterAPICall(claim)
	}
	arrived, stop := c.of.arrivals.expect(claim.UID)
	defer stop()
	err := c.ResourceClaimTracker.AssumeClaimAfterAPICall(claim)
	if !errors.Is(err, assumecache.ErrNotFound) {
		return err
	}
	late := time.NewTimer(assumeWithin)
	defer late.Stop()
	select {
	case <-arrived:
	case <-late.C:
	}
	return c.ResourceClaimTracker.AssumeClaimAfterAPICall(claim)
}
