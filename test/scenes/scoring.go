// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// scoring returns the scenes about the best of several nodes that fit. The nodes differ only in
// what a scene states. If another plugin prefers another node, the scene states that, too.
func scoring() []Table {
	return []Table{
		{"by the room that is left", []Scene{
			scene("where there is most", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1, memory: 2Gi}}}
pod: {}
`, GoesTo("n2")),
			scene("where there is most in proportion to the node", `
nodes: {n1: {allocatable: {cpu: 16, memory: 32Gi}}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 2, memory: 4Gi}}, r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {}
`, GoesTo("n1")),
			scene("sidecars counted with those that are there", `
nodes: {n1: {}, n2: {}}
pods:
  r1: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2, memory: 4Gi}}}], containers: [{resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
  r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {}
`, GoesTo("n2")),
			scene("with a little counted for pods that ask for nothing", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {}}}
pod: {requests: {}}
`, GoesTo("n2")),
			scene("where CPU and memory come to be used more alike, when there is as much of both together", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1750m, memory: 3584Mi}}, r2: {nodeName: n2, requests: {cpu: 3, memory: 1Gi}}}
pod: {requests: {cpu: 100m, memory: 3Gi}}
`, GoesTo("n2")),
			scene("where there is least, if the profile packs", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: packer}
`, GoesTo("n1")),
			atAPIToo("where there is least but enough, if the profile packs", `
nodes: {n1: {}, n2: {}, n3: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 3500m, memory: 2Gi}}, r2: {nodeName: n2, requests: {cpu: 2, memory: 4Gi}}}
pod: {schedulerName: packer, requests: {cpu: 1, memory: 1Gi}}
`, GoesTo("n2")),
			scene("sidecars counted, if the profile packs", `
nodes: {n1: {}, n2: {}}
pods:
  r1: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2, memory: 4Gi}}}], containers: [{resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
  r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {schedulerName: packer}
`, GoesTo("n1")),
			scene("by the shape that the profile gives", `
nodes: {n1: {allocatable: {example.com/gpu: 4}}, n2: {allocatable: {example.com/gpu: 4}}, n3: {allocatable: {example.com/gpu: 4}}}
pods: {r2: {nodeName: n2, requests: {example.com/gpu: 1}}, r3: {nodeName: n3, requests: {example.com/gpu: 3}}}
pod: {schedulerName: shaper, requests: {example.com/gpu: 1}}
`, GoesTo("n2")),
		}},

		{"by the images that are there", []Scene{
			scene("where its image is", `
nodes: {n1: {}, n2: {images: [{names: ["registry.example/pause:1"], sizeBytes: 900000000}]}}
pod: {}
`, GoesTo("n2")),
			scene("where more of its images are", `
nodes:
  n1: {images: [{names: ["registry.example/a:1"], sizeBytes: 900000000}]}
  n2: {images: [{names: ["registry.example/a:1"], sizeBytes: 900000000}, {names: ["registry.example/b:1"], sizeBytes: 900000000}]}
pod: {containers: [{image: "registry.example/a:1"}, {image: "registry.example/b:1"}]}
`, GoesTo("n2")),
			scene("images of init containers counted", `
nodes: {n1: {}, n2: {images: [{names: ["registry.example/setup:1"], sizeBytes: 2000000000}]}}
pod: {initContainers: [{image: "registry.example/setup:1"}], containers: [{}]}
`, GoesTo("n2")),
			atAPIToo("more than by what it prefers, if the profile says so", `
nodes: {n1: {labels: {disk: ssd}}, n2: {images: [{names: ["registry.example/pause:1"], sizeBytes: 900000000}]}}
pod: {schedulerName: imagist, ratherNodes: [{weight: 100, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}
`, GoesTo("n2")),
		}},

		{"by preferred node affinity", []Scene{
			scene("where the heavier preference is met", `
nodes: {n1: {labels: {disk: ssd}}, n2: {labels: {zone: a}}}
pod: {ratherNodes: [
  {weight: 10, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}},
  {weight: 60, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}
`, GoesTo("n2")),
			atAPIToo("where more of its preferences are met", `
nodes: {n1: {labels: {disk: ssd}}, n2: {labels: {zone: a, rack: "1"}}}
pod: {ratherNodes: [
  {weight: 50, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}},
  {weight: 30, preference: {matchExpressions: [{key: zone, operator: Exists}]}},
  {weight: 30, preference: {matchExpressions: [{key: rack, operator: Lt, values: ["9"]}]}}]}
`, GoesTo("n2")),
			scene("by the name of a node", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n2, requests: {cpu: 2, memory: 4Gi}}}
pod: {ratherNodes: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [n2]}]}}]}
`, GoesTo("n2")),
			scene("elsewhere when what it prefers is full", `
nodes: {n1: {labels: {disk: ssd}}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 4}}}
pod: {ratherNodes: [{weight: 100, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}
`, GoesTo("n2")),
		}},

		{"by preferred pod affinity", []Scene{
			scene("near the pods that it likes", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {cache: {nodeName: n2, labels: {app: cache}, requests: {cpu: 1, memory: 2Gi}}}
pod: {ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: cache}}}}]}
`, GoesTo("n2")),
			scene("near those that it likes more", `
nodes: {n1: {}, n2: {}}
pods: {cache: {nodeName: n1, labels: {app: cache}}, db: {nodeName: n2, labels: {app: db}}}
pod: {ratherNear: [
  {weight: 30, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: cache}}}},
  {weight: 70, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}}]}
`, GoesTo("n2")),
			scene("near those of the namespaces that a selector matches", `
nodes: {n1: {}, n2: {}}
pods: {decoy: {namespace: team-a, nodeName: n1, labels: {app: cache}}, cache: {namespace: team-b, nodeName: n2, labels: {app: cache}}}
pod: {ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: b}}, labelSelector: {matchLabels: {app: cache}}}}]}
`, GoesTo("n2")),
			scene("away from the pods that it does not like", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {noisy: {nodeName: n1, labels: {app: noisy}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: noisy}}}}]}
`, GoesTo("n2")),
			atAPIOnly("near those of its version", `
nodes: {n1: {}, n2: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}, v2: {nodeName: n2, labels: {app: web, version: "2"}}}
pod: {labels: {version: "2"}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}}]}
`, GoesTo("n2")),
			atAPIOnly("away from those of other tenants", `
nodes: {n1: {}, n2: {}}
pods: {theirs: {nodeName: n1, labels: {tenant: a}}, ours: {nodeName: n2, labels: {tenant: b}}}
pod: {labels: {tenant: b}, ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: tenant, operator: Exists}]}, mismatchLabelKeys: [tenant]}}]}
`, GoesTo("n2")),
			scene("near the pods that like it", `
nodes: {n1: {}, n2: {}}
pods: {fan: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}}
pod: {labels: {app: star}}
`, GoesTo("n2")),
			scene("away from the pods that do not like it", `
nodes: {n1: {}, n2: {}}
pods:
  hermit: {nodeName: n1, ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}}]}
  filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {labels: {app: noisy}}
`, GoesTo("n2")),
			scene("not by the pods that like it, if the profile does not care for them", `
nodes: {n1: {}, n2: {}}
pods: {fan: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}}
pod: {schedulerName: unsociable, labels: {app: star}}
`, GoesTo("n1")),
			scene("near the pods that need its like, as much as the profile cares", `
nodes: {n1: {}, n2: {}}
pods:
  star: {nodeName: n2, labels: {app: star}}
  dependent: {nodeName: n2, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}]}
  fan: {nodeName: n1, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}
pod: {schedulerName: sociable, labels: {app: star}}
`, GoesTo("n2")),
			scene("but near the pods that like it, when they count for more than those that need its like", `
nodes: {n1: {}, n2: {}}
pods:
  star: {nodeName: n2, labels: {app: star}}
  dependent: {nodeName: n2, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}]}
  fan: {nodeName: n1, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}
pod: {labels: {app: star}}
`, GoesTo("n1")),
		}},

		{"by topology spread constraints that need not be met", []Scene{
			scene("where the fewest are", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n2")),
			atAPIToo("where the fewest are of those that must be", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}, n3: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n1, labels: {app: web}}, w3: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n3")),
			scene("there all the same, when there is no other place", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, unschedulable: true}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, GoesTo("n1")),
			scene("by its own version only", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}, older: {nodeName: n2, labels: {app: web, version: "1"}}, new: {nodeName: n1, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, GoesTo("n2")),
		}},

		// Pods with the label app=defaulted belong to a service.
		{"by topology spread constraints of the profile for pods that have none and that belong together", []Scene{
			atAPIToo("over the zones and nodes, by default", `
nodes:
  n1: {labels: {topology.kubernetes.io/zone: x}}
  n2: {labels: {topology.kubernetes.io/zone: y}}
  n3: {labels: {topology.kubernetes.io/zone: x}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}}
pod: {labels: {app: defaulted}}
`, GoesTo("n2")),
			scene("not by default when nothing selects them together", `
nodes:
  n1: {labels: {topology.kubernetes.io/zone: x}}
  n2: {labels: {topology.kubernetes.io/zone: y}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {labels: {app: web}}
`, GoesTo("n1")),
			scene("as the profile says", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: spreader, labels: {app: defaulted}}
`, GoesTo("n2")),
			scene("not as the profile says when they have some of their own", `
nodes: {n1: {labels: {zone: a, rack: "1"}}, n2: {labels: {zone: b, rack: "1"}}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: spreader, labels: {app: defaulted}, spread: [{topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: defaulted}}}]}
`, GoesTo("n1")),
		}},
	}
}
