// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestAKubeSchedulerRunsWhileItRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32 // the timer has its own goroutine
		w := &kubeSchedulerWatch{changed: func() { changes.Add(1) }}
		store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		holds := func(holder string, renewed time.Time, first bool) {
			t.Helper()
			if err := store.Update(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: kubeSchedulerLease.Namespace, Name: kubeSchedulerLease.Name},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
				},
			}); err != nil {
				t.Fatal(err)
			}
			w.observe(store, first)
		}
		expect := func(what, holder string, wantChanges int32) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := changes.Load(); w.current != holder || n != wantChanges {
				t.Errorf("%s: the holder is %q after %d changes, want %q after %d", what, w.current, n, holder, wantChanges)
			}
		}

		w.observe(store, true)
		expect("there is no lease", "", 0)
		holds("a", time.Now().Add(-time.Minute), true)
		expect("a lease that has not been renewed for a minute", "", 0)
		holds("a", time.Now().Add(-time.Minute), false)
		expect("a lease that is renewed by a clock that is slow", "a", 1)
		for range 10 {
			<-time.After(10 * time.Second)
			holds("a", time.Now(), false)
		}
		expect("a lease that is renewed", "a", 1)
		holds("b", time.Now(), false)
		expect("another holder", "b", 2)
		<-time.After(14 * time.Second)
		expect("before the lease expires", "b", 2)
		<-time.After(2 * time.Second)
		expect("after the lease has expired", "", 3)
		holds("b", time.Now(), false)
		expect("a lease that is renewed after it expired", "b", 4)
		holds("", time.Now(), false)
		expect("a lease that is released", "", 5)
	})
}
