// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

func TestKindsOfPendingPods(t *testing.T) {
	pod := func(name, kind, owner, cpu, hash string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ux", Name: name, Labels: map[string]string{"pod-template-hash": hash}}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}}
		}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p
	}
	kinds := podKinds{}
	agents := []*corev1.Pod{pod("agent-a", "DaemonSet", "agent", "1", ""), pod("agent-b", "DaemonSet", "agent", "1", "")}
	agents[0].Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	for _, p := range append(agents, pod("web-5d-b", "ReplicaSet", "web-5d", "1", "5d"), pod("web-5d-a", "ReplicaSet", "web-5d", "1", "5d"), pod("web-7c-a", "ReplicaSet", "web-7c", "1", "7c"),
		pod("job-a", "Job", "job", "1", ""), pod("job-b", "Job", "job", "2", ""), pod("one", "", "", "1", ""), pod("two", "", "", "1", "")) {
		kinds.add(p)
	}
	got := map[string]int{}
	for _, kind := range kinds.sorted() {
		got[kind.owner+" "+kind.name] = kind.pods
	}
	want := map[string]int{"daemonset/agent agent-a": 2, "deployment/web web-5d-a": 3, "job/job job-a": 1, "job/job job-b": 1, "pod/one one": 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

var explained = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

func neverFits() *v1alpha1.PodExplanation {
	taint := v1alpha1.Refusal{Plugin: "TaintToleration", Reason: v1alpha1.ReasonUntoleratedTaint, Detail: "taint nvidia.com/gpu=present:NoSchedule"}
	return &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictNeverFits, SchedulerName: "spread", Profile: "spread", Nodes: 119,
		Pending: &v1alpha1.PendingExplanation{
			Groups:      []v1alpha1.NodeGroup{{Nodes: 3, Pools: []string{"gpu"}, Refusals: []v1alpha1.Refusal{taint}}},
			Suggestions: []v1alpha1.Suggestion{{Verified: true, Description: "Let the pod tolerate the taint nvidia.com/gpu=present:NoSchedule of 3 nodes of the pool gpu."}},
		},
	}
}

func TestThePrintedSummary(t *testing.T) {
	web, bare := neverFits(), neverFits()
	bare.Pending.Suggestions = nil
	x := &explainedKinds{
		kinds: []*podKind{
			{namespace: "ux", name: "web-1", owner: "deployment/web", pods: 1900, since: explained.Add(-12 * time.Minute)},
			{namespace: "ux", name: "one", owner: "pod/one", pods: 1, since: explained.Add(-time.Minute)},
		},
		explanations: []*v1alpha1.PodExplanation{web, bare}, others: 5, schedulers: []string{"default-scheduler"}, left: 3, leftKinds: 2,
	}
	var out strings.Builder
	if err := printSummary(terminal.Plain(&out, 80), x, "in namespace ux", explained, false, false); err != nil {
		t.Fatal(err)
	}
	want := `1,901 pending pods in namespace ux, of 2 kinds; profile spread.
PODS    OF               SINCE   WHY
1,900   deployment/web   12m     no node fits (of 119): taint
                                 nvidia.com/gpu=present:NoSchedule. Would help:
                                 Let the pod tolerate the taint
                                 nvidia.com/gpu=present:NoSchedule of 3 nodes of
                                 the pool gpu.
1       pod/one          60s     no node fits (of 119): taint
                                 nvidia.com/gpu=present:NoSchedule
More of each: kubectl livesched explain deployment/web -n ux
5 pending pods of other schedulers: default-scheduler.
Not explained: 3 pending pods of 2 more kinds.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	bare.Profile = "other"
	out.Reset()
	if err := printSummary(terminal.Plain(&out, 80), x, "in all namespaces", explained, true, false); err != nil || !strings.Contains(out.String(), "PODS    NAMESPACE   OF               SINCE   PROFILE   WHY") {
		t.Error(err, out.String())
	}
}

func TestThePodSelectorOfAnObject(t *testing.T) {
	for name, test := range map[string]struct {
		kind     string
		selector any
		want     string
		found    bool
	}{
		"Deployment": {"Deployment", map[string]any{"matchLabels": map[string]any{"app": "web"}}, "app=web", true},
		"Service":    {"Service", map[string]any{"app": "web"}, "app=web", true},
		"CronJob":    {"CronJob", nil, "", false},
		"no labels":  {"Mine", map[string]any{"other": "x"}, "", false},
		"a string":   {"Mine", "app=web", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind, "spec": map[string]any{}}}
			if test.selector != nil {
				object.Object["spec"] = map[string]any{"selector": test.selector}
			}
			got, found, err := selectorOf(object)
			if err != nil || found != test.found || got.String() != test.want {
				t.Errorf("got %v, %v, %v", got, found, err)
			}
		})
	}
}
