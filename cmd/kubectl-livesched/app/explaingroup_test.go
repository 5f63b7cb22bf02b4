// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

func TestThePodsOfAGroup(t *testing.T) {
	pod := func(name, cpu string, changes ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podgroup.Label: "train"}}}
		requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		p.Spec.Containers = []corev1.Container{{Name: name, Resources: requests}}
		p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-" + name}} // each pod has its own
		for _, change := range changes {
			change(&p)
		}
		return p
	}
	onNode := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	group := podsOfGroup([]corev1.Pod{
		pod("worker-10", "1"), pod("worker-2", "1"), pod("driver", "4"), pod("bound", "1", onNode),
		pod("ended", "1", onNode, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("other", "1", func(p *corev1.Pod) { p.Labels = nil }),
		pod("native", "1", func(p *corev1.Pod) {
			p.Labels, p.Spec.SchedulingGroup = nil, &corev1.PodSchedulingGroup{PodGroupName: ptr.To("train")}
		}),
	}, "train")
	want := &groupPods{total: 6, onNodes: 1, ended: 1, pending: 4, kinds: [][]string{{"native", "worker-2", "worker-10"}, {"driver"}}}
	if diff := cmp.Diff(want, group, cmp.AllowUnexported(groupPods{})); diff != "" {
		t.Error(diff)
	}
}

func TestThePrintedGroup(t *testing.T) {
	answer, err := json.Marshal(v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictFitsWhenFreed, Message: "No room.",
		Pending: &v1alpha1.PendingExplanation{PodGroup: &v1alpha1.PodGroupFit{Name: "train", Needed: 64, Ready: 66, Fit: 12}},
	})
	if err != nil {
		t.Fatal(err)
	}
	group := &groupPods{total: 70, onNodes: 3, ended: 1, pending: 66}
	for i := range 7 {
		group.kinds = append(group.kinds, []string{fmt.Sprintf("w%d-0", i), fmt.Sprintf("w%d-1", i)}[:1+i%2])
	}
	var out strings.Builder
	if err := printGroup(testTerminal(&out), "train", group, []json.RawMessage{answer, answer}, explained, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Pod group train has 70 pods: 3 on nodes, 66 pending, 1 ended.\n", "\nw1-0, and 1 pod like it:\n",
		"Pod group train: 64 pods must be placed together, and 12 fit now; 66 are ready.\n", "\nNot explained: 7 pods of other kinds.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}
