// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// The handlers sleep between errors, by clocks that do not fit together in several bubbles.
	utilruntime.ErrorHandlers = nil
	leaks.Main(m)
}

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// world is an API server with one Lease.
type world struct {
	*testing.T
	client *fake.Clientset
	// cut makes the renewals of replica a fail, and stall makes them fail only once it is over.
	cut, stall atomic.Bool
}

// inWorld runs a test in a bubble, whose clock jumps.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{T: t, client: fake.NewClientset()}) })
}

// replica is a client-go LeaderElector with a Lock.
type replica struct {
	lock *Lock
	term *Term
	// leads is closed when it leads, and over when its elector has ended.
	leads, over chan struct{}
	stop        context.CancelFunc
}

func (w *world) start(name string) *replica {
	w.Helper()
	return w.startUnready(name, nil)
}

// startUnready starts a replica that is ready to lead when the channel is closed.
func (w *world) startUnready(name string, ready <-chan struct{}) *replica {
	w.Helper()
	term := NewTerm(renewDeadline)
	r := &replica{term: term, leads: make(chan struct{}), over: make(chan struct{})}
	r.lock = NewLock(Config{Namespace: "here", Name: "lease", Identity: name, Client: w.client, Watch: w.client,
		RetryPeriod: retryPeriod, Term: term})
	r.lock.AwaitReady(ready)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(w.Context())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &cuttable{Lock: r.lock, cut: func() bool { return name == "a" && w.isCut() }}, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(r.leads) },
			OnStoppedLeading: func() {}},
	})
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(r.over)
		elector.Run(klog.NewContext(ctx, logr.Discard()))
	}()
	w.Cleanup(func() {
		r.stop()
		<-r.over
	})
	return r
}

// isCut reports whether a renewal of replica a fails.
func (w *world) isCut() bool {
	stalled := w.stall.Load()
	for w.stall.Load() {
		time.Sleep(time.Second) // of the bubble
	}
	return stalled || w.cut.Load()
}

// cuttable is a Lock whose writes fail while it is cut off.
type cuttable struct {
	*Lock
	cut func() bool
}

// Get fails when ctx has ended, as it does with a real client.
func (c *cuttable) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return c.Lock.Get(ctx)
}

func (c *cuttable) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if c.cut() {
		return errors.New("no route to host")
	}
	return c.Lock.Create(ctx, record)
}

func (c *cuttable) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if c.cut() {
		return errors.New("no route to host")
	}
	return c.Lock.Update(ctx, record)
}

// pair starts a leader and a follower that has followed for a while.
func (w *world) pair() (leader, follower *replica) {
	w.Helper()
	leader = w.start("a")
	<-leader.leads
	follower = w.start("b")
	w.pass(time.Minute + 300*time.Millisecond)
	return leader, follower
}

// pass lets time pass on the clock of the test's synctest bubble, and then everything be done that
// is due.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *replica) isLeading() bool { return isClosed(r.leads) }

func (w *world) lease() *coordinationv1.Lease {
	w.Helper()
	lease, err := w.client.CoordinationV1().Leases("here").Get(w.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return lease
}

// hold makes another process the holder.
func (w *world) hold(holder string) {
	w.Helper()
	lease := w.lease()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(holder), ptr.To(metav1.NowMicro())
	w.update(lease)
}

func (w *world) update(lease *coordinationv1.Lease) {
	w.Helper()
	if _, err := w.client.CoordinationV1().Leases("here").
		Update(w.Context(), lease, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// breakWatch makes new watches fail, or never deliver anything.
func (w *world) breakWatch(err error) {
	w.client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewRaceFreeFake(), err
	})
}

func TestAFollowerTakesALeaseThatIsReleasedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		leader, follower := w.pair()
		leader.stop()
		<-leader.over
		synctest.Wait()
		if !follower.isLeading() {
			t.Error("it does not lead")
		}
	})
}

func TestBothReplicasKnowTheHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		leader, follower := w.pair()
		w.pass(renewDeadline)
		expect := func(want string) {
			w.Helper()
			for _, r := range []*replica{leader, follower} {
				if got := r.lock.Holder(); got != want {
					w.Errorf("%s knows the holder %q, want %q", r.lock.Identity(), got, want)
				}
			}
		}
		expect(leader.lock.Identity())
		leader.stop()
		<-leader.over
		synctest.Wait()
		if got := leader.lock.Holder(); got != "" {
			w.Errorf("who has released the lease knows the holder %q", got)
		}
		if got := follower.lock.Holder(); got != follower.lock.Identity() {
			w.Errorf("who has taken the lease knows the holder %q", got)
		}
	})
	if got := NewLock(Config{Term: NewTerm(renewDeadline), Client: fake.NewClientset()}).Holder(); got != "" {
		t.Errorf("before the first read, the holder is %q", got)
	}
}

// deleteLease deletes the Lease.
func (w *world) deleteLease() {
	w.Helper()
	if err := w.client.CoordinationV1().Leases("here").
		Delete(w.Context(), "lease", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// The leader may act until its term ends, since it does not know yet what has happened.
func TestAFollowerWaitsIfTheLeaseIsFreeAndWasNotReleased(t *testing.T) {
	for name, change := range map[string]func(w *world, earlier *coordinationv1.Lease){
		"it is deleted": func(w *world, _ *coordinationv1.Lease) { w.deleteLease() },
		"somebody removes the holder": func(w *world, _ *coordinationv1.Lease) {
			lease := w.lease()
			lease.Spec.HolderIdentity = nil
			w.update(lease)
		},
		"etcd has an earlier release again": (*world).update,
		"etcd has an earlier release again, of a clock that is ahead": func(w *world, earlier *coordinationv1.Lease) {
			earlier.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(time.Hour)))
			w.update(earlier)
		},
		"it is created and released again, by a clock that is late": func(w *world, _ *coordinationv1.Lease) {
			lease := w.lease()
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = nil, ptr.To[int32](releasedSeconds)
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
			w.update(lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				before := w.start("before")
				<-before.leads
				before.stop()
				<-before.over
				earlier := w.lease()
				leader, follower := w.pair()
				w.cut.Store(true)
				renewed := w.lease().Spec.RenewTime.Time
				change(w, earlier)
				w.pass(leaseDuration - time.Since(renewed) - time.Second)
				if follower.isLeading() {
					t.Error("it leads before the lease would have expired")
				}
				w.pass(2 * time.Second)
				if !follower.isLeading() {
					t.Errorf("it does not lead %v after the last renewal", time.Since(renewed))
				}
				if err := leader.term.Check(); !errors.Is(err, ErrOver) {
					t.Errorf("the term of the last leader: %v", err)
				}
			})
		})
	}
}

// Another process may have taken the lease, which nobody can see once the Lease is changed.
func TestAFollowerThatWasOvertakenWaits(t *testing.T) {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	for _, test := range []struct {
		name string
		// first means that there was no Lease before.
		first bool
		// then changes the Lease. refused is what the follower has tried to write, and earlier a
		// release from before the last leader.
		then  func(w *world, refused, earlier *coordinationv1.Lease) error
		waits bool
	}{
		{name: "it is deleted", waits: true,
			then: func(w *world, _, _ *coordinationv1.Lease) error {
				return w.client.Tracker().Delete(leases, "here", "lease")
			}},
		{name: "the first one is deleted", first: true, waits: true,
			then: func(*world, *coordinationv1.Lease, *coordinationv1.Lease) error { return nil }},
		{name: "etcd has an earlier release again", waits: true,
			then: func(w *world, _, earlier *coordinationv1.Lease) error {
				return w.client.Tracker().Update(leases, earlier, "here")
			}},
		{name: "the other process releases it, by a clock that is late",
			then: func(w *world, refused, _ *coordinationv1.Lease) error {
				refused.Spec.HolderIdentity, refused.Spec.LeaseDurationSeconds = nil, ptr.To[int32](releasedSeconds)
				refused.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
				return w.client.Tracker().Update(leases, refused, "here")
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var earlier *coordinationv1.Lease
				if !test.first {
					before := w.start("before")
					<-before.leads
					before.stop()
					<-before.over
					earlier = w.lease()
				}
				var overtaken atomic.Int64
				w.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
					write, ok := action.(clienttesting.UpdateAction) // or one that creates
					if !ok || overtaken.Load() != 0 {
						return false, nil, nil
					}
					refused := write.GetObject().(*coordinationv1.Lease)
					if *refused.Spec.HolderIdentity != "b" {
						return false, nil, nil
					}
					overtaken.Store(time.Now().UnixNano())
					if err := test.then(w, refused.DeepCopy(), earlier); err != nil {
						t.Error(err)
					}
					return true, nil, apierrors.NewConflict(leases.GroupResource(), "lease", errors.New("it was taken"))
				})
				var follower *replica
				if test.first {
					follower = w.start("b")
				} else {
					_, follower = w.pair()
					w.cut.Store(true)
				}
				<-follower.leads
				waited := time.Since(time.Unix(0, overtaken.Load()))
				if test.waits != (waited >= leaseDuration) {
					t.Errorf("it leads %v after another process has written the Lease", waited)
				}
			})
		})
	}
}

func TestALeaderKeepsALeaseThatIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		leader, follower := w.pair()
		w.deleteLease()
		w.pass(time.Minute)
		if err := leader.term.Check(); err != nil || follower.isLeading() {
			t.Errorf("the term of the leader: %v; the follower leads: %v", err, follower.isLeading())
		}
		leader.stop()
		<-leader.over
		synctest.Wait()
		if !follower.isLeading() {
			t.Error("the follower does not lead after the release")
		}
	})
}

func TestAReplicaTakesTheLeaseWhenItIsReady(t *testing.T) {
	for name, exists := range map[string]bool{"there is no Lease": false, "it was released": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if exists {
					before := w.start("before")
					<-before.leads
					before.stop()
					<-before.over
				}
				ready := make(chan struct{})
				r := w.startUnready("a", ready)
				w.pass(time.Second)
				if r.isLeading() {
					t.Error("it leads before it is ready")
				}
				close(ready)
				synctest.Wait()
				if !r.isLeading() {
					t.Error("it does not lead")
				}
			})
		})
	}
}

func TestTheLeaseHasAHolderAlthoughNoReplicaIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.startUnready("a", make(chan struct{}))
		w.pass(readyPatience - time.Second)
		if r.isLeading() {
			t.Error("it leads early")
		}
		w.pass(time.Second)
		if !r.isLeading() {
			t.Error("it does not lead")
		}
	})
}

func TestAReplicaThatIsNotReadyLeavesTheLeaseToOneThatIs(t *testing.T) {
	for name, test := range map[string]struct{ watched, released bool }{
		"it was released":                     {true, true},
		"it has expired":                      {true, false},
		"it was released, and no watch works": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if !test.watched {
					w.breakWatch(errors.New("not today"))
				}
				leader := w.start("a")
				<-leader.leads
				ready, soon := make(chan struct{}), make(chan struct{})
				unready, other := w.startUnready("unready", ready), w.startUnready("other", soon)
				w.pass(time.Minute)
				if test.released {
					leader.stop()
					<-leader.over
				} else {
					w.cut.Store(true)
					w.pass(leaseDuration)
				}
				w.pass(readyPatience - 5*time.Second)
				if other.isLeading() || unready.isLeading() {
					t.Error("one leads before it is ready")
				}
				close(soon)
				synctest.Wait()
				if !other.isLeading() {
					t.Error("the one that is ready does not lead")
				}
				w.pass(time.Minute)
				close(ready)
				w.pass(time.Minute)
				if unready.isLeading() {
					t.Error("the other one leads, too")
				}
				w.handOver(t, other, unready)
			})
		})
	}
}

func TestAReplicaThatIsNotReadyStops(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.startUnready("a", make(chan struct{}))
		w.pass(time.Second)
		r.stop()
		synctest.Wait()
		if !isClosed(r.over) || r.isLeading() {
			t.Errorf("it has stopped: %v, and leads: %v", isClosed(r.over), r.isLeading())
		}
	})
}

func TestAFollowerTakesALeaseThatHasExpired(t *testing.T) {
	for _, watched := range []bool{true, false} {
		inWorld(t, func(w *world) {
			if !watched {
				w.breakWatch(errors.New("not today"))
			}
			_, follower := w.pair()
			w.cut.Store(true)
			renewed := w.lease().Spec.RenewTime.Time
			w.pass(leaseDuration - time.Since(renewed) - time.Second)
			if follower.isLeading() {
				t.Error("it leads before the lease has expired")
			}
			late := time.Second
			if !watched { // it does not see the last renewal when that happens
				late += 2 * retryPeriod
			}
			w.pass(time.Second + late)
			if !follower.isLeading() {
				t.Errorf("it does not lead %v after the last renewal", time.Since(renewed))
			}
		})
	}
}

// handOver stops the leader, and expects another one to lead within the time in which it polls.
func (w *world) handOver(t *testing.T, from, to *replica) {
	t.Helper()
	from.stop()
	<-from.over
	w.pass(2 * retryPeriod)
	if !to.isLeading() {
		t.Error("it does not lead")
	}
}

func TestAFollowerWhoseWatchFailsPolls(t *testing.T) {
	for name, err := range map[string]error{"refused": errors.New("not today"), "silent": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.breakWatch(err)
				leader, follower := w.pair()
				w.pass(2 * time.Minute)
				if follower.isLeading() {
					t.Fatal("it took the lease of another")
				}
				w.handOver(t, leader, follower)
			})
		})
	}
}

func TestAFollowerReadsTheLeaseOnlyWhenItHears(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pair()
		w.client.ClearActions()
		w.pass(5 * time.Minute)
		for _, action := range w.client.Actions() {
			if action.GetVerb() != "update" {
				t.Errorf("it sent %v", action)
			}
		}
	})
}

func TestALeaseSaysWhenItWasAcquired(t *testing.T) {
	inWorld(t, func(w *world) {
		leader, follower := w.pair()
		w.pass(5 * time.Minute)
		leader.stop()
		<-leader.over
		released := time.Now()
		<-follower.leads
		for range 3 {
			if acquired := w.lease().Spec.AcquireTime.Time; acquired.Before(released.Truncate(time.Second)) ||
				acquired.After(released.Add(time.Second)) {
				t.Errorf("released at %v, acquired at %v", released, acquired)
			}
			if renewed := w.lease().Spec.RenewTime.Time; time.Since(renewed) > retryPeriod+time.Second {
				t.Errorf("renewed at %v, which is %v ago", renewed, time.Since(renewed))
			}
			w.pass(time.Minute)
		}
	})
}

func TestALeaderThatLosesItsLeaseDoesNotTakeItAgain(t *testing.T) {
	for _, holder := range []string{"somebody else", ""} {
		inWorld(t, func(w *world) {
			term := NewTerm(renewDeadline)
			lock := NewLock(Config{Namespace: "here", Name: "lease", Identity: "a", Client: w.client, Watch: w.client,
				RetryPeriod: retryPeriod, Term: term})
			record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}
			if err := errors.Join(lock.Create(t.Context(), record), lock.Update(t.Context(), record),
				term.Check()); err != nil {
				t.Fatal(err)
			}
			w.hold(holder)
			seen, _, err := lock.Get(t.Context())
			if err != nil || seen.HolderIdentity != holder {
				t.Errorf("it sees %v, %v", seen, err)
			}
			if err := term.Check(); !errors.Is(err, ErrOver) {
				t.Errorf("its term: %v", err)
			}
			w.hold("")
			if err := lock.Update(t.Context(), record); !errors.Is(err, ErrLost) {
				t.Errorf("it takes the lease again: %v", err)
			}
		})
	}
}

func TestAProcessThatStopsDoesNotTakeTheLease(t *testing.T) {
	for name, during := range map[string]bool{"before": false, "while it takes it": true} {
		inWorld(t, func(w *world) {
			stopping := make(chan struct{})
			stop := sync.OnceFunc(func() { close(stopping) })
			lock := NewLock(Config{Namespace: "here", Name: "lease", Identity: "a", Client: w.client, Watch: w.client,
				RetryPeriod: retryPeriod, Term: NewTerm(renewDeadline), Stopping: stopping})
			if during {
				w.client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					stop()
					return false, nil, nil
				})
			} else {
				stop()
			}
			record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}
			if err := lock.Create(t.Context(), record); !errors.Is(err, ErrStopping) {
				t.Errorf("%s: %v", name, err)
			}
			lease, err := w.client.CoordinationV1().Leases("here").Get(t.Context(), "lease", metav1.GetOptions{})
			if exists := err == nil; exists != during {
				t.Fatalf("%s: the lease exists: %v", name, exists)
			}
			if during && (*lease.Spec.HolderIdentity != "" || *lease.Spec.LeaseDurationSeconds != releasedSeconds) {
				t.Errorf("%s: the lease was not released: %v", name, lease.Spec)
			}
		})
	}
}

// client-go's elector releases the lease that it last knew as its own, even if another process
// holds it by now.
func TestALeaderThatWasStoppedDoesNotReleaseTheLeaseOfAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		leader, follower := w.pair()
		w.stall.Store(true)
		w.pass(2 * leaseDuration)
		if !follower.isLeading() {
			t.Fatal("the follower does not lead")
		}
		w.stall.Store(false)
		<-leader.over
		if holder := ptr.Deref(w.lease().Spec.HolderIdentity, ""); holder != "b" {
			t.Errorf("the lease has the holder %q", holder)
		}
		if err := follower.term.Check(); err != nil {
			t.Errorf("the term of the follower: %v", err)
		}
	})
}

// A renewal of the same process may be executed late, or somebody writes into the Lease.
func TestAReleaseThatFailsIsRepeated(t *testing.T) {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	conflict := apierrors.NewConflict(leases.GroupResource(), "lease", errors.New("it was changed"))
	for name, test := range map[string]struct {
		err      error
		failures int
		// holder is the holder after the failures.
		holder, want string
	}{
		"it was changed":                          {conflict, 1, "a", ""},
		"it was changed again and again":          {conflict, 2 * releaseTries, "a", ""},
		"there is no answer":                      {context.DeadlineExceeded, 1, "a", ""},
		"there is no answer, but it was executed": {context.DeadlineExceeded, 1, "", ""},
		"there is never an answer":                {context.DeadlineExceeded, releaseTries, "a", "a"},
		"another has taken it":                    {conflict, 1, "another", "another"},
		"another has taken it, without an answer": {context.DeadlineExceeded, 1, "another", "another"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				failed := 0
				fail := func(action clienttesting.Action) (bool, runtime.Object, error) {
					lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
					if *lease.Spec.HolderIdentity != "" || failed == test.failures {
						return false, nil, nil
					}
					failed++
					lease = lease.DeepCopy()
					lease.Spec.HolderIdentity = &test.holder
					return true, nil, errors.Join(test.err, w.client.Tracker().Update(leases, lease, "here"))
				}
				w.client.PrependReactor("update", "leases", fail)
				leader := w.start("a")
				<-leader.leads
				leader.stop()
				<-leader.over
				if got := *w.lease().Spec.HolderIdentity; got != test.want {
					t.Errorf("the lease has the holder %q", got)
				}
				if err := leader.term.Check(); !errors.Is(err, ErrOver) {
					t.Errorf("its term: %v", err)
				}
			})
		})
	}
}
