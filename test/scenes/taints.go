// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// taints returns the scenes about taints and tolerations.
func taints() []Table {
	const (
		tainted  = "node(s) had untolerated taint(s)"
		cordoned = "node(s) were unschedulable"
	)

	return []Table{
		{"by taints that keep pods away", []Scene{
			scene("where there is none", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}, n2: {}}
pod: {}
`, GoesTo("n2")),
			scene("nowhere when no taint is tolerated", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}, n2: {taints: [{key: leaving, effect: NoExecute}]}}
pod: {}
`, GoesNowhere("2 "+tainted)),
			scene("where it tolerates key, value and effect", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Equal, value: gpu, effect: NoSchedule}]}
`, GoesTo("n1")),
			scene("not where it tolerates another value", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Equal, value: tpu}]}
`, GoesNowhere("1 "+tainted)),
			scene("not where it tolerates another effect", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pod: {tolerations: [{key: only, operator: Exists, effect: NoExecute}]}
`, GoesNowhere("1 "+tainted)),
			scene("where it tolerates the key", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: gpu, effect: NoExecute}]}}
pod: {tolerations: [{key: only, operator: Exists}]}
`, GoesTo("n1")),
			scene("where it tolerates everything", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: leaving, effect: NoExecute}]}}
pod: {tolerations: [{operator: Exists}]}
`, GoesTo("n1")),
			scene("not where it tolerates some of the taints only", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: big, effect: NoExecute}]}}
pod: {tolerations: [{key: only, value: gpu}]}
`, GoesNowhere("1 "+tainted)),
			atAPIToo("where several tolerations meet all of the taints", `
nodes: {n1: {taints: [{key: only, value: gpu, effect: NoSchedule}, {key: only, value: big, effect: NoExecute}]}}
pod: {tolerations: [{key: only, value: gpu}, {key: only, value: big}, {key: else}]}
`, GoesTo("n1")),
			scene("where it tolerates being there for a while", `
nodes: {n1: {taints: [{key: leaving, effect: NoExecute}]}}
pod: {tolerations: [{key: leaving, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]}
`, GoesTo("n1")),
		}},

		{"by the taints of node conditions", []Scene{
			scene("not where a node is not ready", `
nodes: {n1: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}, n2: {}}
pod: {}
`, GoesTo("n2")),
			atAPIOnly("where a node is about to lose its pods for not being ready, which all tolerate for some minutes",
				`
nodes: {n1: {taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]}}
pod: {}
`, GoesTo("n1")),
			scene("not where memory, disk or process ids run out or the network is missing", `
nodes:
  n1: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}]}
  n2: {taints: [{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}]}
  n3: {taints: [{key: node.kubernetes.io/pid-pressure, effect: NoSchedule}]}
  n4: {taints: [{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]}
pod: {}
`, GoesNowhere("4 "+tainted)),
			scene("where it can live with the condition, as DaemonSets' pods can", `
nodes:
  n1: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}]}
  n2: {taints: [{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}]}
pod: {tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists, effect: NoSchedule}]}
`, GoesTo("n2")),
			scene("not where a node is cordoned", `
nodes: {n1: {unschedulable: true}}
pod: {}
`, GoesNowhere("1 "+cordoned)),
			scene("where a node is cordoned that it tolerates", `
nodes: {n1: {unschedulable: true}}
pod: {tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}]}
`, GoesTo("n1")),
			scene("not where a node is cordoned and tainted for it, unless it tolerates", `
nodes: {n1: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}, n2: {taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}
pod: {}
`, GoesNowhere("1 "+tainted+", 1 "+cordoned)),
		}},

		{"by taints that nodes would rather have it stay away with", []Scene{
			atAPIToo("where there is none", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {}}
pods: {filler: {nodeName: n2, requests: {cpu: 1, memory: 1Gi}}}
pod: {}
`, GoesTo("n2")),
			scene("where there are fewest", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}, {key: slow, effect: PreferNoSchedule}]}, n2: {taints: [{key: busy, effect: PreferNoSchedule}]}}
pod: {}
`, GoesTo("n2")),
			scene("wherever it tolerates them", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {}}
pods: {filler: {nodeName: n2, requests: {cpu: 1, memory: 1Gi}}}
pod: {tolerations: [{key: busy, operator: Exists}]}
`, GoesTo("n1")),
			scene("there, when there is no other place", `
nodes: {n1: {taints: [{key: busy, effect: PreferNoSchedule}]}, n2: {unschedulable: true}}
pod: {}
`, GoesTo("n1")),
		}},
	}
}
