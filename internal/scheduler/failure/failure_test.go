// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
)

func TestRejectorsOfAFailure(t *testing.T) {
	fitError := &schedframework.FitError{Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()}}
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Unschedulable).WithPlugin("Refuses"))
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Pending).WithPlugin("Waits"))
	for name, test := range map[string]struct {
		status                 *fwk.Status
		unschedulable, pending int
	}{
		"a refusal names its plugins": {fwk.NewStatus(fwk.Unschedulable).WithError(fitError), 2, 1}, // a plugin that returns Pending also counts as rejecting
		"an error names none":         {fwk.AsStatus(errors.New("broken")), 0, 0},
		"no nodes are nobody's fault": {fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(algorithm.ErrNoNodesAvailable), 0, 0},
	} {
		queued := &schedframework.QueuedPodInfo{PodInfo: &schedframework.PodInfo{Pod: &corev1.Pod{}}}
		queued.UnschedulablePlugins = sets.New("of", "the", "last", "attempt")
		a := Attempt{Pod: queued, Status: test.status}
		a.noteRejectors(t.Context())
		if len(queued.UnschedulablePlugins) != test.unschedulable || len(queued.PendingPlugins) != test.pending {
			t.Errorf("%s: unschedulable by %v, pending by %v", name, queued.UnschedulablePlugins, queued.PendingPlugins)
		}
	}
}
