// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
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
