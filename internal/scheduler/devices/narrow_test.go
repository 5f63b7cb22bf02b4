// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"testing"
	"testing/synctest"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestDevicesAreNotFreeBetweenPendingAndAllocated ends a pending allocation after the cache has the
// claim as allocated, and before its handlers have been called. The pod may have failed since the
// answer to the allocation got lost.
func TestDevicesAreNotFreeBetweenPendingAndAllocated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTwin(t, 1)
		claim := func(name string) *resourcev1.ResourceClaim {
			return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				UID: types.UID(name)}}
		}
		w.write(claim("one"))
		allocated := claim("one")
		allocated.Status.Allocation = w.allocation()
		claims := w.n.ResourceClaims()
		if err := claims.SignalClaimPendingAllocation("one", allocated); err != nil {
			t.Fatal(err)
		}
		taken := w.n.index.allAllocated()
		check := func(when string) {
			if got := w.n.index.allAllocated(); !equality.Semantic.DeepEqual(got, taken) {
				t.Errorf("%s: %v, want %v", when, got, taken)
			}
		}

		release := make(chan struct{})
		w.cache.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			if obj.(*resourcev1.ResourceClaim).Name == "other" {
				<-release
			}
		}})
		go w.write(claim("other"))
		synctest.Wait()
		go w.write(allocated)
		synctest.Wait()
		if known, err := claims.Get("default", "one"); err != nil || known.Status.Allocation == nil {
			t.Fatalf("the cache does not have the allocation: %v, %v", known, err)
		}
		ended := false
		go func() { ended = claims.MaybeRemoveClaimPendingAllocation("one", false) }()
		synctest.Wait()
		check("before the handlers")
		close(release)
		synctest.Wait()
		if !ended || claims.GetPendingAllocation("one") != nil {
			t.Error("the allocation is still pending")
		}
		check("after the handlers")
	})
}
