// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watcher implements clientv3.Watcher.
type watcher struct{ etcd *Etcd }

// watch is a watch of keys.
type watch struct {
	span
	etcd   *Etcd
	prevKV bool
	// next is the revision that has not been looked at yet. Guarded by etcd.mu.
	next int64
	wake chan struct{}
}

func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, opts...)
	one := &watch{span: spanOf(op), etcd: w.etcd, prevKV: op.IsPrevKV(), next: op.Rev(), wake: make(chan struct{}, 1)}
	w.etcd.mu.Lock()
	defer w.etcd.mu.Unlock()
	if one.next == 0 {
		one.next = w.etcd.revision + 1
	}
	w.etcd.watches = append(w.etcd.watches, one)
	one.notify()
	responses := make(chan clientv3.WatchResponse)
	go one.run(ctx, responses)
	return responses
}

func (w *watcher) RequestProgress(context.Context) error { return errUnsupported }

func (w *watcher) Close() error { return nil }

func (w *watch) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sends what changes until ctx ends, or what changes has been compacted.
func (w *watch) run(ctx context.Context, responses chan<- clientv3.WatchResponse) {
	defer close(responses)
	defer func() {
		w.etcd.mu.Lock()
		defer w.etcd.mu.Unlock()
		w.etcd.watches = slices.DeleteFunc(w.etcd.watches, func(other *watch) bool { return other == w })
	}()
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		response := w.read()
		if len(response.Events) == 0 && response.CompactRevision == 0 {
			continue
		}
		select {
		case responses <- response:
		case <-ctx.Done():
			return
		}
		if response.CompactRevision != 0 {
			return
		}
	}
}

// skipLocked passes over changes that the watch does not select, so that it misses nothing if they
// are compacted.
func (w *watch) skipLocked() {
	e := w.etcd
	if w.next < e.compacted {
		return // it has missed some already
	}
	for w.next = max(w.next, e.first); w.next <= e.revision; w.next++ {
		if w.selects(string(e.log[w.next-e.first].Kv.Key)) {
			return
		}
	}
}

// read returns the changes since the last one.
func (w *watch) read() clientv3.WatchResponse {
	e := w.etcd
	e.mu.Lock()
	defer e.mu.Unlock()
	response := clientv3.WatchResponse{Header: e.header()}
	if w.next < e.compacted {
		response.CompactRevision, response.Canceled = e.compacted, true
		return response
	}
	for w.next = max(w.next, e.first); w.next <= e.revision; w.next++ {
		change := e.log[w.next-e.first]
		if !w.selects(string(change.Kv.Key)) {
			continue
		}
		event := &mvccpb.Event{Type: change.Type, Kv: change.Kv}
		if w.prevKV {
			event.PrevKv = change.PrevKv
		}
		response.Events = append(response.Events, event)
	}
	return response
}
