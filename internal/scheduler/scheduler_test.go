// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
)

func TestTheLoopEndsIfItsLeaderIsTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Config{}).Run(ctx); err != nil { // it never became ready
		t.Error(err)
	}
}

func TestTruncate(t *testing.T) {
	const limit = validation.NoteLengthLimit
	for name, test := range map[string]struct{ message, want string }{
		"an empty message":             {"", ""},
		"one that just fits":           {strings.Repeat("x", limit), strings.Repeat("x", limit)},
		"one a byte too long":          {strings.Repeat("x", limit+1), strings.Repeat("x", limit-4) + " ..."},
		"one with wider characters":    {strings.Repeat("é", limit), strings.Repeat("é", limit/2-2) + " ..."},
		"one that would be cut in one": {"x" + strings.Repeat("é", limit), "x" + strings.Repeat("é", limit/2-3) + " ..."},
	} {
		got := truncate(test.message)
		if got != test.want || len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("%s: got %d bytes, want %d", name, len(got), len(test.want))
		}
	}
}

func TestRejectorsOfAFailure(t *testing.T) {
	fitError := &schedframework.FitError{Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()}}
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Unschedulable).WithPlugin("Refuses"))
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Pending).WithPlugin("Waits"))
	for name, test := range map[string]struct {
		status                 *fwk.Status
		unschedulable, pending int
	}{
		"a refusal names its plugins": {fwk.NewStatus(fwk.Unschedulable).WithError(fitError), 2, 1}, // who waits refuses, too
		"an error names none":         {fwk.AsStatus(errors.New("broken")), 0, 0},
		"no nodes are nobody's fault": {fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(algorithm.ErrNoNodesAvailable), 0, 0},
	} {
		queued := &schedframework.QueuedPodInfo{PodInfo: &schedframework.PodInfo{Pod: &corev1.Pod{}}}
		queued.UnschedulablePlugins = sets.New("of", "the", "last", "attempt")
		f := &failure{pod: queued, status: test.status}
		f.noteRejectors(t.Context())
		if len(queued.UnschedulablePlugins) != test.unschedulable || len(queued.PendingPlugins) != test.pending {
			t.Errorf("%s: unschedulable by %v, pending by %v", name, queued.UnschedulablePlugins, queued.PendingPlugins)
		}
	}
}

func TestAnAssumedCopyLeavesTheQueuedPodAsItIs(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	queued := &schedframework.QueuedPodInfo{PodInfo: info, Attempts: 3}
	assumed := assumedCopy(queued, "n1")
	if assumed.Pod.Spec.NodeName != "n1" || assumed.Attempts != 3 {
		t.Errorf("the copy is on %q after %d attempts", assumed.Pod.Spec.NodeName, assumed.Attempts)
	}
	if queued.Pod != pod || pod.Spec.NodeName != "" {
		t.Error("the queued pod has changed")
	}
}
