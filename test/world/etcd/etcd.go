// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd is an etcd in memory, behind the interfaces of etcd's client that Kubernetes' API
// server uses. It has revisions, transactions that compare the revision of one key, reads of old
// revisions, compaction, and watches. It has no cluster, no leases that expire, and no disk.
//
// It needs neither sockets nor a goroutine of its own, so it runs in a bubble of testing/synctest.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// Etcd is the keys of an etcd, and their history. Any goroutine may call its methods.
type Etcd struct {
	mu sync.Mutex // guards the fields below
	// revision is that of the latest write, and compacted the first one that can be read.
	revision, compacted int64
	// keys are all keys that have a history, sorted.
	keys    []string
	history map[string][]version
	// log are the changes since the compaction, one for each revision from first on.
	log     []*mvccpb.Event
	first   int64
	watches []*watch
}

// version is what a key had from a revision on. kv is nil if the key was deleted.
type version struct {
	revision int64
	kv       *mvccpb.KeyValue
}

// New returns an etcd without keys.
func New() *Etcd {
	return &Etcd{revision: 1, compacted: 1, first: 2, history: map[string][]version{}}
}

// Client returns a client. It has the parts that Kubernetes' API server uses.
func (e *Etcd) Client(ctx context.Context) *kubernetes.Client {
	c := clientv3.NewCtxClient(ctx)
	c.KV, c.Watcher, c.Lease = &keyValues{etcd: e}, &watcher{etcd: e}, &leases{}
	client := &kubernetes.Client{Client: c}
	client.Kubernetes = client
	return client
}

// Revision returns the revision of the latest write.
func (e *Etcd) Revision() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.revision
}

// Compact forgets what was before a revision. Reads of what was before, and watches from there,
// fail.
func (e *Etcd) Compact(revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision <= e.compacted || revision > e.revision {
		return
	}
	for _, w := range e.watches {
		w.skipLocked()
		w.notify()
	}
	e.log = slices.Clone(e.log[revision-e.first:])
	e.log[0] = &mvccpb.Event{Type: e.log[0].Type, Kv: e.log[0].Kv} // what was before is forgotten
	e.first = revision
	e.forgetLocked(revision)
}

// forgetLocked drops the values that keys had before a revision.
func (e *Etcd) forgetLocked(revision int64) {
	e.compacted = revision
	e.keys = slices.DeleteFunc(e.keys, func(key string) bool {
		versions := e.history[key]
		first := 0
		for first+1 < len(versions) && versions[first+1].revision <= revision {
			first++
		}
		if versions[first].kv == nil && versions[first].revision <= revision {
			first++
		}
		if first == len(versions) {
			delete(e.history, key)
			return true
		}
		e.history[key] = versions[first:]
		return false
	})
}

// Restore gives all keys the values that they had at a revision, which must not have been
// compacted, with their revisions of that time. The next write has a later revision than any
// before, and what was before the restore can be neither read nor watched, as after "etcdutl
// snapshot restore" with the flags --bump-revision and --mark-compacted. It returns what changed.
func (e *Etcd) Restore(revision int64) (changes []*mvccpb.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range e.keys {
		then, now := e.at(key, revision), e.at(key, e.revision)
		if then.GetModRevision() == now.GetModRevision() {
			continue
		}
		change := &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: then, PrevKv: now}
		if then == nil {
			change.Type = mvccpb.Event_DELETE
			change.Kv = &mvccpb.KeyValue{Key: []byte(key), ModRevision: now.ModRevision}
		}
		changes = append(changes, change)
	}
	e.revision++
	for _, change := range changes {
		restored := version{revision: e.revision}
		if change.Type == mvccpb.Event_PUT {
			restored.kv = change.Kv
		}
		key := string(change.Kv.Key)
		e.history[key] = append(e.history[key], restored)
	}
	e.revision++
	e.log, e.first = nil, e.revision+1
	e.forgetLocked(e.revision)
	for _, w := range e.watches {
		w.notify()
	}
	return changes
}

// at returns the value of a key at a revision.
func (e *Etcd) at(key string, revision int64) *mvccpb.KeyValue {
	versions := e.history[key]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].revision <= revision {
			return versions[i].kv
		}
	}
	return nil
}

// writeLocked gives a key a value, or deletes it if value is nil.
func (e *Etcd) writeLocked(key string, value []byte, lease int64) {
	before := e.at(key, e.revision)
	if value == nil && before == nil {
		return
	}
	e.revision++
	event := &mvccpb.Event{Type: mvccpb.Event_DELETE, PrevKv: before,
		Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: e.revision}}
	if value != nil {
		event.Type = mvccpb.Event_PUT
		event.Kv.Value, event.Kv.Lease = value, lease
		event.Kv.CreateRevision, event.Kv.Version = e.revision, 1
		if before != nil {
			event.Kv.CreateRevision, event.Kv.Version = before.CreateRevision, before.Version+1
		}
	}
	e.log = append(e.log, event)
	if e.history[key] == nil {
		i, _ := slices.BinarySearch(e.keys, key)
		e.keys = slices.Insert(e.keys, i, key)
	}
	now := version{revision: e.revision}
	if value != nil {
		now.kv = event.Kv
	}
	e.history[key] = append(e.history[key], now)
	for _, w := range e.watches {
		if w.selects(key) {
			w.notify()
		}
	}
}

// span is a range of keys: one key if end is empty, all from the first on if it is "\x00".
type span struct{ first, end string }

func spanOf(op clientv3.Op) span { return span{string(op.KeyBytes()), string(op.RangeBytes())} }

func (s span) selects(key string) bool {
	return key == s.first || s.end != "" && key > s.first && (key < s.end || s.end == "\x00")
}

func (e *Etcd) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: e.revision} }

// rangeLocked reads keys.
func (e *Etcd) rangeLocked(op clientv3.Op) (*pb.RangeResponse, error) {
	revision := op.Rev()
	switch {
	case revision == 0:
		revision = e.revision
	case revision > e.revision:
		return nil, rpctypes.ErrFutureRev
	case revision < e.compacted:
		return nil, rpctypes.ErrCompacted
	}
	response, keys := &pb.RangeResponse{Header: e.header()}, spanOf(op)
	for i, _ := slices.BinarySearch(e.keys, keys.first); i < len(e.keys) && keys.selects(e.keys[i]); i++ {
		kv := e.at(e.keys[i], revision)
		if kv == nil {
			continue
		}
		response.Count++
		switch {
		case op.IsCountOnly():
		case op.Limit() > 0 && int64(len(response.Kvs)) == op.Limit():
			response.More = true
		case op.IsKeysOnly():
			response.Kvs = append(response.Kvs, &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, Version: kv.Version})
		default:
			response.Kvs = append(response.Kvs, kv)
		}
	}
	return response, nil
}

var errUnsupported = errors.New("the etcd in memory does not support this operation")

// keyValues implements clientv3.KV.
type keyValues struct{ etcd *Etcd }

func (k *keyValues) Get(_ context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	k.etcd.mu.Lock()
	defer k.etcd.mu.Unlock()
	response, err := k.etcd.rangeLocked(clientv3.OpGet(key, opts...))
	return (*clientv3.GetResponse)(response), err
}

func (k *keyValues) Txn(context.Context) clientv3.Txn { return &transaction{etcd: k.etcd} }

func (k *keyValues) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (
	clientv3.GetStreamChan, error) {
	response, err := k.Get(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	stream := make(chan clientv3.RangeStreamResponse, 1)
	stream <- clientv3.RangeStreamResponse{RangeResponse: (*pb.RangeResponse)(response)}
	close(stream)
	return stream, nil
}

func (k *keyValues) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errUnsupported
}

func (k *keyValues) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errUnsupported
}

func (k *keyValues) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, errUnsupported
}

func (k *keyValues) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) {
	return clientv3.OpResponse{}, errUnsupported
}

// transaction implements clientv3.Txn for comparisons of the revisions of keys.
type transaction struct {
	etcd          *Etcd
	conditions    []clientv3.Cmp
	then, without []clientv3.Op
}

func (t *transaction) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.conditions = append(t.conditions, cs...)
	return t
}

func (t *transaction) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

func (t *transaction) Else(ops ...clientv3.Op) clientv3.Txn {
	t.without = append(t.without, ops...)
	return t
}

func (t *transaction) Commit() (*clientv3.TxnResponse, error) {
	e := t.etcd
	e.mu.Lock()
	defer e.mu.Unlock()
	response, ops := &pb.TxnResponse{Succeeded: true}, t.then
	for i := range t.conditions {
		c := t.conditions[i].GetCompare()
		if c.Target != pb.Compare_MOD || c.Result != pb.Compare_EQUAL {
			return nil, fmt.Errorf("comparing %v: %w", c.Target, errUnsupported)
		}
		kv := e.at(string(c.Key), e.revision)
		if kv.GetModRevision() != c.GetModRevision() {
			response.Succeeded, ops = false, t.without
		}
	}
	for _, op := range ops {
		switch {
		case op.IsGet():
			got, err := e.rangeLocked(op)
			if err != nil {
				return nil, err
			}
			response.Responses = append(response.Responses,
				&pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: got}})
		case op.IsPut():
			e.writeLocked(string(op.KeyBytes()), op.ValueBytes(), 0)
		case op.IsDelete():
			e.writeLocked(string(op.KeyBytes()), nil, 0)
		default:
			return nil, errUnsupported
		}
	}
	response.Header = e.header()
	return (*clientv3.TxnResponse)(response), nil
}

// leases implements the part of clientv3.Lease that objects with a time to live need. No lease
// expires.
type leases struct{ clientv3.Lease }

func (*leases) Grant(_ context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{ID: 1, TTL: ttl}, nil
}

// Changes returns the changes after a revision, which must not have been compacted.
func (e *Etcd) Changes(after int64) []*mvccpb.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log[after+1-e.first:])
}
