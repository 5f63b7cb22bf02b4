// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// hanging is a PreEnqueue plugin that returns when goOn is closed.
type hanging struct{ entered, goOn chan struct{} }

func (hanging) Name() string { return "Hanging" }

func (h hanging) PreEnqueue(context.Context, *corev1.Pod) *fwk.Status {
	close(h.entered)
	<-h.goOn
	return nil
}

func TestHealthy(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	clock := clocktesting.NewFakeClock(began)
	// A goroutine of the probe takes the queue's lock.
	const patience = time.Minute
	healthy := func(t *testing.T, s *Scheduler) {
		t.Helper()
		if err := s.Healthy(); err != nil {
			t.Errorf("%v into it: %v", clock.Since(began), err)
		}
	}
	sick := func(t *testing.T, s *Scheduler, message string) {
		t.Helper()
		if err := s.Healthy(); err == nil || !strings.Contains(err.Error(), message) ||
			!strings.Contains(err.Error(), began.Format(time.RFC3339)) {
			t.Errorf("%v into it: %v", clock.Since(began), err)
		}
	}

	t.Run("not while a cycle goes on for longer than any should", func(t *testing.T) {
		s := New(Config{Clock: clock})
		healthy(t, s)
		clock.Step(time.Hour)
		healthy(t, s) // it waits for a pod
		began = clock.Now()
		s.heartbeat.Begin(clock.Now())
		clock.Step(stuckAfter)
		healthy(t, s)
		clock.Step(time.Second)
		sick(t, s, "the scheduling cycle that began at ")
		s.heartbeat.End()
		healthy(t, s)
	})

	t.Run("not while a plugin hangs under the queue's lock", func(t *testing.T) {
		schedmetrics.Register()
		s := New(Config{Clock: clock})
		s.parts = &Parts{Queue: queue.New(queue.Config{})}
		close(s.ready)
		plugin := hanging{make(chan struct{}), make(chan struct{})}
		s.parts.Queue.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{
			"mine": {PreEnqueue: []fwk.PreEnqueuePlugin{plugin}},
		}}, sets.New("mine"))
		healthy(t, s)
		gomega.NewWithT(t).Eventually(func() bool {
			s.probe.mu.Lock()
			defer s.probe.mu.Unlock()
			return s.probe.since.IsZero()
		}, patience).Should(gomega.BeTrue())
		clock.Step(time.Hour) // the earlier, answered probe does not count
		go s.parts.Queue.Add(logr.Discard(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "a"},
			Spec:       corev1.PodSpec{SchedulerName: "mine"},
		})
		<-plugin.entered

		began = clock.Now()
		healthy(t, s)
		clock.Step(stuckAfter)
		healthy(t, s)
		clock.Step(time.Second)
		sick(t, s, "the scheduling queue has been locked since ")
		close(plugin.goOn)
		gomega.NewWithT(t).Eventually(s.Healthy, patience).Should(gomega.Succeed())
	})
}
