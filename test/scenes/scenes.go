// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenes says where pods go by their own specs and by what is on the nodes already: small
// clusters in YAML, a pod that comes to each, and the nodes that it may be bound to or the reasons
// for which it fits nowhere. kube-scheduler plays them with the same outcome.
//
//	test/placement       plays the scenes in the test's process, with kube-scheduler and with
//	                     livesched on both of its paths
//	test/e2e/placement   plays some of each kind on a real API server, with kube-scheduler too if
//	                     asked to
package scenes

import "slices"

// Table is a list of scenes of one concern.
type Table struct {
	Name   string
	Scenes []Scene
}

// Scene is a cluster, a pod that comes to it, and the outcome.
type Scene struct {
	Name    string
	Script  string // see Play
	Outcome Outcome
	Played  Place
}

// Place says where a scene is played.
type Place int

const (
	// InProcess is without an API server.
	InProcess Place = iota
	// AtAPIToo is in the process, and on a real API server as one of its kind.
	AtAPIToo
	// AtAPIOnly is on a real API server, which adds something to pods that the scene is about.
	AtAPIOnly
)

// Outcome is what the scheduler decides about the pod.
type Outcome struct {
	// Nodes are those of which the pod is bound to one, none if it fits nowhere.
	Nodes []string
	// Reasons are the counted reasons for which it fits nowhere, as kube-scheduler writes them.
	Reasons string
}

// GoesTo is the outcome that the pod is bound to one of some nodes.
func GoesTo(nodes ...string) Outcome { return Outcome{Nodes: nodes} }

// GoesNowhere is the outcome that the pod fits on no node, for counted reasons.
func GoesNowhere(reasons string) Outcome { return Outcome{Reasons: reasons} }

func scene(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome}
}

// atAPIToo is a scene that is played at the API, too.
func atAPIToo(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome, Played: AtAPIToo}
}

// atAPIOnly is a scene about something that the API server does to pods.
func atAPIOnly(name, script string, outcome Outcome) Scene {
	return Scene{Name: name, Script: script, Outcome: outcome, Played: AtAPIOnly}
}

// Tables returns all scenes.
func Tables() []Table {
	return slices.Concat(podAffinity(), topologySpread(), nodeAffinity(), taints(), resources(), hostPorts(), scoring())
}
