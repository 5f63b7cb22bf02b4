// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestArguments(t *testing.T) {
	const shape = `"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]`
	for name, c := range map[string]struct {
		plugin, args string
		err          string
		weights      []int64
	}{
		"cpu and memory count by default": {LeastAllocatedName, ``, "", []int64{1, 1}},
		"a weight that is left out is 1": {MostAllocatedName,
			`{"resources": [{"name": "cpu"}, {"name": "memory", "weight": 3}]}`, "", []int64{1, 3}},
		"weights above 100 are reduced": {MostAllocatedName,
			`{"resources": [{"name": "cpu", "weight": 1000}, {"name": "memory", "weight": 250}]}`, "", []int64{4, 1}},
		"the kind of that Kubernetes version is accepted": {MostAllocatedName,
			`{"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "NodeResourcesMostAllocatedArgs"}`, "",
			[]int64{1, 1}},
		"the kind of another plugin is rejected": {MostAllocatedName,
			`{"kind": "NodeResourcesLeastAllocatedArgs"}`, "NodeResourcesMostAllocatedArgs", nil},
		"another group is rejected": {MostAllocatedName, `{"apiVersion": "v1"}`,
			"kubescheduler.config.k8s.io", nil},
		"weights in too large a ratio are rejected": {LeastAllocatedName,
			`{"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 101}]}`,
			"resources: Invalid value: 101", nil},
		"a weight below 0 is rejected": {LeastAllocatedName,
			`{"resources": [{"name": "cpu", "weight": -1}]}`, "resources[0].weight", nil},
		"a resource without a name is rejected": {LeastAllocatedName, `{"resources": [{"weight": 1}]}`,
			"resources[0].name", nil},
		"a resource that is named twice is rejected": {LeastAllocatedName,
			`{"resources": [{"name": "cpu"}, {"name": "cpu"}]}`, "resources[1].name", nil},
		"a shape is for RequestedToCapacityRatio alone": {LeastAllocatedName, `{` + shape + `}`,
			"shape: Forbidden", nil},
		"RequestedToCapacityRatio takes a shape": {RequestedToCapacityRatioName, `{` + shape + `}`, "",
			[]int64{1, 1}},
		"RequestedToCapacityRatio must have a shape": {RequestedToCapacityRatioName, `{}`,
			"shape: Required value", nil},
		"points come by increasing utilization": {RequestedToCapacityRatioName,
			`{"shape": [{"utilization": 9, "score": 0}, {"utilization": 9, "score": 1}]}`, "shape[1].utilization", nil},
		"a score has its bounds": {RequestedToCapacityRatioName,
			`{"shape": [{"utilization": 9, "score": 11}]}`, "shape[0].score", nil},
		"an unknown field is rejected": {MostAllocatedName, `{"resource": []}`,
			`unknown field "resource"`, nil},
		"NodeResourceLimits takes no arguments": {LimitsName, `{"resources": []}`, `unknown field "resources"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := &runtime.Unknown{Raw: []byte(c.args), ContentType: runtime.ContentTypeJSON}
			var fit *schedconfig.NodeResourcesFitArgs
			var err error
			if c.plugin == LimitsName {
				_, err = NewLimits(t.Context(), object, nil)
			} else {
				fit, err = parseArgs(c.plugin, object)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fit.ScoringStrategy.Type != strategies[c.plugin] ||
				len(fit.ScoringStrategy.Resources) != len(c.weights) {
				t.Fatalf("got %+v", fit.ScoringStrategy)
			}
			for i, spec := range fit.ScoringStrategy.Resources {
				if spec.Weight != c.weights[i] {
					t.Errorf("resource %s has weight %d, want %d", spec.Name, spec.Weight, c.weights[i])
				}
			}
		})
	}
}

func limited(lists ...corev1.ResourceList) []corev1.Container {
	var containers []corev1.Container
	for _, list := range lists {
		containers = append(containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: list}})
	}
	return containers
}

func of(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if quantity != "" {
			list[name] = resource.MustParse(quantity)
		}
	}
	return list
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		allocatable      corev1.ResourceList
		containers, init []corev1.Container
		want             int64
	}{
		"a pod without limits prefers no node":        {of("2", "2Gi"), limited(of("", "")), nil, 0},
		"a node that has enough of both is preferred": {of("2", "2Gi"), limited(of("1", "1Gi")), nil, 1},
		"one that has just enough, too": {of("2", "2Gi"), limited(of("1", "2Gi"), of("1", "")),
			nil, 1},
		"enough of one is enough": {of("2", "2Gi"), limited(of("3", "1Gi")), nil, 1},
		"a node that has too little of both is not": {of("2", "2Gi"),
			limited(of("1", "1Gi"), of("2", "2Gi")), nil, 0},
		"a larger init container counts": {of("2", ""), limited(of("1", "")),
			limited(of("3", "")), 0},
		"init containers run one after the other": {of("2", ""), limited(of("1", "")),
			limited(of("2", ""), of("2", "")), 1},
		"a node without allocatable resources is not preferred": {of("", ""), limited(of("1", "1Gi")), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			info := schedframework.NewNodeInfo()
			info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: c.allocatable}})
			plugin, err := NewLimits(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: c.containers, InitContainers: c.init}}
			if got, status := plugin.(Limits).Score(t.Context(), nil, pod, info); got != c.want || !status.IsSuccess() {
				t.Errorf("got %d, %v, want %d", got, status, c.want)
			}
		})
	}
}

// handle has what the plugins need of a handle: a cluster without device classes.
type handle struct{ fwk.Handle }

func (handle) SharedDRAManager() fwk.SharedDRAManager { return noDevices{} }

type noDevices struct{ fwk.SharedDRAManager }

func (n noDevices) DeviceClassResolver() fwk.DeviceClassResolver             { return n }
func (noDevices) GetDeviceClass(corev1.ResourceName) *resourcev1.DeviceClass { return nil }

func TestPluginsSideBySideKeepTheirStateApart(t *testing.T) {
	info := schedframework.NewNodeInfo()
	info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: of("4", "4Gi")}})
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: of("1", "3Gi")}}}}}
	state := schedframework.NewCycleState()
	plugins := map[string]int64{}
	var made []fwk.Plugin
	for _, c := range []struct {
		name, args string
		want       int64
	}{
		{LeastAllocatedName, `{"resources": [{"name": "cpu"}]}`, 75},
		{MostAllocatedName, `{"resources": [{"name": "memory"}]}`, 75},
		{RequestedToCapacityRatioName, `{"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": ` +
			`10}], "resources": [{"name": "memory"}, {"name": "cpu"}]}`, 50},
	} {
		plugin, err := newStrategy(t.Context(), c.name, &runtime.Unknown{Raw: []byte(c.args)}, handle{})
		if err != nil {
			t.Fatal(err)
		}
		if status := plugin.(fwk.PreScorePlugin).PreScore(t.Context(), state, pod, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		plugins[c.name] = c.want
		made = append(made, plugin)
	}
	for _, plugin := range made {
		if got, status := plugin.(fwk.ScorePlugin).
			Score(t.Context(), state, pod, info); got != plugins[plugin.Name()] || !status.IsSuccess() {
			t.Errorf("%s scores %d (%v), want %d", plugin.Name(), got, status, plugins[plugin.Name()])
		}
	}
}
