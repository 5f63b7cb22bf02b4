// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/config"
)

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.KubeScheduler.Namespace, Name: lease.KubeScheduler.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

// watched is a leaseWatch with the informer's store, and the API server's answer, which is
// the same Lease unless a test sets another one.
type watched struct {
	*leaseWatch
	t       *testing.T
	store   toolscache.Store
	changes atomic.Int32 // the timer has its own goroutine
	answer  atomic.Value // of type answer, which the timer's goroutine calls
}

type answer func() (*coordinationv1.Lease, error)

func newWatched(t *testing.T) *watched {
	w := &watched{t: t, store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
	w.answer.Store(answer(func() (*coordinationv1.Lease, error) {
		object, _, err := w.store.GetByKey(lease.KubeScheduler.String())
		return object.(*coordinationv1.Lease), err
	}))
	w.leaseWatch = &leaseWatch{
		ctx:     t.Context(),
		changed: func() { w.changes.Add(1) },
		read:    func(context.Context) (*coordinationv1.Lease, error) { return w.answer.Load().(answer)() },
	}
	return w
}

func (w *watched) holds(holder string, renewed time.Time, first bool) {
	w.t.Helper()
	if err := w.store.Update(leaseOf(holder, renewed)); err != nil {
		w.t.Fatal(err)
	}
	w.observe(w.store, first)
}

func (w *watched) expect(what, holder string, changes int32) {
	w.t.Helper()
	synctest.Wait()
	if n, seen := w.changes.Load(), w.seen(); seen != (sighting{holder: holder, known: true}) || n != changes {
		w.t.Errorf("%s: the sighting is %+v after %d changes, want %q after %d", what, seen, n, holder, changes)
	}
}

func TestAKubeSchedulerRunsWhileItRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.observe(w.store, true)
		w.expect("there is no lease", "", 1)
		w.holds("a", time.Now().Add(-time.Minute), true)
		w.expect("a lease that has not been renewed for a minute", "", 1)
		w.holds("a", time.Now().Add(-time.Minute), false)
		w.expect("a lease that is renewed by a clock that is slow", "a", 2)
		for range 10 {
			<-time.After(10 * time.Second)
			w.holds("a", time.Now(), false)
		}
		w.expect("a lease that is renewed", "a", 2)
		w.holds("b", time.Now(), false)
		w.expect("another holder", "b", 3)
		<-time.After(14 * time.Second)
		w.expect("before the lease expires", "b", 3)
		<-time.After(2 * time.Second)
		w.expect("after the lease has expired", "", 4)
		w.holds("b", time.Now(), false)
		w.expect("a lease that is renewed after it expired", "b", 5)
		w.holds("", time.Now(), false)
		w.expect("a lease that is released", "", 6)
	})
}

func TestALeaseExpiresOnlyOnceTheAPIServerHasSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.holds("a", time.Now(), true)
		w.answer.Store(answer(func() (*coordinationv1.Lease, error) { return leaseOf("a", time.Now()), nil }))
		<-time.After(time.Minute)
		w.expect("the watch is late", "a", 1)
		w.answer.Store(answer(func() (*coordinationv1.Lease, error) { return nil, errors.New("connection refused") }))
		<-time.After(time.Minute)
		w.expect("the API server does not answer", "a", 1)
		w.answer.Store(answer(func() (*coordinationv1.Lease, error) { return nil, nil }))
		<-time.After(time.Minute)
		w.expect("the lease was deleted", "", 2)

		w.holds("a", time.Now(), false)
		w.answer.Store(answer(func() (*coordinationv1.Lease, error) {
			return nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), lease.KubeScheduler.Name, errors.New("no role"))
		}))
		<-time.After(time.Minute)
		w.expect("the permission is gone", "", 4)
	})
}

func TestAWatchThatBeginsAgainKnowsNothingOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lifetime, end := context.WithCancel(t.Context())
		client := fake.NewClientset(leaseOf("a", time.Now()))
		readable := make(chan struct{}) // a list waits until the test sends
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-readable
			return false, nil, nil
		})
		w := &kubeSchedulerWatch{client: client, lifetime: lifetime, changed: func() {}}
		runs := sighting{holder: "a", known: true}
		for range 3 {
			if seen := w.look(true); seen.known {
				t.Errorf("before the Lease was read, the sighting is %+v", seen)
			}
			readable <- struct{}{}
			synctest.Wait()
			if seen := w.look(true); seen != runs {
				t.Errorf("after the Lease was read, the sighting is %+v", seen)
			}
			if seen := w.look(false); seen != (sighting{known: true}) {
				t.Errorf("without a watch, the sighting is %+v", seen)
			}
		}
		end()
	})
}

func TestALeaseThatDoesNotExistIsKnownNotToBeHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lifetime, end := context.WithCancel(t.Context())
		changes := make(chan struct{}, 1)
		w := &kubeSchedulerWatch{client: fake.NewClientset(), lifetime: lifetime, changed: func() { changes <- struct{}{} }}
		w.look(true)
		<-changes
		if seen := w.look(true); seen != (sighting{known: true}) {
			t.Errorf("the sighting is %+v", seen)
		}
		end()
	})
}

func TestALeaseThatCannotBeReadIsWaitedForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lifetime, end := context.WithCancel(t.Context())
		client := fake.NewClientset()
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-lifetime.Done() // the API server does not answer
			return true, nil, lifetime.Err()
		})
		client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
			<-lifetime.Done()
			return true, nil, lifetime.Err()
		})
		began, changes := time.Now(), make(chan struct{}, 1)
		w := &kubeSchedulerWatch{client: client, lifetime: lifetime, changed: func() { changes <- struct{}{} }}
		w.look(true)
		<-changes
		if seen := w.look(true); seen != (sighting{known: true}) || time.Since(began) != leasePatience {
			t.Errorf("after %v, the sighting is %+v", time.Since(began), seen)
		}
		end()
	})
}

func TestASchedulerNameIsReserved(t *testing.T) {
	const name = corev1.DefaultSchedulerName
	runs, gone, unknown := sighting{holder: "a", known: true}, sighting{known: true}, sighting{}
	active := &v1alpha1.ActiveProfile{Generation: 1}
	stored := config.LastGood{Profiles: map[string][]config.GoodProfile{"standard": {{UID: "1"}}}}
	for _, test := range []struct {
		name              string
		seen              sighting
		schedulerName     string
		off               bool
		status            *v1alpha1.ActiveProfile
		uid               types.UID
		last              last
		reserved, unclear string
	}{
		{name: "while kube-scheduler runs", seen: runs, reserved: name},
		{name: "not after it", seen: gone},
		{name: "as long as that is not known", seen: unknown, unclear: name},
		{name: "not if another scheduler name is", seen: runs, schedulerName: "other"},
		{name: "not if the flag is off", seen: runs, off: true},
		{name: "not for a profile that was active", seen: runs, status: active},
		{name: "not for a profile that was, before it is known", seen: unknown, status: active},
		{name: "not for a profile with a revision", seen: runs, last: last{good: stored}},
		{name: "for a profile that took the name of one with a revision", seen: runs, uid: "2", last: last{good: stored}, reserved: name},
		{name: "not if this replica schedules with it", seen: runs, last: last{scheduled: true, active: activeWith(name)}},
		{name: "if this replica followed with it", seen: runs, last: last{active: activeWith(name)}, reserved: name},
		{name: "if this replica schedules with others", seen: runs, last: last{scheduled: true, active: activeWith("other")}, reserved: name},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.uid == "" {
				test.uid = "1"
			}
			if test.schedulerName == "" {
				test.schedulerName = name
			}
			object := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "standard", UID: test.uid}}
			object.Status.Active = test.status
			cfg := &config.Profile{Name: "standard", UID: test.uid, SchedulerName: test.schedulerName}
			r := &ProfileReconciler{Config: Config{YieldToKubeScheduler: !test.off}, last: test.last}
			reserved, unclear := r.reserved(&pass{
				objects:       objects{profiles: []v1alpha1.SchedulerProfile{object}},
				resolution:    &config.Resolution{Profiles: map[string]*config.Profile{test.schedulerName: cfg}},
				kubeScheduler: test.seen,
			})
			if reserved != test.reserved || unclear != test.unclear {
				t.Errorf("reserved is %q and unclear %q, want %q and %q", reserved, unclear, test.reserved, test.unclear)
			}
		})
	}
}

func activeWith(schedulerName string) active {
	return active{profiles: map[string]*config.Profile{schedulerName: {SchedulerName: schedulerName}}}
}
