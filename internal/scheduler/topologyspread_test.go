// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import . "github.com/onsi/ginkgo/v2"

// topologySpreadScenes are about how far pods have to be spread. Pods with the label app=web count,
// two of which are in zone a and one in zone b where a scene begins with zones.
func topologySpreadScenes() {
	const (
		skewed  = "node(s) didn't match pod topology spread constraints"
		noLabel = skewed + " (missing required label)"
		zones   = `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}, n4: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}}}
`
	)

	DescribeTable("by topology spread constraints:", play,
		Entry("where the fewest are", zones+`
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n3", "n4")),
		Entry("on the one node without any", `
nodes: {n1: {}, n2: {}, n3: {}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n2")),
		Entry("anywhere within a larger skew", zones+`
pod: {labels: {app: web}, onNodes: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}],
  spread: [{maxSkew: 2, topologyKey: zone, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1", "n2")),
		Entry("where all constraints are met together", zones+`
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n4")),
		Entry("nowhere when the constraints exclude each other", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}},
  o1: {nodeName: n3, labels: {app: other}}, o2: {nodeName: n3, labels: {app: other}}}
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: other}}}]}
`, goesNowhere("3 "+skewed)),
		Entry("nowhere when the zone with room has too many", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 4}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesNowhere("1 Insufficient cpu, 1 "+skewed)),
		Entry("nowhere on nodes without the topology's label, which do not count either", `
nodes: {n1: {}, n2: {}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesNowhere("2 "+noLabel)),
		Entry("not by pods of other namespaces", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {theirs: {namespace: team-a, nodeName: n1, labels: {app: web}}, ours: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1")),
		Entry("without counting itself when its own labels do not match", `
nodes: {n1: {labels: {zone: a}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1")),
	)

	DescribeTable("by the least number of domains:", play,
		Entry("not where there is a pod already while domains are too few", `
nodes: {n1: {labels: {zone: a}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 2, labelSelector: {matchLabels: {app: web}}}]}
`, goesNowhere("1 "+skewed)),
		Entry("where there is none yet, also while domains are too few", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 3, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n2")),
		Entry("by the others when domains are enough", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 2, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1", "n2")),
	)

	DescribeTable("by what counts as a domain:", play,
		Entry("not the nodes that the pod cannot choose", `
nodes: {n1: {labels: {zone: a, disk: ssd}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1")),
		Entry("the nodes that it cannot choose, too, if it says so", `
nodes: {n1: {labels: {zone: a, disk: ssd}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [{topologyKey: zone, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, goesNowhere("1 node(s) didn't match Pod's node affinity/selector, 1 "+skewed)),
		Entry("tainted nodes, which it cannot go to", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, goesNowhere("1 "+skewed+", 1 node(s) had untolerated taint(s)")),
		Entry("not tainted nodes if it says so", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1")),
		Entry("tainted nodes that it tolerates", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, tolerations: [{key: only, operator: Exists}], spread: [{topologyKey: zone, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n2")),
		Entry("differently for each constraint", `
nodes:
  n1: {labels: {zone: a, disk: ssd}}
  n2: {labels: {zone: a, disk: ssd}}
  n3: {labels: {zone: b}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [
  {topologyKey: zone, nodeAffinityPolicy: Honor, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n2")),
	)

	DescribeTable("by label keys that a constraint takes over from the pod:", play,
		Entry("counting its own version only", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}, older: {nodeName: n2, labels: {app: web, version: "1"}}, new: {nodeName: n1, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, goesTo("n2")),
		Entry("counting all when it has no such label", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, goesTo("n1")),
	)
}
