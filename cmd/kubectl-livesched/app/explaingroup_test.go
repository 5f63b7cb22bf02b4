// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

func TestThePodsOfAGroup(t *testing.T) {
	pod := func(name, cpu string, changes ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podgroup.Label: "train"}}}
		requests := corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		p.Spec.Containers = []corev1.Container{{Name: name, Resources: requests}}
		p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-" + name}} // each pod has its own
		for _, change := range changes {
			change(&p)
		}
		return p
	}
	onNode := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	counts, kinds := podsOfGroup([]corev1.Pod{
		pod("worker-10", "1"), pod("worker-2", "1"), pod("driver", "4"), pod("bound", "1", onNode),
		pod("ended", "1", onNode, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("other", "1", func(p *corev1.Pod) { p.Labels = nil }),
		pod("native", "1", func(p *corev1.Pod) {
			p.Labels, p.Spec.SchedulingGroup = nil, &corev1.PodSchedulingGroup{PodGroupName: ptr.To("train")}
		}),
	}, "train")
	if want := (print.GroupPods{Total: 6, OnNodes: 1, Ended: 1, Pending: 4}); counts != want {
		t.Errorf("got %+v", counts)
	}
	if len(kinds) != 2 || kinds[0].Name != "native" || kinds[0].Pods != 3 || kinds[1].Name != "driver" ||
		kinds[1].Pods != 1 {
		t.Errorf("got kinds %+v", kinds)
	}
}
