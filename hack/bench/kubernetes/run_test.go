// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// everyOperation is a case that runs the operations, but for those of PodGroups. The ceiling must
// be able to finish it.
const everyOperation = `
- name: Every
  featureGates: {DynamicResourceAllocation: true}
  workloadTemplate:
  - opcode: createNodes
    count: 2
    nodeAllocatableStrategy:
      nodeAllocatable: {attachable-volumes-csi-driver: "7"}
      csiNodeAllocatable: {driver: {count: 7}}
  - opcode: createNodes
    countParam: $nodes
    nodeTemplatePath: node.yaml
    templateParams: {cpu: $cpu|2}
    labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}
  - {opcode: createNodes, count: 1, uniqueNodeLabelStrategy: {labelKey: own}}
  - {opcode: createNamespaces, prefix: set, count: 2, namespaceTemplatePath: namespace.yaml}
  - opcode: createPodSets
    count: 2
    namespacePrefix: set
    createPodsOp: {opcode: createPods, count: 2}
  - {opcode: churn, mode: recreate, number: 1, intervalMilliseconds: 50, templatePaths: [churn.yaml, churned-node.yaml]}
  - {opcode: createPods, count: 2, namespace: gated, podTemplatePath: gated.yaml, skipWaitToCompletion: true}
  - {opcode: barrier, stageRequirement: Attempted, namespaces: [gated]}
  - {opcode: startCollectingMetrics, name: volumes, namespaces: [volumes]}
  - opcode: createPods
    count: 3
    namespace: volumes
    persistentVolumeTemplatePath: pv.yaml
    persistentVolumeClaimTemplatePath: pvc.yaml
  - {opcode: stopCollectingMetrics}
  - {opcode: deletePods, namespace: volumes, deletePodsPerSecond: 100, skipWaitToCompletion: true}
  - {opcode: updateAny, namespace: gated, templatePath: ungated.yaml, count: 2, updatePerSecond: 100}
  - {opcode: barrier, namespaces: [gated]}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createAny, templatePath: slice.yaml, countParam: $nodes}
  - {opcode: createAny, templatePath: claim.yaml, namespace: init, count: 2}
  - {opcode: allocResourceClaims, namespace: init}
  - {opcode: createAny, templatePath: claimtemplate.yaml, namespace: devices}
  - {opcode: createPods, namespace: devices, count: 2, podTemplatePath: claiming.yaml, collectMetrics: true}
  - {opcode: sleep, duration: 1ms}
  - {opcode: createPods, count: 3, steadyState: true, duration: 5s, collectMetrics: true}
  workloads:
  - {name: once, params: {nodes: 2}}
`

// filesOfEvery are the templates of the case.
var filesOfEvery = map[string]string{
	"node.yaml": `{apiVersion: v1, kind: Node, metadata: {name: "node-{{.Index}}"}, status: {
  capacity: {pods: "9", cpu: "{{.cpu}}"}, allocatable: {pods: "9", cpu: "{{.cpu}}"}}}`,
	"namespace.yaml":    `{apiVersion: v1, kind: Namespace, metadata: {labels: {team: a}}}`,
	"churn.yaml":        `{apiVersion: v1, kind: ConfigMap, metadata: {generateName: churn-}}`,
	"churned-node.yaml": `{apiVersion: v1, kind: Node, metadata: {generateName: churn-}}`,
	"gated.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: "gated-{{.Index}}"}, spec: {
  schedulingGates: [{name: example.com/hold}], containers: [{name: c, image: i}]}}`,
	"ungated.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: "gated-{{.Index}}"}, spec: {
  containers: [{name: c, image: i}]}}`,
	"pv.yaml": `{apiVersion: v1, kind: PersistentVolume, spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi},
  csi: {driver: driver}, persistentVolumeReclaimPolicy: Retain}}`,
	"pvc.yaml": `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {
  annotations: {pv.kubernetes.io/bind-completed: "true"}}, spec: {accessModes: [ReadOnlyMany],
  resources: {requests: {storage: 1Gi}}}}`,
	"class.yaml": `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: class}}`,
	"slice.yaml": `{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: "slice-{{.Index}}"}, spec: {
  driver: driver, nodeName: "node-{{.Index}}", pool: {name: "node-{{.Index}}", resourceSliceCount: 1},
  devices: [{name: d}]}}`,
	"claim.yaml": `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: "claim-{{.Index}}"}, spec: {
  devices: {requests: [{name: r, exactly: {deviceClassName: class}}]}}}`,
	"claimtemplate.yaml": `{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: claims}, spec: {
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: class}}]}}}}`,
	"claiming.yaml": `{apiVersion: v1, kind: Pod, metadata: {generateName: pod-}, spec: {
  resourceClaims: [{name: r, resourceClaimTemplateName: claims}],
  containers: [{name: c, image: i, resources: {claims: [{name: r}]}}]}}`,
}

// TestEveryOperationOnAnAPIServer runs a workload with the ceiling, which needs no program that the
// tests do not have.
func TestEveryOperationOnAnAPIServer(t *testing.T) {
	dir := t.TempDir()
	for name, text := range filesOfEvery {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases, err := parseCases([]byte(everyOperation))
	if err != nil {
		t.Fatal(err)
	}
	cases[0].dir = dir
	p, err := cases[0].Workloads[0].plan(limits{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: &options{limit: time.Minute, setupLimit: time.Minute}}
	o := b.runTurn(t.Context(), &turn{plan: p, contender: ceiling}, t.TempDir())
	if o.status != statusOK {
		t.Fatalf("%s: %s", o.status, o.note)
	}
	var counts []int
	for _, c := range o.collections {
		counts = append(counts, c.scheduledSoFar())
	}
	if len(counts) != 3 || counts[0] != 3 || counts[1] != 2 || counts[2] < 4 {
		t.Errorf("%v pods were scheduled, want 3, 2 and more than 3", counts)
	}
	if cpu := o.collections[2].values()[apiCPU]; cpu <= 0 {
		t.Errorf("the API server took %v ms a pod", cpu)
	}
}
