// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

func TestClaimsThatWereCreatedAreAssumedWhenTheyArrive(t *testing.T) {
	for name, test := range map[string]struct {
		extended bool          // resources
		arrives  time.Duration // 0: before it is assumed
		takes    time.Duration
		missing  bool
	}{
		"there already":  {extended: true},
		"a little later": {extended: true, arrives: time.Millisecond, takes: time.Millisecond},
		"too late":       {extended: true, arrives: time.Hour, takes: time.Second, missing: true},

		"other claims, there already":  {},
		"other claims, a little later": {arrives: time.Millisecond, missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTwin(t, 1)
				claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim",
					UID: "uid"}}
				if test.extended {
					claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
				}
				arriving := claim.DeepCopy()
				if test.arrives == 0 {
					w.write(arriving)
				} else {
					timer := time.AfterFunc(test.arrives, func() { w.write(arriving) })
					defer timer.Stop()
				}
				claim.ResourceVersion = "100"
				start := time.Now()
				err := w.n.ResourceClaims().AssumeClaimAfterAPICall(claim)
				if took := time.Since(start); took != test.takes {
					t.Errorf("took %v, want %v", took, test.takes)
				}
				if errors.Is(err, assumecache.ErrNotFound) != test.missing || err != nil && !test.missing {
					t.Errorf("got %v", err)
				}
				if len(w.n.arrivals.waiting) > 0 {
					t.Errorf("still waiting: %v", w.n.arrivals.waiting)
				}
				if known, err := w.n.ResourceClaims().Get("default", "claim"); !test.missing &&
					(err != nil || known != claim) {
					t.Errorf("the cache has %v (%v)", known, err)
				}
			})
		})
	}
}
