// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// tasks is the number of pods of the roll-out. They have no controllers, so each is an owner.
	tasks = 30
	// noZone is a zone without nodes.
	noZone = "zone-z"
)

// poisoned returns a profile that fits no node, to be rolled out to half of the owners.
func poisoned(profile *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	profile = profile.DeepCopy()
	configs, _, err := unstructured.NestedSlice(profile.Object, "spec", "pluginConfig")
	if err != nil {
		return nil, err
	}
	required := map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{
		"key": corev1.LabelTopologyZone, "operator": string(corev1.NodeSelectorOpIn), "values": []any{noZone}}}}}}
	configs = append(configs, map[string]any{"name": "NodeAffinity", "args": map[string]any{
		"addedAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": required}}})
	rollout := map[string]any{"strategy": string(v1alpha1.RolloutCanary), "canary": map[string]any{
		"shadowDuration": "0s",
		"steps":          []any{map[string]any{"setWeight": int64(50)}, map[string]any{"pause": map[string]any{}}},
	}}
	if err := unstructured.SetNestedSlice(profile.Object, configs, "spec", "pluginConfig"); err != nil {
		return nil, err
	}
	return profile, unstructured.SetNestedField(profile.Object, rollout, "spec", "rollout")
}

// rollOutPoison rolls out a spec that fits no node, and expects that it takes itself back.
func (t *tour) rollOutPoison(ctx context.Context) error {
	profile, err := poisoned(t.binpack)
	if err != nil {
		return err
	}
	applied, _, err := t.applyProfile(ctx, profile, func(p *v1alpha1.SchedulerProfile) (bool, error) {
		programmed := condition(p, v1alpha1.ConditionProgrammed)
		return programmed != nil && programmed.Reason == v1alpha1.ReasonRollingOut, nil
	})
	if err != nil {
		return err
	}
	t.out.printf("revision %s decides the pods of %d %% of owners, and revision %s the others\n",
		applied.Status.Rollout.CanaryRevision, applied.Status.Rollout.Weight, applied.Status.Rollout.StableRevision)
	created := 0
	for ; created < tasks; created++ {
		if err := t.client.Create(ctx, task(created)); err != nil {
			return err
		}
	}
	key := client.ObjectKeyFromObject(profile)
	err = await(ctx, t.client, &v1alpha1.SchedulerProfileList{}, key, func(p *v1alpha1.SchedulerProfile) (bool, error) {
		if p.Status.Rollout.Phase == v1alpha1.RolloutDegraded {
			applied = p
			return true, nil
		}
		// Chance may have given few of the pods to the new revision: each further look adds one.
		created++
		return false, t.client.Create(ctx, task(created))
	})
	if err != nil {
		return err
	}
	if _, err := t.plugin(ctx, "rollout", "status", profile.GetName()); err != nil {
		return err
	}
	if active := applied.Status.Active; active == nil || active.Revision != t.original {
		return fmt.Errorf("revision %s does not decide: status.active is %+v", t.original, active)
	}
	for i := range tasks {
		key := client.ObjectKeyFromObject(task(i))
		err := await(ctx, t.client, &corev1.PodList{}, key,
			func(p *corev1.Pod) (bool, error) { return p.Spec.NodeName != "", nil })
		if err != nil {
			return fmt.Errorf("pod %s: %w", task(i).Name, err)
		}
	}
	t.out.printf("all pods got a node\n")
	_, _, err = t.applyProfile(ctx, t.binpack, isProgrammed)
	return err
}

// task returns a small pod for binpack.
func task(number int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("task-", number)},
		Spec: corev1.PodSpec{SchedulerName: "binpack", Containers: []corev1.Container{{Name: "task", Image: "task",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}}}}},
	}
}
