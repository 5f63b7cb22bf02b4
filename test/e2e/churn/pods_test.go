// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxPods is the largest number of pods. The nodes have room for about as many.
const maxPods = 150

// podActs change pods. kubelet is not among them: it acts all the time.
var podActs = []act{
	{"create pods", 50 * time.Millisecond, createPods},
	{"create bursts", 3 * time.Second, createBurst},
	{"delete pods", 150 * time.Millisecond, deletePod},
	{"recreate pods", 500 * time.Millisecond, recreatePod},
	{"update pods", 100 * time.Millisecond, updatePod},
	{"ungate pods", 200 * time.Millisecond, ungatePod},
	{"resize pods", 300 * time.Millisecond, resizePod},
	{"finish pods", 300 * time.Millisecond, finishPod},
	{"bind pods by others", 700 * time.Millisecond, bindPod},
	{"nominate pods by others", 1500 * time.Millisecond, nominatePod},
}

func createPods(ctx context.Context, a *actor) error {
	if len(a.history.all()) >= maxPods {
		return nil
	}
	pod := a.newPod()
	return a.did("kind "+pod.Labels[kindLabel], a.client.Create(ctx, pod))
}

// createBurst creates many equal pods in one go.
func createBurst(ctx context.Context, a *actor) error {
	if len(a.history.all()) >= maxPods {
		return nil
	}
	like := a.newPod()
	for range 5 + a.rng.IntN(20) {
		pod := like.DeepCopy()
		pod.Name = fmt.Sprintf("burst-%d", a.rng.IntN(maxPods))
		if len(pod.OwnerReferences) > 0 {
			a.newOwner(pod)
		}
		if err := a.did("kind "+pod.Labels[kindLabel], a.client.Create(ctx, pod)); err != nil {
			return err
		}
	}
	return nil
}

func deletePod(ctx context.Context, a *actor) error {
	// The fuller the cluster, the more pods are deleted.
	n := len(a.history.all()) * 3 / maxPods
	for range n {
		if pod := a.history.pick(a.rng); pod != nil {
			if err := a.remove(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a pod: immediately, or with its grace period, in which case kubelet ends it.
func (a *actor) remove(ctx context.Context, pod *corev1.Pod) error {
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if a.chance(60) {
		options = append(options, client.GracePeriodSeconds(0))
	}
	return raced(a.client.Delete(ctx, pod.DeepCopy(), options...))
}

// recreatePod replaces a pod with another pod of the same name.
func recreatePod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng)
	if pod == nil {
		return nil
	}
	if err := raced(a.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))); err != nil {
		return err
	}
	next := a.newPod()
	next.Name = pod.Name
	if a.chance(50) { // an equal one
		next.Spec, next.Labels = pod.DeepCopy().Spec, pod.Labels
		next.Spec.NodeName, next.Spec.Priority, next.Spec.PreemptionPolicy, next.Spec.Overhead = "", nil, nil, nil
		next.Spec.Tolerations = nil
	}
	return a.did("pods recreated", a.client.Create(ctx, next))
}

func updatePod(ctx context.Context, a *actor) error {
	if a.chance(40) {
		return a.tick(ctx)
	}
	pod := a.history.pick(a.rng, isPending)
	if pod == nil {
		return nil
	}
	patch := client.MergeFrom(pod)
	pod = pod.DeepCopy()
	switch a.rng.IntN(4) {
	case 0:
		pod.Labels[appLabel] = one(a, "web", "db", "cache", "rare")
	case 1:
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: taintKey, Operator: corev1.TolerationOpExists})
	case 2:
		delete(pod.Labels, holdLabel)
	case 3:
		if a.chance(20) {
			pod.Labels[holdLabel] = "yes"
		}
		delete(pod.Labels, actLabel)
	}
	// A pod that was bound in the meantime cannot be changed in all ways.
	return a.did("pods updated", ignoring(a.client.Patch(ctx, pod, patch), apierrors.IsInvalid))
}

// tick changes a label without meaning, of any pod.
func (a *actor) tick(ctx context.Context) error {
	pod := a.history.pick(a.rng)
	if pod == nil {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"%d"}}}`, tickLabel, a.rng.IntN(1000))
	return a.did("pods ticked",
		a.client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

func ungatePod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng, isGated, isPending)
	if pod == nil || a.chance(30) {
		return nil
	}
	return a.did("pods ungated",
		a.client.Patch(ctx, pod.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`))))
}

// resizePod changes the requests of a bound pod: on calm nodes, they can only shrink.
func resizePod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng, occupies,
		func(pod *corev1.Pod) bool { return pod.Spec.Resources == nil && !isTerminating(pod) })
	if pod == nil {
		return nil
	}
	pod = pod.DeepCopy()
	cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	if next := int64(1 + a.rng.IntN(2000)); !isCalm(pod.Spec.NodeName) || next < cpu {
		cpu = next
	}
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
	// Some pods may not be resized, for example if their QoS class would change.
	return a.did("pods resized",
		ignoring(a.client.SubResource("resize").Update(ctx, pod), apierrors.IsInvalid, apierrors.IsForbidden))
}

func finishPod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng,
		func(pod *corev1.Pod) bool { return !isFinished(pod) && (isBound(pod) || a.chance(5)) })
	if pod == nil {
		return nil
	}
	patch := fmt.Sprintf(`{"status":{"phase":%q}}`, one(a, corev1.PodSucceeded, corev1.PodFailed))
	return a.did("pods finished",
		a.client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// bindPod binds a pod without livesched.
func bindPod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng, isPending, func(pod *corev1.Pod) bool { return !isGated(pod) })
	if pod == nil {
		return nil
	}
	err := a.clientset.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: one(a, roughNodes...)},
	}, metav1.CreateOptions{})
	return a.did("pods bound by others", err)
}

// nominatePod sets or removes a nomination in a pod's status.
func nominatePod(ctx context.Context, a *actor) error {
	pod := a.history.pick(a.rng, isPending)
	if pod == nil {
		return nil
	}
	patch := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, one(a, append([]string{""}, nodeNames...)...))
	err := a.client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	return a.did("pods nominated by others", ignoring(err, apierrors.IsInvalid)) // the pod was bound in the meantime
}

// kubelet ends terminating pods and, as the pod garbage collector does, those on deleted nodes, and
// terminating ones without a node. An API server that ends in the middle of a deletion leaves such
// pods.
var kubelet = act{"kubelet", 300 * time.Millisecond, func(ctx context.Context, a *actor) error {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	for _, pod := range a.history.all(isBound) {
		if isTerminating(pod) && a.chance(60) || nodes[pod.Spec.NodeName] == nil && a.chance(10) {
			if err := raced(a.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
	}
	for _, pod := range a.history.all(isTerminating, func(pod *corev1.Pod) bool { return !isBound(pod) }) {
		if err := raced(a.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))); err != nil {
			return err
		}
	}
	for _, pod := range a.history.all(isFinished) {
		if a.chance(10) {
			if err := raced(a.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
	}
	return nil
}}
