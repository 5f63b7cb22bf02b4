// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is decided by profiles: the default plugins for all but a few scenes.
var stageProfiles = map[string]string{
	"mine": "",
	// Its nodes are those of pool a, whatever pods say.
	"pool-a": `
pluginConfig:
- name: NodeAffinity
  args:
    addedAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]}
`,
	// It fills nodes up.
	"packer": `
pluginConfig:
- name: NodeResourcesFit
  args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`,
	// It likes nodes whose GPUs are half taken, and nothing else matters much.
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
	// It spreads pods over zones unless they say otherwise.
	"spreader": `
pluginConfig:
- name: PodTopologySpread
  args:
    defaultingType: List
    defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
`,
	// It takes what others prefer less seriously than where the images are.
	"imagist": `
plugins:
  score:
    disabled: [{name: "*"}]
    enabled: [{name: ImageLocality, weight: 100}, {name: NodeAffinity, weight: 1}]
`,
	// It reckons with the hard pod affinity of others when it scores.
	"sociable": `
pluginConfig:
- name: InterPodAffinity
  args: {hardPodAffinityWeight: 100}
`,
	// It does not reckon with what pods on the nodes prefer.
	"unsociable": `
pluginConfig:
- name: InterPodAffinity
  args: {ignorePreferredTermsOfExistingPods: true}
`,
}

// Where pods go by their own specs and by what is on the nodes already: scenes that kube-scheduler
// 1.36 plays with the same outcome (see oracle).
var _ = Describe("A pod's place", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx context.Context) {
		// Namespaces cannot be deleted here: nobody would finish that.
		for name, labels := range map[string]map[string]string{"team-a": {"team": "a"}, "team-b": {"team": "b"}, "team-none": nil} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
			Expect(client.IgnoreAlreadyExists(k8s.Create(ctx, namespace))).To(Succeed())
		}
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "defaulted"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "defaulted"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		create(ctx, service)
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, service)).To(Succeed()) })
	})
	stage(stageProfiles)

	podAffinityScenes()
	topologySpreadScenes()
	nodeAffinityScenes()
	taintScenes()
	resourceScenes()
	hostPortScenes()
	scoringScenes()
})
