// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Start runs the manager until ctx ends, also if that happens before the API server has answered.
//
// A manager whose context ends while it starts goes on to wait for its caches, with a goroutine
// that spins, and never returns (kubernetes-sigs/controller-runtime#3440). So it starts as if its
// caches had synced, and its context ends then.
func (m *Manager) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	starts := make(chan struct{})
	err := m.Add(everywhere(func(context.Context) error {
		close(starts)
		return nil
	}))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		close(m.stopping)
		select {
		case <-starts:
			m.awaitStarted(running)
		case <-running.Done(): // it could not start
		}
		stop()
	})()
	return m.Manager.Start(running)
}

// awaitStarted waits until the manager has started: while it starts, it accepts no Runnable. It
// returns once its own Runnable has run, because a manager that stops with one that it has accepted
// and not yet started logs an error.
func (m *Manager) awaitStarted(running context.Context) {
	runs := make(chan struct{})
	err := m.Add(everywhere(func(context.Context) error {
		close(runs)
		return nil
	}))
	if err != nil {
		m.GetLogger().V(4).Info("The manager has stopped already", "err", err)
		return
	}
	select {
	case <-runs:
	case <-running.Done(): // it has stopped by itself
	}
}

// managerCache is the manager's cache, whose WaitForCacheSync does not wait in vain.
//
// The cache's own waits for all informers that exist when it is called. One that is removed before
// it has synced, or that livesched may not list, would keep a controller from starting for good.
// WaitForCacheSync is safe for concurrent use.
type managerCache struct {
	cache.Cache
	stopping context.Context
	synced   atomic.Bool // once all informers from before the start have
}

// newManagerCache returns a constructor of caches.
func newManagerCache(stopping <-chan struct{}) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, options)
		return &managerCache{Cache: c, stopping: wait.ContextForChannel(stopping)}, err
	}
}

// WaitForCacheSync waits until the cache has started and the informers from before have synced, or
// the process stops: then it returns true, too. The manager calls it first. The controllers' event
// sources call it later, and wait for their own informers themselves.
func (c *managerCache) WaitForCacheSync(ctx context.Context) bool {
	if c.synced.Load() || c.stopping.Err() != nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()
	if c.Cache.WaitForCacheSync(ctx) {
		c.synced.Store(true)
		return true
	}
	return c.stopping.Err() != nil
}
