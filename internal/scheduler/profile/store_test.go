// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// generation is an instance whose only plugin counts how often it is closed.
type generation struct {
	*Instance
	closes  atomic.Int32
	retired bool // according to the model
}

func (g *generation) Name() string { return "Counting" }

func (g *generation) Close() error {
	g.closes.Add(1)
	return nil
}

// generations makes instances and finds them again.
type generations struct {
	env    *Environment
	source *informers.Source
	all    map[*Instance]*generation
}

func newGenerations() *generations {
	gs := &generations{
		env:    &Environment{},
		source: informers.NewSource(nil, nil, scheme.Scheme, logr.Discard()),
		all:    map[*Instance]*generation{},
	}
	for _, name := range schedulerNames {
		gs.env.series.use(name) // permanently: to search for the series of each closed one would take most of the time
	}
	return gs
}

// make returns an instance of a scheduler name, or of a shadow or canary by its ID.
func (gs *generations) make(id string) *generation {
	g := &generation{}
	schedulerName, config := id, &resolve.Profile{SchedulerName: id}
	if name, isShadow := strings.CutPrefix(id, "shadow/"); isShadow {
		schedulerName, config = name, &resolve.Profile{Name: name, SchedulerName: name, Shadow: &resolve.Shadow{}}
	}
	if name, isCanary := strings.CutPrefix(id, "canary/"); isCanary {
		schedulerName, config = name, &resolve.Profile{Name: name, SchedulerName: name, Canary: true}
	}
	_, cancel := context.WithCancel(context.Background())
	g.Instance = &Instance{
		Config:    config,
		Queue:     &queue.ProfileSettings{},
		plugins:   &framework.Plugins{QueueSort: &queuesort.PrioritySort{}},
		handle:    &Handle{env: gs.env},
		instances: map[string]fwk.Plugin{"Counting": g},
		scope:     gs.source.NewScope(),
		release:   func() {},
		cancel:    cancel,
		closed:    make(chan struct{}),
	}
	g.Queue.Holder = g.Instance
	gs.env.series.use(schedulerName)
	g.refs.Store(1)
	gs.all[g.Instance] = g
	return g
}

// popper is a Queue in which pods of every scheduler name always wait.
type popper struct {
	mu       sync.Mutex // guards what follows
	settings map[string]*queue.ProfileSettings
	canaries map[string]queue.Canary
	changed  sets.Set[string]
	// entered, if not nil, is called when settings are about to be replaced.
	entered func()
}

func (q *popper) Reconfigure(_ klog.Logger, settings *queue.Settings, changed sets.Set[string]) []*corev1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entered != nil {
		q.entered()
	}
	q.settings, q.canaries, q.changed = settings.Profiles, settings.Canaries, changed
	return nil
}

// pop acts as queue.Queue, and gets the instance from the store.
func (q *popper) pop(store *Store, schedulerName string) *Instance {
	if settings := q.take(schedulerName); settings != nil {
		return store.Popped(settings)
	}
	return nil
}

func (q *popper) take(schedulerName string) *queue.ProfileSettings {
	q.mu.Lock()
	defer q.mu.Unlock()
	settings := q.settings[schedulerName]
	if canary, divided := q.canaries[schedulerName]; divided && settings != nil && canary.Takes(theOwner) {
		settings = canary.Settings
	}
	if settings != nil {
		settings.Holder.Acquire()
	}
	return settings
}

var (
	schedulerNames = []string{"a", "b", "c", "d"}
	shadowIDs      = []string{"shadow/a", "shadow/b"} // of the profiles of these names
	canaryIDs      = []string{"canary/b", "canary/c"}
)

// theOwner is the owner of all pods.
const theOwner = "owner"

// mutate returns a map with random differences from the current one, and the names that differ.
func (gs *generations) mutate(r *rand.Rand, current *Map) (*Map, sets.Set[string]) {
	next, changed := map[string]*Instance{}, sets.New[string]()
	for _, name := range slices.Concat(schedulerNames, shadowIDs, canaryIDs) {
		old := current.ByID(name)
		switch choice := r.IntN(4); {
		case choice == 0:
			next[name] = gs.make(name).Instance
			changed.Insert(name)
		case choice == 1 && old != nil:
			changed.Insert(name)
		case old != nil:
			next[name] = old
		}
		if old != nil && next[name] != old {
			gs.all[old].retired = true
		}
	}
	shares := map[string]Share{}
	for _, name := range schedulerNames {
		shares[name] = Share{Owners: r.IntN(queue.Whole + 1), Salt: name}
	}
	return NewMap(next, schedulerNames[r.IntN(len(schedulerNames))]).WithShares(shares),
		changed.Delete(shadowIDs...).Delete(canaryIDs...)
}

func TestStoreClosesTheSameInstancesAsItsModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	gs := newGenerations()
	store, q := NewStore(), &popper{}
	holders := map[*Instance]int{}

	var held []*Instance
	for step := range 4000 {
		switch choice := r.IntN(10); {
		case choice < 3:
			next, changed := gs.mutate(r, store.Current())
			before := store.Current()
			returned := store.Swap(logr.Discard(), next, q)
			if !returned.Names.Equal(changed) || !q.changed.Equal(changed) {
				t.Fatalf("step %d: the swap changes %v, the store returned %v and told the queue %v", step, changed,
					returned.Names, q.changed)
			}
			for _, name := range schedulerNames {
				if added := next.Get(name) != nil && before.Get(name) == nil; added != returned.Added.Has(name) {
					t.Fatalf("step %d: %q is new: %v, the store returned %v", step, name, added, returned.Added)
				}
			}
			if store.Current() != next {
				t.Fatalf("step %d: the map swapped in is not the current one", step)
			}
		case choice < 7 || len(held) == 0:
			name := schedulerNames[r.IntN(len(schedulerNames))]
			p := q.pop(store, name)
			if want := store.Current().Decides(name, theOwner); p != want {
				t.Fatalf("step %d: acquired %p for %q, the current one is %p", step, p, name, want)
			}
			if p != nil {
				held = append(held, p)
				holders[p]++
			}
			for _, p := range store.Shadows(name) {
				if p != store.Current().ByID("shadow/"+name) {
					t.Fatalf("step %d: acquired a shadow of %q that is not current", step, name)
				}
				held = append(held, p)
				holders[p]++
			}
		default:
			i := r.IntN(len(held))
			p := held[i]
			held = slices.Delete(held, i, i+1)
			holders[p]--
			p.Release(logr.Discard())
		}
		gs.expectClosed(t, holders)
		draining := 0
		for p, n := range holders {
			if store.Current().ByID(p.Config.ID()) != p {
				draining += n
			}
		}
		if got := store.podsDraining(); got != draining {
			t.Fatalf("step %d: %d pods hold retired profiles, the store counts %d", step, draining, got)
		}
	}
	for _, p := range held {
		holders[p]--
		p.Release(logr.Discard())
	}
	gs.expectClosed(t, holders)
	eventually(t, store.Alive).Should(gomega.Equal(len(slices.Collect(store.Current().everything()))))

	must(t, store.Close(quiet(t)))
	for g := range maps.Values(gs.all) {
		if closes := g.closes.Load(); closes != 1 {
			t.Errorf("after the store was closed a profile had been closed %d times", closes)
		}
	}
	eventually(t, store.Alive).Should(gomega.BeZero())
}

// expectClosed waits until the retired instances without holders are closed, and fails if others
// are.
func (gs *generations) expectClosed(t *testing.T, holders map[*Instance]int) {
	t.Helper()
	for p, g := range gs.all {
		if g.retired && holders[p] == 0 {
			<-p.Closed()
			delete(gs.all, p)
			if closes := g.closes.Load(); closes != 1 {
				t.Fatalf("a retired profile of %q was closed %d times", p.SchedulerName(), closes)
			}
		} else if closes := g.closes.Load(); closes != 0 {
			t.Fatalf("a profile of %q (retired: %v, holders: %d) was closed", p.SchedulerName(), g.retired, holders[p])
		}
	}
}

func TestAProfileIsNotClosedUnderAConcurrentHolder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	gs := newGenerations()
	store, q := NewStore(), &popper{}
	var known sync.Map // *Profile to *generation, for the acquirers
	stop := make(chan struct{})
	var acquirers sync.WaitGroup
	var acquired atomic.Int64
	for i := range 4 {
		acquirers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				name := schedulerNames[r.IntN(len(schedulerNames))]
				taken := store.Shadows(name)
				if p := q.pop(store, name); p != nil {
					taken = append(taken, p)
				}
				for _, p := range taken {
					acquired.Add(1)
					g, _ := known.Load(p)
					for range r.IntN(50) {
						if g.(*generation).closes.Load() != 0 {
							t.Error("a profile was closed while it was held")
						}
					}
					p.Release(logr.Discard())
				}
				runtime.Gosched()
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 99))
	for swaps := 0; swaps < 300 || acquired.Load() < 3000; swaps++ {
		next, _ := gs.mutate(r, store.Current())
		for p := range next.everything() {
			known.Store(p, gs.all[p])
		}
		store.Swap(logr.Discard(), next, q)
		for p := range next.everything() {
			if gs.all[p].closes.Load() != 0 {
				t.Fatal("a profile that is current was closed")
			}
		}
		runtime.Gosched()
	}
	close(stop)
	acquirers.Wait()
	gs.expectClosed(t, nil)
	eventually(t, store.Alive).Should(gomega.Equal(len(slices.Collect(store.Current().everything()))))
	must(t, store.Close(quiet(t)))
}

func TestTheStore(t *testing.T) {
	t.Run("has nothing to acquire before the first swap, nor for a name without a profile", func(t *testing.T) {
		gs := newGenerations()
		store, q := NewStore(), &popper{}
		if p := q.pop(store, "a"); p != nil {
			t.Errorf("acquired %v from an empty store", p)
		}
		store.Swap(logr.Discard(), NewMap(map[string]*Instance{"a": gs.make("a").Instance}, "a"), q)
		if p := q.pop(store, "b"); p != nil {
			t.Errorf("acquired %v for a name without a profile", p)
		}
		must(t, store.Close(quiet(t)))
	})

	t.Run("shows the old map until the queue has changed over, and then the new one", func(t *testing.T) {
		gs := newGenerations()
		store := NewStore()
		before, old := (*Map)(nil), store.Current()
		q := &popper{entered: func() { before = store.Current() }}
		next := NewMap(map[string]*Instance{"a": gs.make("a").Instance}, "a")
		store.Swap(logr.Discard(), next, q)
		if before != old || store.Current() != next {
			t.Error("the map did not change after the queue")
		}
		must(t, store.Close(quiet(t)))
	})

	t.Run("keeps what it had if the queue panics", func(t *testing.T) {
		gs := newGenerations()
		store := NewStore()
		q := &popper{}
		old := NewMap(map[string]*Instance{"a": gs.make("a").Instance}, "a")
		store.Swap(logr.Discard(), old, q)
		q.entered = func() { panic("sorry") }
		late := gs.make("a")
		func() {
			defer func() { _ = recover() }()
			store.Swap(logr.Discard(), NewMap(map[string]*Instance{"a": late.Instance}, "a"), q)
		}()
		q.entered = nil
		if p := q.pop(store, "a"); store.Current() != old || p != old.Get("a") {
			t.Errorf("the current map is the old one: %v; popped %p, want %p", store.Current() == old, p, old.Get("a"))
		}
		old.Get("a").Release(logr.Discard())
		late.Discard(logr.Discard())
		must(t, store.Close(quiet(t)))
	})

	t.Run("does not wait for ever for a profile that is held when it is closed", func(t *testing.T) {
		gs := newGenerations()
		store, q := NewStore(), &popper{}
		store.Swap(logr.Discard(), NewMap(map[string]*Instance{"a": gs.make("a").Instance}, "a"), q)
		p := q.pop(store, "a")
		ctx, cancel := context.WithTimeoutCause(quiet(t), 10*time.Millisecond, fmt.Errorf("time is up"))
		defer cancel()
		if err := store.Close(ctx); err == nil || err.Error() != "time is up" {
			t.Errorf("closing returned %v", err)
		}
		p.Release(logr.Discard())
		<-p.Closed()
	})

	t.Run("discards what is swapped in after it was closed", func(t *testing.T) {
		gs := newGenerations()
		store, q := NewStore(), &popper{}
		carried := gs.make("a")
		store.Swap(logr.Discard(), NewMap(map[string]*Instance{"a": carried.Instance}, "a"), q)
		must(t, store.Close(quiet(t)))
		late := gs.make("b")
		if change := store.Swap(logr.Discard(),
			NewMap(map[string]*Instance{"a": carried.Instance, "b": late.Instance}, "a"), q); len(change.Names) != 0 {
			t.Errorf("a closed store reported the changes %v", change.Names)
		}
		<-late.Closed()
		if carried.closes.Load() != 1 || late.closes.Load() != 1 || store.Current().Len() != 0 {
			t.Errorf("closed %d and %d times, %d profiles are current", carried.closes.Load(), late.closes.Load(),
				store.Current().Len())
		}
	})

	for name, test := range map[string]struct {
		do   func(*Instance)
		want string
	}{
		"panics if an instance is released too often": {func(p *Instance) { p.Release(logr.Discard()) },
			`profile "a" released more often than acquired`},
		"panics if a closed instance is acquired": {func(p *Instance) { p.Acquire() },
			`profile "a" acquired after it was released`},
	} {
		t.Run(name, func(t *testing.T) {
			gs := newGenerations()
			g := gs.make("a")
			g.Discard(logr.Discard())
			<-g.Closed()
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), test.want) {
					t.Errorf("recovered %v", r)
				}
			}()
			test.do(g.Instance)
		})
	}
}
