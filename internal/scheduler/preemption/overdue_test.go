// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAVictimIsOverdueByTheClockOfTheScheduler(t *testing.T) {
	ends := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &ends}}
	for after, want := range map[time.Duration]bool{-time.Hour: false, overdueAfter: false, overdueAfter + 1: true} {
		p := &Plugin{clock: clocktesting.NewFakePassiveClock(ends.Add(after))}
		if got := p.isOverdue(pod); got != want {
			t.Errorf("%v after its grace period: %v, want %v", after, got, want)
		}
		if p.isOverdue(&corev1.Pod{}) {
			t.Error("a pod that is not deleted is overdue")
		}
	}
}
