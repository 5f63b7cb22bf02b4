// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestAssumedCopyDoesNotChangeTheQueuedPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	queued := &schedframework.QueuedPodInfo{PodInfo: info, QueueingParams: schedframework.QueueingParams{Attempts: 3}}
	assumed := assumedCopy(queued, "n1")
	if assumed.Pod.Spec.NodeName != "n1" || assumed.Attempts != 3 {
		t.Errorf("the copy is on %q after %d attempts", assumed.Pod.Spec.NodeName, assumed.Attempts)
	}
	if queued.Pod != pod || pod.Spec.NodeName != "" {
		t.Error("the queued pod has changed")
	}
}

// TestTheCacheHasThePodOfTheCycle looks at the pod that binding.Unconfirmed compares.
func TestTheCacheHasThePodOfTheCycle(t *testing.T) {
	metrics.Register()
	for _, path := range []sidebyside.Path{sidebyside.ScalarPath, sidebyside.FastPath} {
		ctx := klog.NewContext(t.Context(), logr.Discard())
		c := newCycleOn(ctx, t, &slow{point: "none"}, path)
		placed, _, status := c.placeInTime(ctx)
		if !status.IsSuccess() {
			t.Fatal(path, status)
		}
		if known, err := c.loop.Cache.GetPod(placed.Pod.Pod); err != nil || known != placed.Pod.Pod {
			t.Errorf("%s: it has %p, not %p: %v", path, known, placed.Pod.Pod, err)
		}
	}
}
