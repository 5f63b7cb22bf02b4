// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"testing"

	"github.com/go-logr/logr"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// oneHandler is an informer with one handler.
type oneHandler struct {
	toolscache.ResourceEventHandler
}

func (o *oneHandler) AddEventHandler(handler toolscache.ResourceEventHandler) (
	toolscache.ResourceEventHandlerRegistration, error) {
	o.ResourceEventHandler = handler
	return nil, nil
}

// TestAClaimThatIsRestoredIsSeen delivers what informers deliver when etcd was restored from a
// backup that is older than the claim's last change.
func TestAClaimThatIsRestoredIsSeen(t *testing.T) {
	claimAt := func(version string, allocated bool) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c",
			ResourceVersion: version}}
		if allocated {
			claim.Status.Allocation = &resourcev1.AllocationResult{}
		}
		return claim
	}
	source := &oneHandler{}
	cache := assumecache.NewAssumeCache(logr.Discard(), restorable{source}, "ResourceClaim", "", nil)
	expect := func(when string, want *resourcev1.ResourceClaim) {
		t.Helper()
		got, err := cache.Get("default/c")
		if err != nil || got != any(want) {
			t.Errorf("%s, the cache has %v, %v; want %v", when, got, err, want)
		}
	}
	free, allocated := claimAt("8", false), claimAt("20", true)
	source.OnAdd(free, true)
	source.OnUpdate(free, allocated)
	expect("after an update", allocated)
	assumed := claimAt("21", true)
	if err := cache.Assume(assumed); err != nil {
		t.Fatal(err)
	}
	source.OnUpdate(allocated, allocated)
	expect("after a resync", assumed)
	source.OnUpdate(allocated, free)
	expect("after the restore", free)
	later := claimAt("30", true)
	source.OnUpdate(free, later)
	expect("after the next update", later)
	source.OnDelete(later)
	if got, err := cache.Get("default/c"); err == nil {
		t.Errorf("the cache has %v", got)
	}
}
