// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

var errForbidden = apierrors.NewForbidden(coordinationv1.Resource("leases"), KubeScheduler.Name, errors.New("no role"))

// watched is a HolderWatch that runs, with an API server that has a Lease or none.
type watched struct {
	*HolderWatch
	t       *testing.T
	ctx     context.Context
	changes atomic.Int32
	client  *fake.Clientset
	// answer, unless nil, answers lists in place of the API server.
	answer atomic.Pointer[func() ([]coordinationv1.Lease, error)]
}

// inWatched runs a test with a watch of leases, in a bubble of synctest.
func inWatched(t *testing.T, test func(w *watched), leases ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		w := &watched{t: t, ctx: ctx, client: fake.NewClientset(leases...)}
		w.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			answer := w.answer.Load()
			if answer == nil {
				return false, nil, nil
			}
			items, err := (*answer)()
			return true, &coordinationv1.LeaseList{Items: items}, err
		})
		w.HolderWatch = NewHolderWatch(w.client, KubeScheduler, func() { w.changes.Add(1) })
		test(w)
		end()
		synctest.Wait()
	})
}

// run runs the watch.
func (w *watched) run() { go w.Run(w.ctx) }

// lists lets lists have an answer.
func (w *watched) lists(err error, items ...coordinationv1.Lease) {
	answer := func() ([]coordinationv1.Lease, error) { return items, err }
	w.answer.Store(&answer)
}

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: KubeScheduler.Namespace, Name: KubeScheduler.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

// holds updates or creates the Lease.
func (w *watched) holds(holder string, renewed time.Time) {
	w.t.Helper()
	leases := w.client.CoordinationV1().Leases(KubeScheduler.Namespace)
	_, err := leases.Update(w.ctx, leaseOf(holder, renewed), metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(w.ctx, leaseOf(holder, renewed), metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) expect(what, holder string, changes int32) {
	w.t.Helper()
	synctest.Wait()
	if n, seen := w.changes.Load(), w.Seen(); seen != (Sighting{Holder: holder, Known: true}) || n != changes {
		w.t.Errorf("%s: the sighting is %+v after %d changes, want %q after %d", what, seen, n, holder, changes)
	}
}

func TestALeaseIsHeldWhileItIsRenewed(t *testing.T) {
	inWatched(t, func(w *watched) {
		w.run()
		w.expect("there is no lease", "", 1)
		w.holds("a", time.Now().Add(-time.Minute))
		w.expect("a lease that has not been renewed for a minute", "", 1)
		w.holds("a", time.Now().Add(-59*time.Second))
		w.expect("a lease that is renewed by a clock that is slow", "a", 2)
		for range 10 {
			<-time.After(10 * time.Second)
			w.holds("a", time.Now())
		}
		w.expect("a lease that is renewed", "a", 2)
		w.holds("b", time.Now())
		w.expect("another holder", "b", 3)
		<-time.After(14 * time.Second)
		w.expect("before the lease expires", "b", 3)
		<-time.After(2 * time.Second)
		w.expect("after the lease has expired", "", 4)
		w.holds("b", time.Now())
		w.expect("a lease that is renewed after it expired", "b", 5)
		w.holds("", time.Now())
		w.expect("a lease that is released", "", 6)
	})
}

func TestALeaseExpiresOnlyOnceTheAPIServerHasSaidSo(t *testing.T) {
	inWatched(t, func(w *watched) {
		w.holds("a", time.Now())
		w.run()
		w.expect("it is held from the start", "a", 1)
		answer := func() ([]coordinationv1.Lease, error) {
			return []coordinationv1.Lease{*leaseOf("a", time.Now())}, nil
		}
		w.answer.Store(&answer)
		<-time.After(time.Minute)
		w.expect("the watch is late", "a", 1)
		w.lists(errors.New("connection refused"))
		<-time.After(time.Minute)
		w.expect("the API server does not answer", "a", 1)
		w.lists(nil)
		<-time.After(time.Minute)
		w.expect("the lease was deleted", "", 2)

		w.holds("a", time.Now())
		w.lists(errForbidden)
		<-time.After(time.Minute)
		w.expect("the permission is gone", "", 4)
	})
}

func TestALeaseThatIsRenewedDuringTheLastReadIsHeld(t *testing.T) {
	inWatched(t, func(w *watched) {
		w.holds("a", time.Now())
		w.run()
		synctest.Wait()
		answer := func() ([]coordinationv1.Lease, error) {
			resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
			err := w.client.Tracker().Update(resource, leaseOf("b", time.Now()), KubeScheduler.Namespace)
			<-time.After(time.Second) // the informer sees that
			return nil, err
		}
		w.answer.Store(&answer)
		<-time.After(20 * time.Second)
		w.expect("the informer knows more", "b", 2)
	})
}

func TestTheHolderIsKnownWithoutARead(t *testing.T) {
	t.Run("if there is no right to", func(t *testing.T) {
		inWatched(t, func(w *watched) {
			w.lists(errForbidden)
			w.run()
			w.expect("it is refused", "", 1)
			w.lists(nil, *leaseOf("a", time.Now()))
			<-time.After(10 * time.Second)
			w.expect("the right was granted", "a", 2)
		})
	})
	t.Run("after ten seconds", func(t *testing.T) {
		inWatched(t, func(w *watched) {
			answer := func() ([]coordinationv1.Lease, error) { <-w.ctx.Done(); return nil, w.ctx.Err() }
			w.answer.Store(&answer)
			w.client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
				<-w.ctx.Done()
				return true, nil, w.ctx.Err()
			})
			w.run()
			<-time.After(firstReadPatience - time.Millisecond)
			if w.Seen().Known {
				t.Error("it is known too early")
			}
			<-time.After(time.Millisecond)
			w.expect("the API server has not answered", "", 1)
		})
	})
}
