// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestSelfSignedCertificatesAreRenewedInTime(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	s := &SelfSigned{Names: []string{"host"}, Clock: clock}
	first, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	clock.SetTime(start.Add(240 * day))
	if again, err := s.GetCertificate(nil); err != nil || again != first {
		t.Errorf("after 240 days: another certificate, error %v", err)
	}
	clock.SetTime(start.Add(250 * day))
	second, err := s.GetCertificate(nil)
	if err != nil || second == first {
		t.Fatalf("after 250 days: the same certificate, error %v", err)
	}
	if left := second.Leaf.NotAfter.Sub(clock.Now()); left < 364*day {
		t.Errorf("the next certificate lasts %v", left/time.Hour)
	}
}
