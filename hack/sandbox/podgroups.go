// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The PodGroup of Kubernetes in config/samples/podgroups, whose pods fill a rack, and the Job there
// for which Kubernetes makes a PodGroup.
const (
	servingName  = "serving"
	tuningName   = "tuning"
	servers      = nodesPerRack * gpusPerNode
	groupsSample = "kubernetes_podgroup.yaml"
	jobSample    = "gang_job.yaml"
)

// servingInOneRack creates the PodGroup of Kubernetes and its pods, which must be in one rack.
func (t *tour) servingInOneRack(ctx context.Context) error {
	if err := t.applyAll(ctx, t.groupSamples(), groupsSample); err != nil {
		return err
	}
	w := workload{servingName, "binpack", servers}
	err := await(ctx, t.client, &appsv1.DeploymentList{}, client.ObjectKey{Namespace: namespace, Name: w.name},
		func(d *appsv1.Deployment) (bool, error) { return d.Status.AvailableReplicas == w.replicas, nil })
	if err != nil {
		return fmt.Errorf("%w: %w", err, t.explain(w))
	}
	pods, err := t.pods(ctx, w)
	if err != nil {
		return err
	}
	perRack, err := t.perRack(ctx, pods)
	if err != nil {
		return err
	}
	if len(perRack) != 1 {
		return fmt.Errorf("the pods are on %s, not in one rack", counts(perRack))
	}
	group, err := t.triedGroup(ctx, servingName, metav1.ConditionTrue)
	if err != nil {
		return err
	}
	t.out.printf("all %d pods run in one rack (%s)\n", len(pods), counts(perRack))
	t.printGroup(group)
	return nil
}

// tuningWaits creates the Job, whose pods must wait for the rack of the other group.
func (t *tour) tuningWaits(ctx context.Context) error {
	if err := t.applyAll(ctx, t.groupSamples(), jobSample); err != nil {
		return err
	}
	if err := t.awaitJob(ctx, tuningName, func(s *batchv1.JobStatus) bool { return s.Active == workers }); err != nil {
		return err
	}
	pods, err := t.jobPods(ctx, tuningName)
	if err != nil {
		return err
	}
	if len(pods) != workers || pods[0].Spec.SchedulingGroup == nil || pods[0].Spec.SchedulingGroup.PodGroupName == nil {
		return fmt.Errorf("the job has %d pods, not %d, or they name no PodGroup", len(pods), workers)
	}
	group, err := t.triedGroup(ctx, *pods[0].Spec.SchedulingGroup.PodGroupName, metav1.ConditionFalse)
	if err != nil {
		return err
	}
	if pods, err = t.jobPods(ctx, tuningName); err != nil {
		return err
	}
	if err := noneHasANode(pods); err != nil {
		return err
	}
	t.out.printf("Kubernetes made a PodGroup with minCount %d for it: all of its pods wait\n",
		group.Spec.SchedulingPolicy.Gang.MinCount)
	t.printGroup(group)
	return nil
}

// tuningStarts deletes the Deployment, and waits until the Job is complete.
func (t *tour) tuningStarts(ctx context.Context) error {
	began := time.Now()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: servingName}}
	inBackground := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := t.client.Delete(ctx, deployment, inBackground); err != nil {
		return err
	}
	pods, perRack, err := t.completed(ctx, tuningName)
	if err != nil {
		return err
	}
	took := time.Since(began)
	group, err := t.triedGroup(ctx, *pods[0].Spec.SchedulingGroup.PodGroupName, metav1.ConditionTrue)
	if err != nil {
		return err
	}
	t.out.printf("all %d pods got a node (%s), and the job was complete after %s\n", len(pods), counts(perRack),
		round(took))
	t.printGroup(group)
	return nil
}

// triedGroup waits until the condition of a PodGroup has a status.
func (t *tour) triedGroup(ctx context.Context, name string, status metav1.ConditionStatus) (
	group *schedulingv1beta1.PodGroup, err error) {
	err = await(ctx, t.client, &schedulingv1beta1.PodGroupList{}, client.ObjectKey{Namespace: namespace, Name: name},
		func(g *schedulingv1beta1.PodGroup) (bool, error) {
			group = g
			return meta.IsStatusConditionPresentAndEqual(g.Status.Conditions,
				schedulingv1beta1.PodGroupInitiallyScheduled, status), nil
		})
	return group, err
}

// printGroup prints the condition of a PodGroup that has one, without the name of the group, which
// Kubernetes makes up for that of a Job.
func (t *tour) printGroup(group *schedulingv1beta1.PodGroup) {
	c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	t.out.printf("  %s  %s  %s\n", c.Type, c.Status, c.Reason)
	if _, message, found := strings.Cut(c.Message, ": "); found {
		t.out.printf("  %s\n", message)
	}
}

func (t *tour) groupSamples() string { return filepath.Join(t.root, "config", "samples", "podgroups") }
