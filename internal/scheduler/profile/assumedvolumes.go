// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// assumedVolumes remembers what the volume binder has assumed for pods that are not bound yet,
// since the binder cannot list it: a fork assumes the same. The scheduling loop and binding cycles
// use it.
type assumedVolumes struct {
	// of holds an assumption by the *volumebinding.PodVolumes that a pod's scheduling cycle passes
	// on.
	of sync.Map
	// reverting is held while what was assumed for a pod is reverted, so that nothing is assumed
	// again for another pod that gives up at the same time.
	reverting sync.Mutex
	mu        sync.Mutex // guards pods
	// pods is how many of the pods in of use a claim.
	pods map[types.NamespacedName]int
}

// add remembers an assumption.
func (a *assumedVolumes) add(volumes *volumebinding.PodVolumes, as assumption) {
	if _, known := a.of.Swap(volumes, as); !known {
		a.count(as.pod, 1)
	}
}

// remove forgets an assumption, if there is one. It returns those of other pods that use the same
// claims.
func (a *assumedVolumes) remove(volumes *volumebinding.PodVolumes) (sharing []assumption) {
	value, known := a.of.LoadAndDelete(volumes)
	if !known {
		return nil
	}
	pod := value.(assumption).pod
	a.count(pod, -1)
	shared := sets.New[string]()
	for name := range podfields.VolumeClaimNames(pod) {
		if a.haveFor(pod.Namespace, name) {
			shared.Insert(name)
		}
	}
	if len(shared) == 0 {
		return nil
	}
	for _, value := range a.of.Range {
		other := value.(assumption)
		if other.pod.Namespace == pod.Namespace &&
			shared.HasAny(slices.Collect(podfields.VolumeClaimNames(other.pod))...) {
			sharing = append(sharing, other)
		}
	}
	return sharing
}

func (a *assumedVolumes) count(pod *corev1.Pod, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[types.NamespacedName]int{}
	}
	for name := range podfields.VolumeClaimNames(pod) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		if a.pods[key] += n; a.pods[key] == 0 {
			delete(a.pods, key)
		}
	}
}

// haveFor reports whether a pod that uses the claim has assumed volumes.
func (a *assumedVolumes) haveFor(namespace, claim string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[types.NamespacedName{Namespace: namespace, Name: claim}] > 0
}

// assumption is what the binder was asked to assume.
type assumption struct {
	pod     *corev1.Pod
	node    string
	volumes volumebinding.PodVolumes
}

// again makes a binder assume the same, and reports whether it does. What the API server has
// already confirmed, the binder knows from its informers: assuming it again fails, and need not
// succeed.
func (as assumption) again(logger klog.Logger, binder volumebinding.SchedulerVolumeBinder) (
	volumes *volumebinding.PodVolumes, assumed bool) {
	copied := copyOf(&as.volumes)
	if _, err := binder.AssumePodVolumes(logger, as.pod, as.node, &copied); err != nil {
		logger.V(4).Info("The volumes of a pod are not assumed again", "pod", klog.KObj(as.pod), "err", err)
		return nil, false
	}
	return &copied, true
}

// assumeAgain makes the binder of other state assume the same.
func (a *assumedVolumes) assumeAgain(logger klog.Logger, other *Durable) {
	for _, value := range a.of.Range {
		as := value.(assumption)
		if volumes, assumed := as.again(logger, other.binder); assumed {
			other.assumed.add(volumes, as)
		}
	}
}

// copyOf returns the lists of volumes, which AssumePodVolumes replaces by those that it assumed.
func copyOf(volumes *volumebinding.PodVolumes) volumebinding.PodVolumes {
	return volumebinding.PodVolumes{
		StaticBindings:    slices.Clone(volumes.StaticBindings),
		DynamicProvisions: slices.Clone(volumes.DynamicProvisions),
	}
}
