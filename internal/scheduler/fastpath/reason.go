// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

// Reason is the reason why a pod takes the scalar path or why, on the fast path, plugins were run
// node by node. It is the label of a metric.
type Reason string

// The reasons. None: the fast path has decided.
const (
	None Reason = ""
	// UnknownPlugin: the profile runs a plugin whose inputs are not known, which is run on the fast
	// path as an uncached plugin; or the profile does not score, or lacks an extension point that a
	// plugin needs at another one.
	UnknownPlugin Reason = "unknown_plugin"
	// Volumes: the pod has volumes that not every node can mount. The plugins for these are run as
	// uncached plugins on the fast path.
	Volumes Reason = "volumes"
	// Devices: a plugin must do work for each pod, such as allocating devices. It is run as an
	// uncached plugin on the fast path, unless the devices back a resource that the pod requests
	// and that counts for the score of a node, or on which the answers of another plugin depend.
	Devices Reason = "devices"
	// NodeNames: the pod names the nodes that it may run on.
	NodeNames Reason = "node_names"
	// Topology: PodTopologySpread or InterPodAffinity does something for the pod, and has no
	// tracker.
	Topology Reason = "topology"
	// Selectors: the selectors of the pod read more labels than a class may.
	Selectors Reason = "selectors"
	// NoFit: the pod fits no node. The scalar path explains why, unless Unfit.Explain can.
	NoFit Reason = "no_fit"
	// Failed: a plugin has failed or refused the pod as such. The scalar path reports the details.
	Failed Reason = "failed"
	// Verbose: the scores of each plugin are being logged.
	Verbose Reason = "verbose"
)
