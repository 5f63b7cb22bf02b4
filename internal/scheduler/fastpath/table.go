// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/deferredpodscheduling"
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

// NodeLocal is an interface that a plugin implements to let the fast path keep its answers. A
// plugin can implement it without importing anything. The plugins of kube-scheduler need not
// implement it (see kindInTree).
//
// A plugin that implements it promises, for its Filter and for its Score before normalization:
//
//   - For pods with equal keys, the answers are the same on the same node.
//   - They depend only on the NodeInfo passed in and the plugin's arguments. livesched does not run
//     the plugin again when one of the following changes, so they do not depend on it: of the node,
//     its conditions, volumesInUse, volumesAttached, owners and finalizers; of the pods on it,
//     annotations, owners, finalizers, phase and other status (except for resources), and what can
//     be changed in the spec of a bound pod (images, tolerations, activeDeadlineSeconds).
//   - They change nothing, neither in the plugin nor in the CycleState.
//
// PreFilter and PreScore are called once for all pods of a key, PreScore with all nodes instead of
// those that fit. What they write to the CycleState is visible only to Filter, Score and
// NormalizeScore: a plugin that has PreFilter or PreScore and also reserves, permits or binds is
// not node-local. What they write stays in memory as long as the answers and does not count for the
// limit of the fast path's memory, so a plugin does not write the pod. NormalizeScore may depend
// only on the scores passed in. If PreFilter returns names of nodes, or the plugin returns an
// error, the pod takes the scalar path. Each call gets the whole pod of the decision.
type NodeLocal interface {
	fwk.Plugin
	// NodeLocalKey returns the key of a pod: everything that the plugin reads of the pod. If ok is
	// false, the plugin must be run on each node for this pod.
	NodeLocalKey(pod *corev1.Pod) (key string, ok bool)
}

// NodeObjectOnly is an interface that a plugin implements if its Filter and Score read only the
// node object and the plugin's arguments: neither the pod nor the pods on the node. The plugin
// makes the promises of NodeLocal, with one key for all pods. It is not run again when pods are
// added or removed.
type NodeObjectOnly interface {
	fwk.Plugin
	// ReadsNodeObjectOnly does nothing. It marks the plugin.
	ReadsNodeObjectOnly()
}

// EarlyScorer is an interface that a Score plugin implements if the score of a node depends on the
// pod, on the node and on the devices of the node, as the plugin finds them at the time: not on the
// other nodes, nor on what plugins do at PreFilter and Filter. PreScore, if there is one, does not
// read the list of nodes. livesched then runs the plugin for each pod, before the plugins for
// devices, and runs these on the best nodes first. The plugin has neither PreFilter, Filter nor
// ScoreExtensions.
type EarlyScorer interface {
	fwk.ScorePlugin
	// ScoresBeforeFilter does nothing. It marks the plugin.
	ScoresBeforeFilter()
}

// kind classifies plugins by their inputs, which determine how their answers can be kept.
type kind uint8

const (
	// opaque: the inputs are unknown. The plugin is run for each pod, on the nodes that the other
	// plugins accept (see uncached).
	opaque kind = iota
	// eligibility: Filter and Score depend only on the node object and on the part of the pod's
	// local key that determines the nodes it may run on. They do not depend on the pods on the
	// node.
	eligibility
	// resources: NodeResourcesFit and NodeResourcesBalancedAllocation, which depend on the requests
	// of the pod and the resources of the node.
	resources
	// local: Filter and Score depend on the pod's local key and on the node.
	local
	// images: Score depends on the images of the pod and of the node, and on the share of the nodes
	// that have each image.
	images
	// volumes: PreFilter skips for all pods without volumes that restrict the nodes (see
	// podfields.OrdinaryVolumes). For other pods the plugin is run like an opaque one.
	volumes
	// perPod: PreFilter must be called for each pod, because it may leave state for Reserve. If it
	// skips, Filter and Score do nothing for the pod. Otherwise the plugin is run like an opaque
	// one.
	perPod
	// early: Score is run for each pod, and depends on no other node: see EarlyScorer.
	early
	// spread and affinity: PodTopologySpread and InterPodAffinity, which depend on all nodes.
	spread
	affinity
)

// mayScore reports whether a plugin of kinds volumes and perPod can return a score other than 0.
// VolumeBinding does so only if it scores by storage capacity.
func mayScore(pl fwk.Plugin) bool {
	if is[*volumebinding.VolumeBinding](pl) {
		return utilfeature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring)
	}
	return true
}

// kindInTree is the table of kube-scheduler's plugins. It uses types, not names, so that a plugin
// that wraps one of these counts as unknown. The inputs of the plugins are those in kube-scheduler
// 1.37.
func kindInTree(pl fwk.Plugin) (of kind, inTree bool) {
	switch pl.(type) {
	case *nodeunschedulable.NodeUnschedulable, // the pod's tolerations; the node's spec
		*nodename.NodeName,               // the pod's node; the node's name
		*tainttoleration.TaintToleration, // the pod's tolerations; the node's taints
		*nodeaffinity.NodeAffinity:       // the pod's node selector and node affinity; the node's labels and name
		return eligibility, true
	case *noderesources.Fit, // the pod's requests; the node's, and device classes (see Plan.devices)
		*noderesources.BalancedAllocation: // the same
		return resources, true
	case *nodeports.NodePorts: // the pod's host ports; the host ports in use
		return local, true
	case *imagelocality.ImageLocality:
		return images, true
	case *volumerestrictions.VolumeRestrictions, *nodevolumelimits.CSILimits, *volumezone.VolumeZone:
		return volumes, true
	case *volumebinding.VolumeBinding, *dynamicresources.DynamicResources, *nodedeclaredfeatures.NodeDeclaredFeatures,
		*deferredpodscheduling.DeferredPodScheduling:
		return perPod, true
	case *podtopologyspread.PodTopologySpread:
		return spread, true
	case *interpodaffinity.InterPodAffinity:
		return affinity, true
	}
	return opaque, false
}

// kindOf returns the kind of a plugin.
func kindOf(pl fwk.Plugin) kind {
	if of, inTree := kindInTree(pl); inTree {
		return of
	}
	if keepsState(pl) {
		return opaque
	}
	if scoresEarly(pl) {
		return early
	}
	switch pl.(type) {
	case NodeObjectOnly:
		return eligibility
	case NodeLocal:
		return local
	}
	return opaque
}

// scoresEarly reports whether a plugin is an EarlyScorer with no other extension points that
// matter.
func scoresEarly(pl fwk.Plugin) bool {
	scorer, ok := pl.(EarlyScorer)
	return ok && scorer.ScoreExtensions() == nil && !is[fwk.PreFilterPlugin](pl) && !is[fwk.FilterPlugin](pl)
}

// keepsState reports whether a plugin may pass state from the extension points that are called once
// for many pods to those that are called for each pod.
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

// normalization is the way in which the scores of a plugin are normalized.
type normalization uint8

const (
	// asIs: the scores are not normalized.
	asIs normalization = iota
	// byMax: the highest score becomes fwk.MaxScore, and the others are scaled in proportion.
	byMax
	// byMaxReversed: like byMax, then subtracted from fwk.MaxScore, so that high becomes low.
	byMaxReversed
	// byPlugin: the plugin itself normalizes.
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
