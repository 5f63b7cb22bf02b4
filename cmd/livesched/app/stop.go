// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Start runs the manager until ctx ends, also if that happens before the API server has answered.
func (m *Manager) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(m.stopping) })()
	return m.Manager.Start(ctx)
}

// stoppableCache is the manager's cache. Its WaitForCacheSync, which only the manager calls, returns
// true once the process stops: a manager whose context ends before its caches have synced goes on
// to wait for them, with a goroutine that spins, and never returns
// (kubernetes-sigs/controller-runtime#3440). So it starts its runnables instead, and stops them at
// once.
type stoppableCache struct {
	cache.Cache
	stopping context.Context
}

// newStoppableCache returns a constructor of caches.
func newStoppableCache(stopping <-chan struct{}) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, options)
		return &stoppableCache{c, wait.ContextForChannel(stopping)}, err
	}
}

// WaitForCacheSync waits until the informers have synced, or the process stops.
func (c *stoppableCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.stopping.Err() != nil
}
