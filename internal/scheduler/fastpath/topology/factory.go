// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	corev1 "k8s.io/api/core/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Factory makes the trackers for the classes of one instance of a profile.
type Factory struct {
	Sources *Sources
	// SpreadArgs and AffinityArgs are the arguments of the profile's plugins, or nil if the profile
	// does not have the plugin.
	SpreadArgs   *schedconfig.PodTopologySpreadArgs
	AffinityArgs *schedconfig.InterPodAffinityArgs
}

// SpreadConstraints returns the constraints that the profile's PodTopologySpread applies; see
// [Sources.SpreadConstraints].
func (t *Factory) SpreadConstraints(pod *corev1.Pod) (*SpreadConstraints, error) {
	return t.Sources.SpreadConstraints(t.SpreadArgs, pod)
}

// Affinity returns the tracker of the profile's InterPodAffinity; see [Sources.Affinity].
func (t *Factory) Affinity(pod *corev1.Pod) (Tracker, error) {
	return t.Sources.Affinity(t.AffinityArgs, pod)
}
