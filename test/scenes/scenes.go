// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenes describes where a pod goes, given its spec and the pods on the nodes. Each scene
// is a small cluster in YAML, a new pod, and the outcome: the nodes to which the pod may be bound,
// or the reasons for which it fits nowhere. kube-scheduler has the same outcomes.
//
//	test/placement       plays the scenes in the test's process, with kube-scheduler and with
//	                     livesched on both of its paths
//	test/e2e/placement   plays some of each kind on a real API server, and on request with
package scenes

import "slices"

// Table is a list of scenes about one subject.
type Table struct {
	Name   string
	Scenes []Scene
}

// Scene is a cluster, a new pod, and the outcome.
type Scene struct {
	Name    string
	Script  string // see Cluster
	Outcome Outcome
	Played  Place
}

// Place is the environment in which a scene is played.
type Place int

const (
	// InProcess means without an API server.
	InProcess Place = iota
	// AtAPIToo means in the process and also on a real API server.
	AtAPIToo
	// AtAPIOnly means only on a real API server, which adds a field to pods that the scene is
	// about.
	AtAPIOnly
)

// Outcome is the expected decision about the pod.
type Outcome struct {
	// Nodes are the nodes to which the pod may be bound. It is empty if the pod fits nowhere.
	Nodes []string
	// Reasons are the reasons with their counts for which the pod fits nowhere, as kube-scheduler
	// writes them.
	Reasons string
}

// GoesTo returns the outcome that the pod is bound to one of the nodes.
func GoesTo(nodes ...string) Outcome { return Outcome{Nodes: nodes} }

// GoesNowhere returns the outcome that the pod fits on no node, for the given reasons.
func GoesNowhere(reasons string) Outcome { return Outcome{Reasons: reasons} }

func scene(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome}
}

// atAPIToo returns a scene that is played also on an API server.
func atAPIToo(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome, Played: AtAPIToo}
}

// atAPIOnly returns a scene about fields that the API server adds to pods.
func atAPIOnly(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome, Played: AtAPIOnly}
}

// Tables returns all scenes.
func Tables() []Table {
	return slices.Concat(podAffinity(), topologySpread(), nodeAffinity(), taints(), resources(), hostPorts(), scoring())
}
