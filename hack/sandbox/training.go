// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/controlplane"
)

// The cluster for the training job of config/samples/podgroups: its workers need a GPU each, and
// fill four racks.
const (
	trainingName  = "training"
	workers       = 64
	racks         = 4
	nodesPerRack  = 4
	gpusPerNode   = workers / racks / nodesPerRack
	labelRack     = "example.com/rack"
	resourceGPU   = "example.com/gpu"
	firstRackNode = 5000 // the tour's other nodes have lower numbers
)

// addRack creates the nodes of a rack, numbered from 0, and waits until they accept pods.
func (t *tour) addRack(ctx context.Context, rack int) error {
	for i := range nodesPerRack {
		node := controlplane.Node(firstRackNode + rack*nodesPerRack + i)
		node.Name = fmt.Sprintf("rack-%d-node-%d", rack, i)
		node.Labels[corev1.LabelHostname], node.Labels[labelRack] = node.Name, fmt.Sprintf("rack-%d", rack)
		for _, room := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			room[resourceGPU] = *resource.NewQuantity(gpusPerNode, resource.DecimalSI)
		}
		if err := t.client.Create(ctx, node); err != nil {
			return err
		}
	}
	for i := range nodesPerRack {
		key := client.ObjectKey{Name: fmt.Sprintf("rack-%d-node-%d", rack, i)}
		if err := await(ctx, t.client, &corev1.NodeList{}, key,
			func(n *corev1.Node) (bool, error) { return len(n.Spec.Taints) == 0, nil }); err != nil {
			return err
		}
	}
	return nil
}

// trainingWaits creates all racks but one and the job, whose pods must wait for the last rack.
func (t *tour) trainingWaits(ctx context.Context) error {
	for rack := range racks - 1 {
		if err := t.addRack(ctx, rack); err != nil {
			return err
		}
	}
	if err := t.createTrainingJob(ctx); err != nil {
		return err
	}
	if err := t.awaitJob(ctx, trainingName,
		func(s *batchv1.JobStatus) bool { return s.Active == workers }); err != nil {
		return err
	}
	pods, err := t.jobPods(ctx, trainingName)
	if err != nil {
		return err
	}
	if len(pods) != workers {
		return fmt.Errorf("the job has %d pods, not %d", len(pods), workers)
	}
	message := ""
	err = await(ctx, t.client, &corev1.PodList{}, client.ObjectKeyFromObject(
		&pods[0]), func(p *corev1.Pod) (bool, error) {
		if _, c := podutil.GetPodCondition(&p.Status, corev1.PodScheduled); c != nil &&
			c.Reason == corev1.PodReasonUnschedulable {
			message = c.Message
		}
		return message != "", nil
	})
	if err != nil {
		return err
	}
	if pods, err = t.jobPods(ctx, trainingName); err != nil {
		return err
	}
	if err := noneHasANode(pods); err != nil {
		return err
	}
	t.out.printf("%d racks have %d GPUs, and %d pods want one each: all of them wait\n", racks-1,
		(racks-1)*nodesPerRack*gpusPerNode, workers)
	t.out.printf("  %s\n", message)
	return nil
}

// createTrainingJob creates the PodGroup and its Job. The PodGroup is the controller of the Job, as
// the objects of training operators are: with the feature gate WorkloadWithJob, Kubernetes makes a
// PodGroup for each Job without a controller, and the pods would belong to that one.
func (t *tour) createTrainingJob(ctx context.Context) error {
	objects, err := readObjects(filepath.Join(t.groupSamples(), "training_job.yaml"))
	if err != nil {
		return err
	}
	var owners []metav1.OwnerReference
	for _, object := range objects {
		object.SetOwnerReferences(owners)
		applied, err := t.apply(ctx, object)
		if err != nil {
			return err
		}
		owners = []metav1.OwnerReference{*metav1.NewControllerRef(applied, applied.GroupVersionKind())}
	}
	return nil
}

// trainingStarts creates the last rack, and waits until the job is complete: kwok ends its pods
// soon.
func (t *tour) trainingStarts(ctx context.Context) error {
	if err := t.addRack(ctx, racks-1); err != nil {
		return err
	}
	began := time.Now()
	pods, perRack, err := t.completed(ctx, trainingName)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if len(perRack) != racks {
		return fmt.Errorf("the pods are on %s, not on %d racks", counts(perRack), racks)
	}
	t.out.printf("all %d pods got a node (%s), and the job was complete %s after the rack was ready\n", len(pods),
		counts(perRack), round(took))
	return nil
}

// completed waits until all pods of a job have succeeded. It returns them, and how many of them
// were in each rack.
func (t *tour) completed(ctx context.Context, name string) (pods []corev1.Pod, perRack map[string]int, err error) {
	err = t.awaitJob(ctx, name, func(s *batchv1.JobStatus) bool { return s.Succeeded == workers })
	if err != nil {
		return nil, nil, err
	}
	if pods, err = t.jobPods(ctx, name); err != nil {
		return nil, nil, err
	}
	perRack, err = t.perRack(ctx, pods)
	return pods, perRack, err
}

// perRack counts pods by the rack that they are in.
func (t *tour) perRack(ctx context.Context, pods []corev1.Pod) (map[string]int, error) {
	var nodes corev1.NodeList
	if err := t.client.List(ctx, &nodes, client.HasLabels{labelRack}); err != nil {
		return nil, err
	}
	rackOf := map[string]string{}
	for _, node := range nodes.Items {
		rackOf[node.Name] = node.Labels[labelRack]
	}
	perRack := map[string]int{}
	for _, pod := range pods {
		perRack[rackOf[pod.Spec.NodeName]]++
	}
	return perRack, nil
}

// noneHasANode returns an error if a pod of a group that waits has a node.
func noneHasANode(pods []corev1.Pod) error {
	if i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != "" }); i >= 0 {
		return fmt.Errorf("pod %s of the group has a node, though there is no room for all", pods[i].Name)
	}
	return nil
}

func (t *tour) awaitJob(ctx context.Context, name string, is func(*batchv1.JobStatus) bool) error {
	return await(ctx, t.client, &batchv1.JobList{}, client.ObjectKey{Namespace: namespace, Name: name},
		func(j *batchv1.Job) (bool, error) { return is(&j.Status), nil })
}

func (t *tour) jobPods(ctx context.Context, name string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := t.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
	return pods.Items, err
}
