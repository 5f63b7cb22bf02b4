// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import . "github.com/onsi/ginkgo/v2"

// nodeAffinityScenes are about which nodes pods name.
func nodeAffinityScenes() {
	const (
		noMatch = "node(s) didn't match Pod's node affinity/selector"
		racks   = `
nodes: {n1: {labels: {disk: ssd, rack: "1"}}, n2: {labels: {disk: hdd, rack: "20"}}, n3: {labels: {rack: "3"}}}
`
	)

	DescribeTable("by required node affinity:", play,
		Entry("In", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme, hdd]}]}]}
`, goesTo("n2")),
		Entry("In, which no node meets", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}]}
`, goesNowhere("3 "+noMatch)),
		Entry("NotIn, which nodes without the label meet", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: NotIn, values: [ssd, hdd]}]}]}
`, goesTo("n3")),
		Entry("Exists", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: Exists}]}]}
`, goesTo("n1", "n2")),
		Entry("DoesNotExist", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}
`, goesTo("n3")),
		Entry("Gt, which compares numbers", racks+`
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Gt, values: ["3"]}]}]}
`, goesTo("n2")),
		Entry("Lt, which compares numbers", racks+`
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Lt, values: ["3"]}]}]}
`, goesTo("n1")),
		Entry("Gt on what is no number", `
nodes: {n1: {labels: {rack: one}}}
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Gt, values: ["0"]}]}]}
`, goesNowhere("1 "+noMatch)),
		Entry("all expressions of a term", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: Exists}, {key: rack, operator: Lt, values: ["10"]}]}]}
`, goesTo("n1")),
		Entry("any of several terms", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}, {matchExpressions: [{key: rack, operator: In, values: ["3"]}]}]}
`, goesTo("n3")),
		Entry("the node selector as well", racks+`
pod: {nodeSelector: {disk: ssd}, onNodes: [{matchExpressions: [{key: rack, operator: In, values: ["20"]}]}]}
`, goesNowhere("3 "+noMatch)),
		Entry("the name of a node", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}
`, goesTo("n2")),
		Entry("the name of a node and a label that it does not have", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}], matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}
`, goesNowhere("1 "+noMatch+", 2 node(s) didn't satisfy plugin(s) [NodeAffinity]")),
		Entry("other names than those of some nodes", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}, {key: metadata.name, operator: NotIn, values: [n2]}]}]}
`, goesTo("n3")),
		Entry("the name of a node that there is none of", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n9]}]}]}
`, goesNowhere("3 node(s) didn't satisfy plugin(s) [NodeAffinity]")),
		Entry("the names of several nodes, one to each term", `
nodes: {n1: {unschedulable: true}, n2: {}, n3: {}}
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}, {matchFields: [{key: metadata.name, operator: In, values: [n3]}]}]}
`, goesTo("n3")),
		Entry("what the profile adds for all pods", `
nodes: {n1: {labels: {pool: a}}, n2: {labels: {pool: b}}}
pods: {filler: {nodeName: n1, requests: {cpu: 3}}}
pod: {schedulerName: pool-a}
`, goesTo("n1")),
		Entry("what the profile adds and what the pod asks for", `
nodes: {n1: {labels: {pool: a}}, n2: {labels: {pool: b, disk: ssd}}}
pod: {schedulerName: pool-a, nodeSelector: {disk: ssd}}
`, goesNowhere("1 "+noMatch+", 1 node(s) didn't match scheduler-enforced node affinity")),
	)

	DescribeTable("by the features that nodes declare:", play,
		Entry("those that it needs", `
nodes: {n1: {declaredFeatures: [Other]}, n2: {declaredFeatures: [Other, RestartAllContainersOnContainerExits]}}
pod: {restartPolicy: Never, containers: [{restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]}
`, goesTo("n2")),
		Entry("of which no node has those that it needs", `
nodes: {n1: {}, n2: {declaredFeatures: [Other]}}
pod: {restartPolicy: Never, containers: [{restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]}
`, goesNowhere("2 node(s) didn't match Pod's required features")),
		Entry("which do not matter when it needs none", `
nodes: {n1: {declaredFeatures: [Other]}}
pod: {}
`, goesTo("n1")),
	)
}

// taintScenes are about nodes that do not want every pod.
func taintScenes() {
	const (
		tainted  = "node(s) had untolerated taint(s)"
		cordoned = "node(s) were unschedulable"
	)

	DescribeTable("by taints that keep pods away:", play,
		Entry("where there is none", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}, n2: {}}
pod: {}
`, goesTo("n2")),
		Entry("nowhere when no taint is tolerated", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}, n2: {taints: [{key: leaving, effect: NoExecute}]}}
pod: {}
`, goesNowhere("2 "+tainted)),
		Entry("where it tolerates key, value and effect", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Equal, value: gpu, effect: NoSchedule}]}
`, goesTo("n1")),
		Entry("not where it tolerates another value", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Equal, value: tpu}]}
`, goesNowhere("1 "+tainted)),
		Entry("not where it tolerates another effect", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Exists, effect: NoExecute}]}
`, goesNowhere("1 "+tainted)),
		Entry("where it tolerates the key", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: gpu, effect: NoExecute}]}}
pod: {tolerations: [{key: only, operator: Exists}]}
`, goesTo("n1")),
		Entry("where it tolerates everything", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: leaving, effect: NoExecute}]}}
pod: {tolerations: [{operator: Exists}]}
`, goesTo("n1")),
		Entry("not where it tolerates some of the taints only", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: big, effect: NoExecute}]}}
pod: {tolerations: [{key: only, value: gpu}]}
`, goesNowhere("1 "+tainted)),
		Entry("where several tolerations meet all of the taints", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: big, effect: NoExecute}]}}
pod: {tolerations: [{key: only, value: gpu}, {key: only, value: big}, {key: else}]}
`, goesTo("n1")),
		Entry("where it tolerates being there for a while", `
nodes: {n1: {taints: [{key: leaving, effect: NoExecute}]}}
pod: {tolerations: [{key: leaving, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]}
`, goesTo("n1")),
	)

	DescribeTable("by the taints of node conditions:", play,
		Entry("not where a node is not ready", `
nodes: {n1: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}, n2: {}}
pod: {}
`, goesTo("n2")),
		Entry("where a node is about to lose its pods for not being ready, which all tolerate for some minutes", `
nodes: {n1: {taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]}}
pod: {}
`, goesTo("n1")),
		Entry("not where memory, disk or process ids run out or the network is missing", `
nodes:
  n1: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}]}
  n2: {taints: [{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}]}
  n3: {taints: [{key: node.kubernetes.io/pid-pressure, effect: NoSchedule}]}
  n4: {taints: [{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]}
pod: {}
`, goesNowhere("4 "+tainted)),
		Entry("where it can live with the condition, as DaemonSets' pods can", `
nodes:
  n1: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}]}
  n2: {taints: [{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}]}
pod: {tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists, effect: NoSchedule}]}
`, goesTo("n2")),
		Entry("not where a node is cordoned", `
nodes: {n1: {unschedulable: true}}
pod: {}
`, goesNowhere("1 "+cordoned)),
		Entry("where a node is cordoned that it tolerates", `
nodes: {n1: {unschedulable: true}}
pod: {tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}]}
`, goesTo("n1")),
		Entry("not where a node is cordoned and tainted for it, unless it tolerates", `
nodes: {n1: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}, n2: {taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}
pod: {}
`, goesNowhere("1 "+tainted+", 1 "+cordoned)),
	)

	DescribeTable("by taints that nodes would rather have it stay away with:", play,
		Entry("where there is none", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {}}
pods: {filler: {nodeName: n2, requests: {cpu: 1, memory: 1Gi}}}
pod: {}
`, goesTo("n2")),
		Entry("where there are fewest", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}, {key: slow, effect: PreferNoSchedule}]}, n2: {taints: [{key: busy, effect: PreferNoSchedule}]}}
pod: {}
`, goesTo("n2")),
		Entry("wherever it tolerates them", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {}}
pods: {filler: {nodeName: n2, requests: {cpu: 1, memory: 1Gi}}}
pod: {tolerations: [{key: busy, operator: Exists}]}
`, goesTo("n1")),
		Entry("there, when there is no other place", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {unschedulable: true}}
pod: {}
`, goesTo("n1")),
	)
}
