// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// podAffinity returns the scenes about affinity and anti-affinity between pods.
func podAffinity() []Table {
	const (
		noMatch  = "node(s) didn't match pod affinity rules"
		repelled = "node(s) didn't match pod anti-affinity rules"
		unwanted = "node(s) didn't satisfy existing pods anti-affinity rules"
	)

	return []Table{
		{"by required pod affinity", []Scene{
			atAPIToo("beside the pods that a selector names", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {db: {nodeName: n2, labels: {app: db}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("in their zone, on whichever node", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}, n3: {labels: {zone: b}, unschedulable: false}}
pods: {db: {nodeName: n2, labels: {app: db}, requests: {cpu: 4}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n3")),
			scene("nowhere when there are none", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {db: {nodeName: n2, labels: {app: cache}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("2 "+noMatch)),
			scene("by an expression with In", `
nodes: {n1: {}, n2: {}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: In, values: [cache, db]}]}}]}
`, GoesTo("n1")),
			scene("by an expression with NotIn", `
nodes: {n1: {}, n2: {}}
pods: {db: {nodeName: n1, labels: {app: db}}, cache: {nodeName: n2, labels: {app: cache}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [cache]}, {key: app, operator: Exists}]}}]}
`, GoesTo("n1")),
			scene("by an expression with DoesNotExist", `
nodes: {n1: {}, n2: {}}
pods: {db: {nodeName: n1, labels: {app: db}}, bare: {nodeName: n2}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}]}
`, GoesTo("n2")),
			scene("nowhere when one pod meets but a part of the selector", `
nodes: {n1: {}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: In, values: [db]}, {key: tier, operator: Exists}]}}]}
`, GoesNowhere("1 "+noMatch)),
			scene("beside a pod that meets all of several terms", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}}
pods: {db: {nodeName: n1, labels: {app: db}}, both: {nodeName: n2, labels: {app: db, tier: back}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}, {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {tier: back}}}]}
`, GoesTo("n2")),
			scene("nowhere when each term is met by another pod", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}}
pods: {db: {nodeName: n1, labels: {app: db}}, cache: {nodeName: n2, labels: {app: cache}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}, {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: cache}}}]}
`, GoesNowhere("2 "+noMatch)),
			scene("nowhere on nodes without the topology's label", `
nodes: {n1: {}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("1 "+noMatch)),
			scene("anywhere as the first of a group that wants to be together", `
nodes: {n1: {labels: {zone: a}}, n2: {}}
pod: {labels: {app: db}, nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n1")),
			scene("nowhere as the first of a group that another of its terms has no pod for", `
nodes: {n1: {labels: {zone: a}}}
pod: {labels: {app: db}, nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}, {topologyKey: zone, labelSelector: {matchLabels: {app: cache}}}]}
`, GoesNowhere("1 "+noMatch)),
			scene("beside the group once there is one, not anywhere", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {other: {nodeName: n2, labels: {app: db}}, filler: {nodeName: n2, requests: {cpu: 3500m}}}
pod: {labels: {app: db}, requests: {cpu: 1}, nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("1 Insufficient cpu, 1 "+noMatch)),
		}},

		{"by the namespaces of pod affinity", []Scene{
			scene("the pod's own by default", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-a, nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("2 "+noMatch)),
			scene("its own also when that is another than default", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-a, nodeName: n1, labels: {app: db}}, decoy: {nodeName: n2, labels: {app: db}}}
pod: {namespace: team-a, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n1")),
			scene("those that it lists, without its own", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-a, nodeName: n1, labels: {app: db}}, decoy: {nodeName: n2, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, namespaces: [team-a], labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n1")),
			atAPIToo("those that a selector matches", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-b, nodeName: n2, labels: {app: db}}, decoy: {namespace: team-a, nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: b}}, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("those that it lists and those that a selector matches", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-none, nodeName: n2, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, namespaces: [team-none], namespaceSelector: {matchLabels: {team: b}}, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("all of them by an empty selector", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-none, nodeName: n2, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("none that matches", `
nodes: {n1: {}}
pods: {db: {namespace: team-none, nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("1 "+noMatch)),
			scene("away from pods of the namespaces that a selector matches", `
nodes: {n1: {}, n2: {}}
pods: {db: {namespace: team-a, nodeName: n1, labels: {app: db}}, decoy: {namespace: team-b, nodeName: n2, labels: {app: db}}}
pod: {awayFromPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: a}}, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("away from a pod that wants none of its namespace near", `
nodes: {n1: {}, n2: {}}
pods: {hermit: {namespace: team-a, nodeName: n1, awayFromPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: b}}, labelSelector: {}}]}}
pod: {namespace: team-b}
`, GoesTo("n2")),
			scene("beside a pod that wants none of other namespaces near", `
nodes: {n1: {}}
pods: {hermit: {namespace: team-a, nodeName: n1, awayFromPods: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: b}}, labelSelector: {}}]}}
pod: {namespace: team-none}
`, GoesTo("n1")),
		}},

		{"by required pod anti-affinity", []Scene{
			scene("not beside the pods that a selector names", `
nodes: {n1: {}, n2: {}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("not in their zone, on whichever node", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}, n3: {labels: {zone: b}}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {awayFromPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n3")),
			scene("on nodes without the topology's label", `
nodes: {n1: {}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {awayFromPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n1")),
			scene("not where any of its terms is against it", `
nodes: {n1: {}, n2: {}, n3: {}}
pods: {db: {nodeName: n1, labels: {app: db}}, cache: {nodeName: n2, labels: {app: cache}}}
pod: {awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}, {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: cache}}}]}
`, GoesTo("n3")),
			atAPIToo("not beside pods that want none like it near", `
nodes: {n1: {}, n2: {}}
pods: {hermit: {nodeName: n1, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}]}}
pod: {labels: {app: noisy}}
`, GoesTo("n2")),
			scene("nowhere in the zone of one that wants none like it there", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}}
pods: {hermit: {nodeName: n1, awayFromPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: noisy}}}]}}
pod: {labels: {app: noisy}}
`, GoesNowhere("2 "+unwanted)),
			scene("beside pods that want others away", `
nodes: {n1: {}}
pods: {hermit: {nodeName: n1, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}]}}
pod: {labels: {app: quiet}}
`, GoesTo("n1")),
			scene("where both affinities are met", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: a}}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}], awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
			scene("nowhere when its affinity leads to what its anti-affinity avoids", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {db: {nodeName: n1, labels: {app: db}}}
pod: {nearPods: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}], awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("1 "+noMatch+", 1 "+repelled)),
			scene("nowhere when its affinity leads to a pod that wants it away", `
nodes: {n1: {}, n2: {}}
pods: {db: {nodeName: n1, labels: {app: db}, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}
pod: {labels: {app: web}, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesNowhere("1 "+noMatch+", 1 "+unwanted)),
			scene("away from its own kind", `
nodes: {n1: {}, n2: {}}
pods: {first: {nodeName: n1, labels: {app: db}, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}
pod: {labels: {app: db}, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}
`, GoesTo("n2")),
		}},

		{"by label keys that selectors of pod affinity take over from the pod", []Scene{
			atAPIOnly("beside those of the same value", `
nodes: {n1: {}, n2: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}, v2: {nodeName: n2, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesTo("n2")),
			atAPIOnly("beside those of another value", `
nodes: {n1: {}, n2: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}, v2: {nodeName: n2, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [version]}]}
`, GoesTo("n1")),
			atAPIOnly("away from those of the same value", `
nodes: {n1: {}, n2: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}, v2: {nodeName: n2, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesTo("n1")),
			atAPIOnly("away from those of another value: a node for one tenant", `
nodes: {n1: {}, n2: {}}
pods: {theirs: {nodeName: n1, labels: {tenant: a}}, ours: {nodeName: n2, labels: {tenant: b}}}
pod: {labels: {tenant: b}, awayFromPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: tenant, operator: Exists}]}, mismatchLabelKeys: [tenant]}]}
`, GoesTo("n2")),
			atAPIOnly("nowhere when only others have the value", `
nodes: {n1: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}}
pod: {labels: {app: other, version: "2"}, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesNowhere("1 "+noMatch)),
		}},
	}
}
