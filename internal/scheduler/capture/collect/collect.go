// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect reads from a running scheduler what a snapshot has. It is apart from package
// capture because readers of snapshots need no scheduler.
package collect

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/version"
)

// Source is the running scheduler that Input reads.
type Source struct {
	Cache     *cache.Cache
	Nominator *queue.Nominator
	Informers *informers.Source
	Decisions *decisionlog.Log
	Profiles  *profile.Map
}

// Input returns the state of a scheduler, without the objects of profiles and policies: see
// capture.Input.SetObjects. It has at most the given number of decisions, the latest ones. It takes
// no object twice and copies none: the locks of the scheduler are held for short times only.
//
// Nodes and pods are read at one moment. What else plugins read is a little younger.
func Input(logger klog.Logger, from Source, decisions int) (*capture.Input, error) {
	copied, snapshot := from.Cache.Fork(), cache.NewSnapshot()
	if err := copied.UpdateSnapshot(logger, snapshot); err != nil {
		return nil, err
	}
	in := &capture.Input{Header: capture.Header{
		Livesched: version.Version, Kubernetes: kubeversion.DefaultKubeBinaryVersion,
		FeatureGates: changedGates(), ResourceVersions: map[string]string{}, Changes: snapshot.Changes(),
	}}
	for running := range from.Profiles.Deciding() {
		in.Header.Profiles = append(in.Header.Profiles, capture.Profile{
			Name: running.Config.Name, SchedulerName: running.SchedulerName(), Revision: running.Config.Revision,
		})
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	placed := map[types.UID]bool{}
	for _, node := range nodes {
		in.Nodes = append(in.Nodes, node.Node())
		for _, info := range node.GetPods() {
			in.Pods = append(in.Pods, info.GetPod())
			placed[info.GetPod().UID] = true
		}
	}
	latest := from.Decisions.Last(decisions)
	present := addObjects(in, from.Informers, placed)
	for _, nomination := range from.Nominator.Dump() {
		in.Nominations = append(in.Nominations, capture.Nomination{Pod: nomination.Pod.UID, Node: nomination.Node})
	}
	// The pod of a decision that has just been made may not be on its node yet: then the decision
	// is left out, and with it those that were made in the same attempt with the pod on its node.
	early := false
	for i := range latest {
		d := &latest[i]
		if d.Pod == "" {
			continue // a group none of whose pods was tried: there is nothing to decide again
		}
		forgotten := d.Result != decisionlog.Binding && d.Result != decisionlog.Bound
		early = early && d.Placed > 0 || d.Changes > in.Header.Changes || d.Node != "" && !placed[d.Pod] &&
			present[d.Pod] && !forgotten
		if !early {
			in.Decisions = append(in.Decisions, *d)
		}
	}
	return in, nil
}

// addObjects adds the objects of informers. It returns the pods that are there.
func addObjects(in *capture.Input, from *informers.Source, placed map[types.UID]bool) (present map[types.UID]bool) {
	present = map[types.UID]bool{}
	pods, podVersion := from.Objects(corev1.SchemeGroupVersion.WithKind("Pod"))
	in.Header.ResourceVersions["Pod"] = podVersion
	for _, object := range pods {
		pod := object.(*corev1.Pod)
		present[pod.UID] = true
		// A pod that was bound by another scheduler after the nodes were copied is neither.
		if !placed[pod.UID] && pod.Spec.NodeName == "" {
			in.Pending = append(in.Pending, pod)
		}
	}
	slices.SortFunc(in.Pending,
		func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, kind := range capture.Kinds() {
		objects, resourceVersion := from.Objects(kind)
		if resourceVersion != "" {
			in.Header.ResourceVersions[capture.VersionKey(kind)] = resourceVersion
		}
		in.Objects = append(in.Objects, objects...)
	}
	return present
}

// changedGates returns the feature gates that differ from their defaults.
func changedGates() map[string]bool {
	gates := utilfeature.DefaultMutableFeatureGate
	changed := map[string]bool{}
	for name, spec := range gates.GetAll() {
		// AllAlpha and AllBeta stand for others.
		if enabled := gates.Enabled(name); enabled != spec.Default && name != "AllAlpha" && name != "AllBeta" {
			changed[string(name)] = enabled
		}
	}
	return changed
}
