// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// topologySpread returns the scenes about topology spread constraints. They count pods with the
// label app=web: if a scene begins with zones, two are in zone a and one in zone b.
func topologySpread() []Table {
	const (
		skewed  = "node(s) didn't match pod topology spread constraints"
		noLabel = skewed + " (missing required label)"
		zones   = `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}, n4: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}}}
`
	)

	return []Table{
		{"by topology spread constraints", []Scene{
			scene("where the fewest are", zones+`
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n3", "n4")),
			scene("on the one node without any", `
nodes: {n1: {}, n2: {}, n3: {}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n2")),
			scene("anywhere within a larger skew", zones+`
pod: {labels: {app: web}, onNodes: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}],
  spread: [{maxSkew: 2, topologyKey: zone, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1", "n2")),
			atAPIToo("where all constraints are met together", zones+`
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n4")),
			scene("nowhere when the constraints exclude each other", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}, w3: {nodeName: n3, labels: {app: web}},
  o1: {nodeName: n3, labels: {app: other}}, o2: {nodeName: n3, labels: {app: other}}}
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: other}}}]}
`, GoesNowhere("3 "+skewed)),
			scene("nowhere when the zone with room has too many", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 4}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesNowhere("1 Insufficient cpu, 1 "+skewed)),
			scene("nowhere on nodes without the topology's label, which do not count either", `
nodes: {n1: {}, n2: {}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesNowhere("2 "+noLabel)),
			scene("not by pods of other namespaces", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {theirs: {namespace: team-a, nodeName: n1, labels: {app: web}}, ours: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1")),
			scene("without counting itself when its own labels do not match", `
nodes: {n1: {labels: {zone: a}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1")),
		}},

		{"by the least number of domains", []Scene{
			scene("not where there is a pod already while domains are too few", `
nodes: {n1: {labels: {zone: a}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 2, labelSelector: {matchLabels: {app: web}}}]}
`, GoesNowhere("1 "+skewed)),
			atAPIToo("where there is none yet, also while domains are too few", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 3, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n2")),
			scene("by the others when domains are enough", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, minDomains: 2, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1", "n2")),
		}},

		{"by what counts as a domain", []Scene{
			scene("not the nodes that the pod cannot choose", `
nodes: {n1: {labels: {zone: a, disk: ssd}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1")),
			atAPIToo("the nodes that it cannot choose, too, if it says so", `
nodes: {n1: {labels: {zone: a, disk: ssd}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [{topologyKey: zone, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, GoesNowhere("1 node(s) didn't match Pod's node affinity/selector, 1 "+skewed)),
			scene("tainted nodes, which it cannot go to", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}]}
`, GoesNowhere("1 "+skewed+", 1 node(s) had untolerated taint(s)")),
			scene("not tainted nodes if it says so", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1")),
			scene("tainted nodes that it tolerates", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, taints: [{key: only, value: gpu, effect: NoSchedule}]}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, tolerations: [{key: only, operator: Exists}], spread: [{topologyKey: zone, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n2")),
			scene("differently for each constraint", `
nodes:
  n1: {labels: {zone: a, disk: ssd}}
  n2: {labels: {zone: a, disk: ssd}}
  n3: {labels: {zone: b}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, nodeSelector: {disk: ssd}, spread: [
  {topologyKey: zone, nodeAffinityPolicy: Honor, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n2")),
		}},

		{"by label keys that a constraint takes over from the pod", []Scene{
			atAPIToo("counting its own version only", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}, older: {nodeName: n2, labels: {app: web, version: "1"}}, new: {nodeName: n1, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesTo("n2")),
			atAPIToo("counting those with its label only when the selector is empty", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, o1: {nodeName: n2, labels: {app: other}}, o2: {nodeName: n2, labels: {app: other}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {}, matchLabelKeys: [app]}]}
`, GoesTo("n2")),
			scene("counting all when it has no such label", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesTo("n1")),
		}},
	}
}
