// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// nodeAffinity returns the scenes about node selectors and node affinity.
func nodeAffinity() []Table {
	const (
		noMatch = "node(s) didn't match Pod's node affinity/selector"
		racks   = `
nodes: {n1: {labels: {disk: ssd, rack: "1"}}, n2: {labels: {disk: hdd, rack: "20"}}, n3: {labels: {rack: "3"}}}
`
	)

	return []Table{
		{"by required node affinity", []Scene{
			scene("In", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme, hdd]}]}]}
`, GoesTo("n2")),
			scene("In, which no node meets", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}]}
`, GoesNowhere("3 "+noMatch)),
			scene("NotIn, which nodes without the label meet", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: NotIn, values: [ssd, hdd]}]}]}
`, GoesTo("n3")),
			scene("Exists", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: Exists}]}]}
`, GoesTo("n1", "n2")),
			scene("DoesNotExist", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}
`, GoesTo("n3")),
			scene("Gt, which compares numbers", racks+`
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Gt, values: ["3"]}]}]}
`, GoesTo("n2")),
			scene("Lt, which compares numbers", racks+`
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Lt, values: ["3"]}]}]}
`, GoesTo("n1")),
			scene("Gt on what is no number", `
nodes: {n1: {labels: {rack: one}}}
pod: {onNodes: [{matchExpressions: [{key: rack, operator: Gt, values: ["0"]}]}]}
`, GoesNowhere("1 "+noMatch)),
			scene("all expressions of a term", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: Exists}, {key: rack, operator: Lt, values: ["10"]}]}]}
`, GoesTo("n1")),
			scene("any of several terms", racks+`
pod: {onNodes: [{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}, {matchExpressions: [{key: rack, operator: In, values: ["3"]}]}]}
`, GoesTo("n3")),
			scene("the node selector as well", racks+`
pod: {nodeSelector: {disk: ssd}, onNodes: [{matchExpressions: [{key: rack, operator: In, values: ["20"]}]}]}
`, GoesNowhere("3 "+noMatch)),
			scene("the name of a node", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}
`, GoesTo("n2")),
			scene("the name of a node and a label that it does not have", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}], matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}
`, GoesNowhere("1 "+noMatch+", 2 node(s) didn't satisfy plugin(s) [NodeAffinity]")),
			scene("other names than those of some nodes", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}, {key: metadata.name, operator: NotIn, values: [n2]}]}]}
`, GoesTo("n3")),
			scene("the name of a node that there is none of", racks+`
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n9]}]}]}
`, GoesNowhere("3 node(s) didn't satisfy plugin(s) [NodeAffinity]")),
			scene("the names of several nodes, one to each term", `
nodes: {n1: {unschedulable: true}, n2: {}, n3: {}}
pod: {onNodes: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}, {matchFields: [{key: metadata.name, operator: In, values: [n3]}]}]}
`, GoesTo("n3")),
			scene("what the profile adds for all pods", `
nodes: {n1: {labels: {pool: a}}, n2: {labels: {pool: b}}}
pods: {filler: {nodeName: n1, requests: {cpu: 3}}}
pod: {schedulerName: pool-a}
`, GoesTo("n1")),
			atAPIToo("what the profile adds and what the pod asks for", `
nodes: {n1: {labels: {pool: a}}, n2: {labels: {pool: b, disk: ssd}}}
pod: {schedulerName: pool-a, nodeSelector: {disk: ssd}}
`, GoesNowhere("1 "+noMatch+", 1 node(s) didn't match scheduler-enforced node affinity")),
		}},

		{"by the features that nodes declare", []Scene{
			atAPIToo("those that it needs", `
nodes: {n1: {declaredFeatures: [Other]}, n2: {declaredFeatures: [Other, RestartAllContainersOnContainerExits]}}
pod: {restartPolicy: Never, containers: [{restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]}
`, GoesTo("n2")),
			scene("of which no node has those that it needs", `
nodes: {n1: {}, n2: {declaredFeatures: [Other]}}
pod: {restartPolicy: Never, containers: [{restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]}
`, GoesNowhere("2 node(s) didn't match Pod's required features")),
			scene("which do not matter when it needs none", `
nodes: {n1: {declaredFeatures: [Other]}}
pod: {}
`, GoesTo("n1")),
		}},
	}
}
