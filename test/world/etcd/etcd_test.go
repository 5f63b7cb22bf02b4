// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/controlplane/process"
)

// TestOperations compares the etcd in memory with a model of an etcd.
func TestOperations(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				etcd := New()
				newTwin(t, etcd.Client(t.Context()), etcd.Compact, seed).play(400)
			})
		})
	}
}

// TestModel compares a real etcd with the model, which shows that the model is right.
func TestModel(t *testing.T) {
	assets := os.Getenv(binaries.AssetsEnv)
	if assets == "" {
		t.Skipf("%s is not set: it names a directory with etcd", binaries.AssetsEnv)
	}
	client := startEtcd(t, filepath.Join(assets, binaries.Etcd))
	w := newTwin(t, client, func(revision int64) {
		if _, err := client.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
	}, 1)
	w.slow = true
	w.play(1000)
}

// startEtcd starts an etcd and returns a client.
func startEtcd(t *testing.T, path string) *kubernetes.Client {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	url, dir := "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), t.TempDir()
	log := filepath.Join(dir, "log")
	child, err := process.Start(process.Config{Name: "etcd", Path: path, LogFile: log, Args: []string{
		"--data-dir=" + filepath.Join(dir, "data"), "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level=warn"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{url}, Context: t.Context(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := child.WaitReady(ctx, func(ctx context.Context) error {
		_, err := client.Get(ctx, "x", kubernetes.GetOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return client
}

// twin is an etcd and a model, which get the same operations.
type twin struct {
	*rand.Rand
	t       *testing.T
	client  *kubernetes.Client
	compact func(revision int64)
	model   *model
	watches []*observed
	writes  int
	slow    bool // whether watches begin some time after the request for them
}

// observed is a watch of keys with a prefix, from a revision on.
type observed struct {
	prefix    string
	next      int64
	compacted bool // before it began
	delivered bool // an event
	responses clientv3.WatchChan
}

func newTwin(t *testing.T, client *kubernetes.Client, compact func(int64), seed uint64) *twin {
	return &twin{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, client: client, compact: compact, model: newModel()}
}

var prefixes = []string{"/", "/a/", "/b/", "/a/1", "/c/"}

func (w *twin) key() string { return fmt.Sprint([]string{"/a/", "/b/"}[w.IntN(2)], w.IntN(6)) }

// revision draws one: the latest, an old one that may be compacted, or one of the future.
func (w *twin) revision() int64 {
	if w.IntN(3) == 0 {
		return 0
	}
	return max(1, w.model.revision()+2-w.Int64N(15))
}

func (w *twin) play(steps int) {
	for range steps {
		switch n := w.IntN(20); {
		case n < 7:
			w.put()
		case n < 10:
			w.delete()
		case n < 12:
			w.get()
		case n < 15:
			w.list()
		case n < 17:
			w.watch()
		case n < 19:
			if len(w.watches) > 0 {
				w.observe(w.watches[w.IntN(len(w.watches))])
			}
		default:
			w.compactSome()
		}
		if w.t.Failed() {
			return
		}
	}
	for _, one := range w.watches {
		w.observe(one)
	}
}

func (w *twin) same(what string, want, got any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: -model +etcd\n%s", what, diff)
	}
}

// expected draws the revision that a write expects its key to have.
func (w *twin) expected(key string) int64 {
	switch w.IntN(6) {
	case 0:
		return 0
	case 1:
		return max(1, w.model.now()[key].written-1)
	default:
		return w.model.now()[key].written
	}
}

func (w *twin) put() {
	key := w.key()
	expected, before := w.expected(key), w.model.now()[key]
	w.writes++
	value, old := fmt.Sprint("value ", w.writes), w.IntN(2) == 0
	response, err := w.client.OptimisticPut(w.t.Context(), key, []byte(value), expected,
		kubernetes.PutOptions{GetOnFailure: old})
	if err != nil {
		w.t.Fatal(err)
	}
	done := w.model.write(key, value, expected)
	w.wrote("put "+key, before, done, old, response.Succeeded, response.Revision, response.KV)
}

func (w *twin) delete() {
	key := w.key()
	expected, before, old := w.expected(key), w.model.now()[key], w.IntN(2) == 0
	response, err := w.client.OptimisticDelete(w.t.Context(), key, expected,
		kubernetes.DeleteOptions{GetOnFailure: old})
	if err != nil {
		w.t.Fatal(err)
	}
	done := w.model.write(key, "", expected)
	w.wrote("delete "+key, before, done, old, response.Succeeded, response.Revision, response.KV)
}

// wrote compares the answer to a write with what the model did.
func (w *twin) wrote(what string, before entry, done, old, succeeded bool, revision int64, kv *mvccpb.KeyValue) {
	w.t.Helper()
	w.same(what, done, succeeded)
	w.same(what, w.model.revision(), revision)
	var want entry
	if !done && old {
		want = before
	}
	w.same(what, want.value, string(kv.GetValue()))
	w.same(what, want.written, kv.GetModRevision())
}

func (w *twin) failed(what string, want, got error) bool {
	w.t.Helper()
	if !errors.Is(got, want) {
		w.t.Errorf("%s: the error is %v, and of the model %v", what, got, want)
	}
	return want != nil || got != nil
}

func (w *twin) get() {
	key, revision := w.key(), w.revision()
	what := fmt.Sprint("get ", key, " at ", revision)
	response, err := w.client.Get(w.t.Context(), key, kubernetes.GetOptions{Revision: revision})
	state, want := w.model.state(revision)
	if w.failed(what, want, err) {
		return
	}
	w.same(what, w.model.revision(), response.Revision)
	w.same(what, state[key].value, string(response.KV.GetValue()))
	w.same(what, state[key].written, response.KV.GetModRevision())
}

func (w *twin) list() {
	prefix := prefixes[w.IntN(len(prefixes))]
	o := kubernetes.ListOptions{Revision: w.revision(), Limit: w.Int64N(5)}
	if w.IntN(3) == 0 {
		o.Continue = prefix + "2\x00"
	}
	what := fmt.Sprintf("list %s with %+v", prefix, o)
	response, err := w.client.List(w.t.Context(), prefix, o)
	want, count, wantErr := w.model.list(prefix, o)
	if w.failed(what, wantErr, err) {
		return
	}
	var got []keyValue
	for _, kv := range response.Kvs {
		got = append(got, keyValue{string(kv.Key), string(kv.Value), kv.ModRevision})
	}
	w.same(what, want, got)
	w.same(what, count, response.Count)
	w.same(what, w.model.revision(), response.Revision)
	if o.Revision == 0 && o.Continue == "" {
		counted, err := w.client.Count(w.t.Context(), prefix, kubernetes.CountOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.same(what, count, counted)
	}
}

func (w *twin) compactSome() {
	revision := w.model.revision() - w.Int64N(10)
	if revision <= w.model.compacted {
		return
	}
	for _, one := range w.watches { // a real etcd may have sent any part of what they have to read
		w.observe(one)
		if w.slow && !one.delivered {
			one.responses = nil // the compaction may come before its beginning
		}
	}
	w.compact(revision)
	w.model.compact(revision)
}

func (w *twin) watch() {
	one := &observed{prefix: prefixes[w.IntN(len(prefixes))], next: w.revision()}
	if one.next == 0 { // a real etcd begins with the latest revision at an unknown time
		one.next = w.model.revision() + 1
	}
	one.compacted = one.next < w.model.compacted
	one.responses = w.client.Watch(w.t.Context(), one.prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithRev(one.next))
	w.watches = append(w.watches, one)
}

// observe compares what a watch delivers with the changes since the last time.
func (w *twin) observe(one *observed) {
	w.t.Helper()
	if one.responses == nil {
		return
	}
	what := fmt.Sprintf("watch %s from %d", one.prefix, one.next)
	if one.compacted {
		response := <-one.responses
		w.failed(what, rpctypes.ErrCompacted, response.Err())
		w.same(what, w.model.compacted, max(response.CompactRevision, w.model.compacted))
		if response, ok := <-one.responses; ok {
			w.t.Errorf("%s: after its end, it delivers %+v", what, response)
		}
		one.responses = nil
		return
	}
	if one.next > w.model.revision() {
		return
	}
	want := w.model.since(one.prefix, one.next)
	var got []change
	for len(got) < len(want) {
		response, ok := <-one.responses
		if !ok || response.Err() != nil {
			w.t.Errorf("%s: it ends with %v", what, response.Err())
			return
		}
		for _, e := range response.Events {
			got = append(got, change{revision: e.Kv.ModRevision, key: string(e.Kv.Key), value: string(e.Kv.Value),
				old: string(e.PrevKv.GetValue()), created: e.IsCreate()})
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(change{})); diff != "" {
		w.t.Errorf("%s: -model +etcd\n%s", what, diff)
	}
	one.next, one.delivered = w.model.revision()+1, one.delivered || len(got) > 0
}

// TestWatchFallsBehind shows that a watch whose client does not read loses what is compacted.
func TestWatchFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := New()
		client := etcd.Client(t.Context())
		put := func(key string) {
			if _, err := client.OptimisticPut(t.Context(), key, []byte("v"), 0, kubernetes.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		responses := client.Watch(t.Context(), "/", clientv3.WithPrefix())
		put("/a")
		synctest.Wait() // until the watch has read /a, and waits for its client
		put("/b")
		put("/c")
		etcd.Compact(etcd.Revision())
		if first := <-responses; len(first.Events) != 1 || string(first.Events[0].Kv.Key) != "/a" {
			t.Errorf("the first response is %+v, want /a", first)
		}
		second := <-responses
		if !errors.Is(second.Err(), rpctypes.ErrCompacted) || second.CompactRevision != etcd.Revision() {
			t.Errorf("the second response is %+v, want the error of the compaction", second)
		}
		if last, ok := <-responses; ok {
			t.Errorf("the watch goes on with %+v", last)
		}
	})
}

// TestWatchEnds shows that a watch ends with its context, and is forgotten.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := New()
		ctx, cancel := context.WithCancel(t.Context())
		responses := etcd.Client(t.Context()).Watch(ctx, "/", clientv3.WithPrefix())
		cancel()
		if last, ok := <-responses; ok {
			t.Errorf("the watch delivers %+v", last)
		}
		synctest.Wait()
		if n := len(etcd.watches); n > 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// TestRestore shows that keys have the revisions of the backup again, that later ones are beyond
// those that were lost, and that no watch goes on.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := New()
		client := etcd.Client(t.Context())
		put := func(key, value string, expected int64) int64 {
			response, err := client.OptimisticPut(t.Context(), key, []byte(value), expected, kubernetes.PutOptions{})
			if err != nil || !response.Succeeded {
				t.Fatalf("writing %s after revision %d: %+v, %v", key, expected, response, err)
			}
			return response.Revision
		}
		first := put("/a", "1", 0)
		second := put("/b", "1", 0)
		watched := client.Watch(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithRev(second+1))
		put("/a", "2", first)
		if deleted, err := client.OptimisticDelete(t.Context(), "/b", second, kubernetes.DeleteOptions{}); err != nil ||
			!deleted.Succeeded {
			t.Fatalf("deleting: %+v, %v", deleted, err)
		}
		lost := put("/c", "1", 0)

		changes := etcd.Restore(second)
		var keys []string
		for _, c := range changes {
			keys = append(keys, fmt.Sprintf("%v %s", c.Type, c.Kv.Key))
		}
		if diff := cmp.Diff([]string{"PUT /a", "PUT /b", "DELETE /c"}, keys); diff != "" {
			t.Errorf("changes (-want +got)\n%s", diff)
		}
		for key, want := range map[string]keyValue{"/a": {"/a", "1", first}, "/b": {"/b", "1", second}} {
			got, err := client.Kubernetes.Get(t.Context(), key, kubernetes.GetOptions{})
			if err != nil || string(got.KV.Value) != want.Value || got.KV.ModRevision != want.Written {
				t.Errorf("%s is %+v, %v; want %+v", key, got.KV, err, want)
			}
		}
		for response := range watched {
			if len(response.Events) == 0 && !errors.Is(response.Err(), rpctypes.ErrCompacted) {
				t.Errorf("the watch ends with %v", response.Err())
			}
		}
		if _, err := client.List(t.Context(), "/", kubernetes.ListOptions{Revision: lost}); !errors.Is(err,
			rpctypes.ErrCompacted) {
			t.Errorf("reading what was lost: %v", err)
		}
		if next := put("/a", "3", first); next <= lost {
			t.Errorf("the next revision is %d, after %d", next, lost)
		}
		etcd.Compact(etcd.Revision())
		listed, err := client.List(t.Context(), "/", kubernetes.ListOptions{})
		if err != nil || len(listed.Kvs) != 2 || string(listed.Kvs[0].Value) != "3" {
			t.Errorf("after all, there are %+v, %v", listed.Kvs, err)
		}
	})
}
