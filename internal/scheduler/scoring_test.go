// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import . "github.com/onsi/ginkgo/v2"

// scoringScenes are about which of several nodes that fit is best. Nodes are alike but for what a
// scene says, and where something stands against it in the other plugins' eyes, that is said, too.
func scoringScenes() {
	DescribeTable("by the room that is left:", play,
		Entry("where there is most", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1, memory: 2Gi}}}
pod: {}
`, goesTo("n2")),
		Entry("where there is most in proportion to the node", `
nodes: {n1: {allocatable: {cpu: 16, memory: 32Gi}}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 2, memory: 4Gi}}, r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {}
`, goesTo("n1")),
		Entry("sidecars counted with those that are there", `
nodes: {n1: {}, n2: {}}
pods:
  r1: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2, memory: 4Gi}}}], containers: [{resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
  r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {}
`, goesTo("n2")),
		Entry("with a little counted for pods that ask for nothing", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {}}}
pod: {requests: {}}
`, goesTo("n2")),
		Entry("where CPU and memory come to be used more alike, when there is as much of both together", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1750m, memory: 3584Mi}}, r2: {nodeName: n2, requests: {cpu: 3, memory: 1Gi}}}
pod: {requests: {cpu: 100m, memory: 3Gi}}
`, goesTo("n2")),
		Entry("where there is least, if the profile packs", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: packer}
`, goesTo("n1")),
		Entry("where there is least but enough, if the profile packs", `
nodes: {n1: {}, n2: {}, n3: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 3500m, memory: 2Gi}}, r2: {nodeName: n2, requests: {cpu: 2, memory: 4Gi}}}
pod: {schedulerName: packer, requests: {cpu: 1, memory: 1Gi}}
`, goesTo("n2")),
		Entry("sidecars counted, if the profile packs", `
nodes: {n1: {}, n2: {}}
pods:
  r1: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2, memory: 4Gi}}}], containers: [{resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
  r2: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {schedulerName: packer}
`, goesTo("n1")),
		Entry("by the shape that the profile gives", `
nodes: {n1: {allocatable: {example.com/gpu: 4}}, n2: {allocatable: {example.com/gpu: 4}}, n3: {allocatable: {example.com/gpu: 4}}}
pods: {r2: {nodeName: n2, requests: {example.com/gpu: 1}}, r3: {nodeName: n3, requests: {example.com/gpu: 3}}}
pod: {schedulerName: shaper, requests: {example.com/gpu: 1}}
`, goesTo("n2")),
	)

	DescribeTable("by the images that are there:", play,
		Entry("where its image is", `
nodes: {n1: {}, n2: {images: [{names: ["registry.example/pause:1"], sizeBytes: 900000000}]}}
pod: {}
`, goesTo("n2")),
		Entry("where more of its images are", `
nodes:
  n1: {images: [{names: ["registry.example/a:1"], sizeBytes: 900000000}]}
  n2: {images: [{names: ["registry.example/a:1"], sizeBytes: 900000000}, {names: ["registry.example/b:1"], sizeBytes: 900000000}]}
pod: {containers: [{image: "registry.example/a:1"}, {image: "registry.example/b:1"}]}
`, goesTo("n2")),
		Entry("images of init containers counted", `
nodes: {n1: {}, n2: {images: [{names: ["registry.example/setup:1"], sizeBytes: 2000000000}]}}
pod: {initContainers: [{image: "registry.example/setup:1"}], containers: [{}]}
`, goesTo("n2")),
		Entry("more than by what it prefers, if the profile says so", `
nodes: {n1: {labels: {disk: ssd}}, n2: {images: [{names: ["registry.example/pause:1"], sizeBytes: 900000000}]}}
pod: {schedulerName: imagist, ratherNodes: [{weight: 100, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}
`, goesTo("n2")),
	)

	DescribeTable("by preferred node affinity:", play,
		Entry("where the heavier preference is met", `
nodes: {n1: {labels: {disk: ssd}}, n2: {labels: {zone: a}}}
pod: {ratherNodes: [
  {weight: 10, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}},
  {weight: 60, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}
`, goesTo("n2")),
		Entry("where more of its preferences are met", `
nodes: {n1: {labels: {disk: ssd}}, n2: {labels: {zone: a, rack: "1"}}}
pod: {ratherNodes: [
  {weight: 50, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}},
  {weight: 30, preference: {matchExpressions: [{key: zone, operator: Exists}]}},
  {weight: 30, preference: {matchExpressions: [{key: rack, operator: Lt, values: ["9"]}]}}]}
`, goesTo("n2")),
		Entry("by the name of a node", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n2, requests: {cpu: 2, memory: 4Gi}}}
pod: {ratherNodes: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [n2]}]}}]}
`, goesTo("n2")),
		Entry("elsewhere when what it prefers is full", `
nodes: {n1: {labels: {disk: ssd}}, n2: {}}
pods: {r1: {nodeName: n1, requests: {cpu: 4}}}
pod: {ratherNodes: [{weight: 100, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}
`, goesTo("n2")),
	)

	DescribeTable("by preferred pod affinity:", play,
		Entry("near the pods that it likes", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {cache: {nodeName: n2, labels: {app: cache}, requests: {cpu: 1, memory: 2Gi}}}
pod: {ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: cache}}}}]}
`, goesTo("n2")),
		Entry("near those that it likes more", `
nodes: {n1: {}, n2: {}}
pods: {cache: {nodeName: n1, labels: {app: cache}}, db: {nodeName: n2, labels: {app: db}}}
pod: {ratherNear: [
  {weight: 30, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: cache}}}},
  {weight: 70, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}}]}
`, goesTo("n2")),
		Entry("near those of the namespaces that a selector matches", `
nodes: {n1: {}, n2: {}}
pods: {decoy: {namespace: team-a, nodeName: n1, labels: {app: cache}}, cache: {namespace: team-b, nodeName: n2, labels: {app: cache}}}
pod: {ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: b}}, labelSelector: {matchLabels: {app: cache}}}}]}
`, goesTo("n2")),
		Entry("away from the pods that it does not like", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {noisy: {nodeName: n1, labels: {app: noisy}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: noisy}}}}]}
`, goesTo("n2")),
		Entry("near those of its version", `
nodes: {n1: {}, n2: {}}
pods: {v1: {nodeName: n1, labels: {app: web, version: "1"}}, v2: {nodeName: n2, labels: {app: web, version: "2"}}}
pod: {labels: {version: "2"}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}}]}
`, goesTo("n2")),
		Entry("away from those of other tenants", `
nodes: {n1: {}, n2: {}}
pods: {theirs: {nodeName: n1, labels: {tenant: a}}, ours: {nodeName: n2, labels: {tenant: b}}}
pod: {labels: {tenant: b}, ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: tenant, operator: Exists}]}, mismatchLabelKeys: [tenant]}}]}
`, goesTo("n2")),
		Entry("near the pods that like it", `
nodes: {n1: {}, n2: {}}
pods: {fan: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}}
pod: {labels: {app: star}}
`, goesTo("n2")),
		Entry("away from the pods that do not like it", `
nodes: {n1: {}, n2: {}}
pods:
  hermit: {nodeName: n1, ratherAway: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}}]}
  filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}
pod: {labels: {app: noisy}}
`, goesTo("n2")),
		Entry("not by the pods that like it, if the profile does not care for them", `
nodes: {n1: {}, n2: {}}
pods: {fan: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}}
pod: {schedulerName: unsociable, labels: {app: star}}
`, goesTo("n1")),
		Entry("near the pods that need its like, as much as the profile cares", `
nodes: {n1: {}, n2: {}}
pods:
  star: {nodeName: n2, labels: {app: star}}
  dependent: {nodeName: n2, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}]}
  fan: {nodeName: n1, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}
pod: {schedulerName: sociable, labels: {app: star}}
`, goesTo("n2")),
		Entry("but near the pods that like it, when they count for more than those that need its like", `
nodes: {n1: {}, n2: {}}
pods:
  star: {nodeName: n2, labels: {app: star}}
  dependent: {nodeName: n2, nearPods: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}]}
  fan: {nodeName: n1, ratherNear: [{weight: 50, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: star}}}}]}
pod: {labels: {app: star}}
`, goesTo("n1")),
	)

	DescribeTable("by topology spread constraints that need not be met:", play,
		Entry("where the fewest are", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n2")),
		Entry("where the fewest are of those that must be", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}, n3: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: web}}, w2: {nodeName: n1, labels: {app: web}}, w3: {nodeName: n2, labels: {app: web}}}
pod: {labels: {app: web}, spread: [
  {topologyKey: zone, labelSelector: {matchLabels: {app: web}}},
  {topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n3")),
		Entry("there all the same, when there is no other place", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}, unschedulable: true}}
pods: {w1: {nodeName: n1, labels: {app: web}}}
pod: {labels: {app: web}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]}
`, goesTo("n1")),
		Entry("by its own version only", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {old: {nodeName: n2, labels: {app: web, version: "1"}}, older: {nodeName: n2, labels: {app: web, version: "1"}}, new: {nodeName: n1, labels: {app: web, version: "2"}}}
pod: {labels: {app: web, version: "2"}, spread: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}]}
`, goesTo("n2")),
	)

	// Pods with the label app=defaulted are those of a service.
	DescribeTable("by topology spread constraints of the profile for pods that have none and that belong together:", play,
		Entry("over the zones and nodes, by default", `
nodes:
  n1: {labels: {topology.kubernetes.io/zone: x}}
  n2: {labels: {topology.kubernetes.io/zone: y}}
  n3: {labels: {topology.kubernetes.io/zone: x}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}}
pod: {labels: {app: defaulted}}
`, goesTo("n2")),
		Entry("not by default when nothing selects them together", `
nodes:
  n1: {labels: {topology.kubernetes.io/zone: x}}
  n2: {labels: {topology.kubernetes.io/zone: y}}
pods: {w1: {nodeName: n1, labels: {app: web}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {labels: {app: web}}
`, goesTo("n1")),
		Entry("as the profile says", `
nodes: {n1: {labels: {zone: a}}, n2: {labels: {zone: b}}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: spreader, labels: {app: defaulted}}
`, goesTo("n2")),
		Entry("not as the profile says when they have some of their own", `
nodes: {n1: {labels: {zone: a, rack: "1"}}, n2: {labels: {zone: b, rack: "1"}}}
pods: {w1: {nodeName: n1, labels: {app: defaulted}}, filler: {nodeName: n2, requests: {cpu: 1, memory: 2Gi}}}
pod: {schedulerName: spreader, labels: {app: defaulted}, spread: [{topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: defaulted}}}]}
`, goesTo("n1")),
	)
}
