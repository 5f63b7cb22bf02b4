// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

func TestKindsOfPendingPods(t *testing.T) {
	pod := func(name, kind, owner, cpu, hash string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ux", Name: name,
			Labels: map[string]string{"pod-template-hash": hash}}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}}
		}
		p.Spec.Containers = []corev1.Container{
			{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p
	}
	kinds := podKinds{}
	agents := []*corev1.Pod{pod("agent-a", "DaemonSet", "agent", "1", ""),
		pod("agent-b", "DaemonSet", "agent", "1", "")}
	agents[0].Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	for _, p := range append(agents, pod("web-5d-b", "ReplicaSet", "web-5d", "1", "5d"),
		pod("web-5d-a", "ReplicaSet", "web-5d", "1", "5d"), pod("web-7c-a", "ReplicaSet", "web-7c", "1", "7c"),
		pod("job-a", "Job", "job", "1", ""), pod("job-b", "Job", "job", "2", ""), pod("one", "", "", "1", ""),
		pod("two", "", "", "1", "")) {
		kinds.add(p)
	}
	got := map[string]int{}
	for _, kind := range kinds.sorted() {
		got[kind.Owner+" "+kind.Name] = kind.Pods
	}
	want := map[string]int{"daemonset/agent agent-a": 2, "deployment/web web-5d-a": 3, "job/job job-a": 1,
		"job/job job-b": 1, "pod/one one": 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
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
