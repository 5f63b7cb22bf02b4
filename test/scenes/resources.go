// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// resources returns the scenes about the resources that pods request.
func resources() []Table {
	const full = `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, requests: {cpu: 3}}}
`

	return []Table{
		{"by the room on nodes", []Scene{
			scene("to the last bit", full+`
pod: {requests: {cpu: 1}}
`, GoesTo("n1")),
			scene("and not a bit beyond", full+`
pod: {requests: {cpu: 1001m}}
`, GoesNowhere("1 Insufficient cpu")),
			scene("of every kind that it needs", `
nodes: {n1: {allocatable: {ephemeral-storage: 10Gi}}}
pod: {requests: {cpu: 5, memory: 9Gi, ephemeral-storage: 11Gi}}
`, GoesNowhere("1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient memory")),
			scene("for one that asks for nothing, also when it is full", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, requests: {cpu: 4, memory: 8Gi}}}
pod: {requests: {}}
`, GoesTo("n1")),
			scene("in the number of pods", `
nodes: {n1: {allocatable: {pods: 1}}, n2: {allocatable: {pods: 2}}}
pods: {r1: {nodeName: n1}, r2: {nodeName: n2}}
pod: {}
`, GoesTo("n2")),
			scene("in the number of pods, for one that asks for nothing, too", `
nodes: {n1: {allocatable: {pods: 1}}}
pods: {r1: {nodeName: n1, requests: {}}}
pod: {requests: {}}
`, GoesNowhere("1 Too many pods")),
			scene("for extended resources", `
nodes: {n1: {}, n2: {allocatable: {example.com/gpu: 2}}}
pods: {resident: {nodeName: n2, requests: {example.com/gpu: 1}}}
pod: {requests: {example.com/gpu: 1}}
`, GoesTo("n2")),
			atAPIToo("for extended resources, which run out", `
nodes: {n1: {}, n2: {allocatable: {example.com/gpu: 2}}}
pods: {resident: {nodeName: n2, requests: {example.com/gpu: 1}}}
pod: {requests: {example.com/gpu: 2}}
`, GoesNowhere("2 Insufficient example.com/gpu")),
			scene("for huge pages", `
nodes: {n1: {}, n2: {allocatable: {hugepages-2Mi: 4Mi}}}
pod: {containers: [{resources: {requests: {cpu: 1, hugepages-2Mi: 4Mi}, limits: {cpu: 1, hugepages-2Mi: 4Mi}}}]}
`, GoesTo("n2")),
		}},

		{"by what its containers need together", []Scene{
			scene("all of them", full+`
pod: {containers: [{resources: {requests: {cpu: 600m}}}, {resources: {requests: {cpu: 600m}}}]}
`, GoesNowhere("1 Insufficient cpu")),
			scene("the biggest of the init containers, which run before", full+`
pod: {initContainers: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 900m}}}], containers: [{resources: {requests: {cpu: 1}}}]}
`, GoesTo("n1")),
			scene("an init container that needs more than the others", full+`
pod: {initContainers: [{resources: {requests: {cpu: 1100m}}}], containers: [{resources: {requests: {cpu: 1}}}]}
`, GoesNowhere("1 Insufficient cpu")),
			scene("sidecars beside the others", full+`
pod: {initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 600m}}}], containers: [{resources: {requests: {cpu: 600m}}}]}
`, GoesNowhere("1 Insufficient cpu")),
			scene("sidecars beside the init containers after them", full+`
pod: {initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 600m}}}, {resources: {requests: {cpu: 500m}}}], containers: [{resources: {requests: {cpu: 100m}}}]}
`, GoesNowhere("1 Insufficient cpu")),
			scene("but not sidecars beside the init containers before them", full+`
pod: {initContainers: [{resources: {requests: {cpu: 900m}}}, {restartPolicy: Always, resources: {requests: {cpu: 600m}}}], containers: [{resources: {requests: {cpu: 400m}}}]}
`, GoesTo("n1")),
			atAPIOnly("the overhead of its runtime class", full+`
pod: {runtimeClassName: sandboxed, requests: {cpu: 100m}}
`, GoesNowhere("1 Insufficient cpu")),
			atAPIOnly("the overhead of those that are there", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, runtimeClassName: sandboxed, requests: {cpu: 2500m}}}
pod: {requests: {cpu: 1}}
`, GoesNowhere("1 Insufficient cpu")),
			scene("what the pod asks for as a whole rather than its containers", full+`
pod: {resources: {requests: {cpu: 2}}, containers: [{resources: {requests: {cpu: 100m}}}]}
`, GoesNowhere("1 Insufficient cpu")),
			scene("what those that are there ask for as a whole", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, resources: {requests: {cpu: 3500m}}, containers: [{resources: {requests: {cpu: 100m}}}]}}
pod: {requests: {cpu: 1}}
`, GoesNowhere("1 Insufficient cpu")),
			scene("the sidecars of those that are there", `
nodes: {n1: {}}
pods: {resident: {nodeName: n1, initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}], containers: [{resources: {requests: {cpu: 1500m}}}]}}
pod: {requests: {cpu: 1}}
`, GoesNowhere("1 Insufficient cpu")),
		}},
	}
}
