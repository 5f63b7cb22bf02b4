// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

func TestADeferredResize(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.InPlacePodVerticalScalingSchedulerPreemption, true)
	for name, test := range map[string]struct {
		other         string // the CPU of the other pod on the node, which has 4
		schedulerName string
		wait          *queue.Wait
		want          string
	}{
		"that does not fit": {
			"2", "mine", &queue.Wait{PodState: queue.PodState{Place: queue.Unschedulable, Attempts: 3}},
			"The kubelet has deferred a resize of the pod. It does not fit on the node: Insufficient cpu. " +
				"In the queue it is Unschedulable, after 3 attempts to make room."},
		"that fits": {"1", "mine", nil,
			"The kubelet has deferred a resize of the pod. It fits on the node, and waits for the kubelet. " +
				"It is not in the queue."},
		"without a profile": {"2", "other", nil, "The kubelet has deferred a resize of the pod. No SchedulerProfile " +
			`has the scheduler name "other". Scheduler names of the profiles: mine.`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n1", "web", "4", "8Gi")
			c.node("n2", "web", "4", "8Gi")
			c.run(pod("other", test.other, "1Gi"), "n1")
			growing := c.run(pod("growing", "3", "1Gi", func(p *corev1.Pod) {
				p.Spec.SchedulerName = test.schedulerName
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
				}}
				allocated := p.Spec.Containers[0].Resources.Requests.DeepCopy()
				allocated[corev1.ResourceCPU] = resource.MustParse("1")
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: p.Spec.Containers[0].Name, AllocatedResources: allocated,
				}}
			}), "n1")
			k, err := c.Forker.Fork(t.Context())
			c.must(err)
			defer k.Close()
			got, err := explain.Resize(t.Context(), k, growing, test.wait)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
