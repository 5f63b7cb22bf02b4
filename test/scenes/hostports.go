// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

// hostPorts returns the scenes about host ports.
func hostPorts() []Table {
	const taken = "node(s) didn't have free ports for the requested pod ports"

	return []Table{
		{"by host ports", []Scene{
			scene("where the port is free", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, GoesTo("n2")),
			scene("nowhere when it is taken everywhere", `
nodes: {n1: {}, n2: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}, r2: {nodeName: n2, ports: [{containerPort: 81, hostPort: 8080}]}}
pod: {ports: [{containerPort: 82, hostPort: 8080}]}
`, GoesNowhere("2 "+taken)),
			scene("beside another port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8081}]}
`, GoesTo("n1")),
			scene("beside another protocol on the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 53, hostPort: 53, protocol: TCP}]}}
pod: {ports: [{containerPort: 53, hostPort: 53, protocol: UDP}]}
`, GoesTo("n1")),
			scene("beside another address with the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.2}]}
`, GoesTo("n1")),
			scene("not on one address when all addresses are taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 0.0.0.0}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.2}]}
`, GoesNowhere("1 "+taken)),
			scene("not on all addresses when one is taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, GoesNowhere("1 "+taken)),
			scene("not when any of its ports is taken", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 80, hostPort: 8080}]}}
pod: {ports: [{containerPort: 81, hostPort: 8081}, {containerPort: 80, hostPort: 8080}]}
`, GoesNowhere("1 "+taken)),
			scene("beside a pod that uses the number in its own network", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, ports: [{containerPort: 8080}]}}
pod: {ports: [{containerPort: 8080, hostPort: 8080}]}
`, GoesTo("n1")),
			atAPIToo("not beside a pod that uses the network of the node", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, hostNetwork: true, ports: [{containerPort: 8080}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, GoesNowhere("1 "+taken)),
			scene("not beside a pod whose sidecar has the port", `
nodes: {n1: {}}
pods: {r1: {nodeName: n1, initContainers: [{restartPolicy: Always, ports: [{containerPort: 80, hostPort: 8080}]}], containers: [{}]}}
pod: {ports: [{containerPort: 80, hostPort: 8080}]}
`, GoesNowhere("1 "+taken)),
		}},
	}
}
