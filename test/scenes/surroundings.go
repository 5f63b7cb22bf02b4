// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultProfile is the profile of most scenes. It has the default plugins.
const DefaultProfile = "mine"

// Profiles are the specs of the profiles that scenes name, in YAML, by scheduler name.
var Profiles = map[string]string{
	DefaultProfile: "",
	// It restricts pods to the nodes of pool a, whatever their specs.
	"pool-a": `
pluginConfig:
- name: NodeAffinity
  args:
    addedAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]}
`,
	// It packs pods onto nodes.
	"packer": `
pluginConfig:
- name: NodeResourcesFit
  args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`,
	// It prefers nodes whose GPUs are half used. Other preferences hardly matter.
	"shaper": `
pluginConfig:
- name: NodeResourcesFit
  args:
    scoringStrategy:
      type: RequestedToCapacityRatio
      resources: [{name: example.com/gpu, weight: 1}]
      requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 50, score: 10}, {utilization: 100, score: 0}]}
plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`,
	// It spreads pods over zones by default.
	"spreader": `
pluginConfig:
- name: PodTopologySpread
  args:
    defaultingType: List
    defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
`,
	// It gives image locality more weight than other preferences.
	"imagist": `
plugins:
  score:
    disabled: [{name: "*"}]
    enabled: [{name: ImageLocality, weight: 100}, {name: NodeAffinity, weight: 1}]
`,
	// It considers the required pod affinity of other pods in its scores.
	"sociable": `
pluginConfig:
- name: InterPodAffinity
  args: {hardPodAffinityWeight: 100}
`,
	// It ignores the preferences of existing pods.
	"unsociable": `
pluginConfig:
- name: InterPodAffinity
  args: {ignorePreferredTermsOfExistingPods: true}
`,
}

// Namespaces returns the namespaces of scenes besides default.
func Namespaces() []*corev1.Namespace {
	labelled := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	return []*corev1.Namespace{
		labelled("team-a", map[string]string{"team": "a"}), labelled("team-b", map[string]string{"team": "b"}),
		labelled("team-none", nil),
	}
}

// Service returns the service that selects pods with the label app=defaulted.
func Service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "defaulted"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "defaulted"},
			Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// RuntimeClass returns a runtime class whose pods have an overhead of one CPU.
func RuntimeClass() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "sandboxed",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
}
