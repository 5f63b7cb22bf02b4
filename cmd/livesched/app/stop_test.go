// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// unsyncedCache is a cache whose API server does not answer.
type unsyncedCache struct{ cache.Cache }

func (unsyncedCache) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func TestTheWaitForTheCacheEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		c := &stoppableCache{unsyncedCache{}, wait.ContextForChannel(stopping)}
		synced := make(chan bool, 1)
		go func() { synced <- c.WaitForCacheSync(t.Context()) }()
		synctest.Wait()
		if len(synced) > 0 {
			t.Fatal("the wait ended before the cache had synced")
		}
		close(stopping)
		if !<-synced {
			t.Error("the cache is not reported as synced, so the manager would go on to wait")
		}
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	c := &stoppableCache{unsyncedCache{}, t.Context()}
	if c.WaitForCacheSync(canceled) {
		t.Error("a cache that has not synced is reported as synced, although the process goes on")
	}
}
