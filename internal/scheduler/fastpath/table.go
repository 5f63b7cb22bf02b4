// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
)

// NodeLocal is an interface that a plugin implements so that the fast path may keep its answers.
// Any plugin may, without importing anything; kube-scheduler's are known without it (see kindOf).
//
// With it the plugin promises, of its Filter and of its Score before normalization:
//
//   - For pods of equal keys the answers are the same on the same node.
//   - They depend on nothing else but the NodeInfo they are given and the plugin's arguments. Of
//     the node they do not depend on its conditions, volumesInUse and volumesAttached, of the pods
//     on it not on annotations, phase and other status except for resources: livesched does not run
//     the plugin again when these change.
//   - They change nothing, neither in the plugin nor in the CycleState.
//
// PreFilter and PreScore are called once for all pods of a key, PreScore with all nodes instead of
// those that fit. What they write to the CycleState is there for Filter, Score and NormalizeScore
// alone: a plugin that has one of them and also reserves, permits or binds is not node-local.
// NormalizeScore may depend on the scores that it is given and on nothing else. If PreFilter
// returns names of nodes, or the plugin returns an error, the pod takes the scalar path.
type NodeLocal interface {
	fwk.Plugin
	// NodeLocalKey returns the key of a pod: all of the pod that the plugin reads. With ok false
	// the plugin wants to be run on each node for this pod.
	NodeLocalKey(pod *corev1.Pod) (key string, ok bool)
}

// NodeObjectOnly is an interface that a plugin implements if its Filter and Score read nothing but
// the node object and the plugin's arguments: neither the pod nor the pods on the node. It makes
// the promises of NodeLocal, with one key for all pods. Its answers are not asked for again when
// pods come and go.
type NodeObjectOnly interface {
	fwk.Plugin
	// ReadsNodeObjectOnly does nothing. It marks the plugin.
	ReadsNodeObjectOnly()
}

// kind is what has to be known of a plugin to keep its answers.
type kind uint8

const (
	// opaque: nothing is known. The plugin is run for each pod, on the nodes that the others have
	// left (see uncached).
	opaque kind = iota
	// eligibility: Filter and Score go by that part of the pod's local key which says what nodes it
	// may run on, and by the node object: not by the pods on the node.
	eligibility
	// resources: NodeResourcesFit and NodeResourcesBalancedAllocation, which go by the pod's
	// requests and the node's.
	resources
	// local: Filter and Score go by the local key of the pod and the node.
	local
	// images: Score goes by the pod's images, the node's, and on how many nodes of how many each
	// image is.
	images
	// volumes: PreFilter skips for all pods without volumes that make a node matter (see
	// ordinaryVolumes). For others the plugin is run as an opaque one is.
	volumes
	// perPod: PreFilter has to be called for each pod, as it may leave something for Reserve.
	// Filter and Score say nothing about pods for which it skips. For others the plugin is run as
	// an opaque one is.
	perPod
	// spread and affinity: PodTopologySpread and InterPodAffinity, which look at all nodes.
	spread
	affinity
)

// isUncached reports whether plugins of a kind are run for each pod if they are not skipped.
func (k kind) isUncached() bool { return k == opaque || k == volumes || k == perPod }

// mayScore reports whether a plugin of kinds volumes and perPod can score anything but 0.
// VolumeBinding does only where it is to go by the capacity of storage.
func mayScore(pl fwk.Plugin) bool {
	if is[*volumebinding.VolumeBinding](pl) {
		return utilfeature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring)
	}
	return true
}

// kindOf is the table of plugins. It goes by type, not by name, so that a plugin that wraps one of
// these is taken for what it is: unknown. What the plugins read was looked up in kube-scheduler
// 1.36 and has to be again at each update of k8s.io/kubernetes.
func kindOf(pl fwk.Plugin) kind {
	switch pl.(type) {
	case *nodeunschedulable.NodeUnschedulable, // the pod's tolerations; the node's spec
		*nodename.NodeName,               // the pod's node; the node's name
		*tainttoleration.TaintToleration, // the pod's tolerations; the node's taints
		*nodeaffinity.NodeAffinity:       // the pod's node selector and node affinity; the node's labels and name
		return eligibility
	case *noderesources.Fit, // the pod's requests; the node's, and device classes (see Plan.devices)
		*noderesources.BalancedAllocation: // the same
		return resources
	case *nodeports.NodePorts: // the pod's host ports; those in use
		return local
	case *imagelocality.ImageLocality:
		return images
	case *volumerestrictions.VolumeRestrictions, *nodevolumelimits.CSILimits, *volumezone.VolumeZone:
		return volumes
	case *volumebinding.VolumeBinding, *dynamicresources.DynamicResources, *nodedeclaredfeatures.NodeDeclaredFeatures:
		return perPod
	case *podtopologyspread.PodTopologySpread:
		return spread
	case *interpodaffinity.InterPodAffinity:
		return affinity
	}
	if keepsState(pl) {
		return opaque
	}
	switch pl.(type) {
	case NodeObjectOnly:
		return eligibility
	case NodeLocal:
		return local
	}
	return opaque
}

// keepsState reports whether a plugin may hand something from the extension points that are called
// once for many pods to those that are called for each.
func keepsState(pl fwk.Plugin) bool {
	_, preFilter := pl.(fwk.PreFilterPlugin)
	_, preScore := pl.(fwk.PreScorePlugin)
	if !preFilter && !preScore {
		return false
	}
	switch pl.(type) {
	case fwk.ReservePlugin, fwk.PermitPlugin, fwk.PreBindPlugin, fwk.BindPlugin, fwk.PostBindPlugin:
		return true
	}
	return false
}

// normalization is how the scores of a plugin are normalized.
type normalization uint8

const (
	// asIs: they are not.
	asIs normalization = iota
	// byMax: the highest becomes fwk.MaxScore, and the others their share of it.
	byMax
	// byMaxReversed: as byMax, and then high is low: fwk.MaxScore minus that.
	byMaxReversed
	// byPlugin: only the plugin knows.
	byPlugin
)

func normalizationOf(pl fwk.ScorePlugin) normalization {
	switch pl.(type) {
	case *tainttoleration.TaintToleration:
		return byMaxReversed
	case *nodeaffinity.NodeAffinity:
		return byMax
	}
	if pl.ScoreExtensions() == nil {
		return asIs
	}
	return byPlugin
}
