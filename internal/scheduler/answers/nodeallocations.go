// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// allocationsFor is how long the room of nodes is kept: all requests about the same pod in that
// time get the same.
const allocationsFor = 5 * time.Second

// allocations keeps the room of nodes for the pod of the latest request. Any goroutine may use it.
// Its zero value is ready.
type allocations struct {
	mu   sync.Mutex // guards the fields below, and is held while nodes are read
	pod  types.NamespacedName
	list *v1alpha1.NodeAllocationList
}

// NodeAllocations implements apiserving.Answers.
func (a *Answers) NodeAllocations(ctx context.Context,
	pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	kept := &a.allocations
	kept.mu.Lock()
	defer kept.mu.Unlock()
	now := a.Clock.Now()
	if kept.list != nil && kept.pod == pod && now.Sub(kept.list.Time.Time) < allocationsFor {
		return kept.list, nil
	}
	list, err := a.readAllocations(ctx, pod)
	if err != nil {
		return nil, err
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeAllocationList"}
	list.Time = metav1.NewTime(now)
	kept.pod, kept.list = pod, list
	return list, nil
}

func (a *Answers) readAllocations(ctx context.Context,
	name types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.NodeAllocationList{Items: make([]v1alpha1.NodeAllocation, 0, len(nodes))}
	for _, node := range nodes {
		list.Items = append(list.Items, allocationOf(node))
	}
	if name.Name != "" {
		if err := a.addRefusals(ctx, k, name, list.Items); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NodeAllocation) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// addRefusals adds why nodes refuse a pod. The nodes are those of the fork, in their order.
func (a *Answers) addRefusals(ctx context.Context, k *fork.Fork, name types.NamespacedName,
	nodes []v1alpha1.NodeAllocation) error {
	pod, err := a.Pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource("pods"), name.Name)
	}
	if err != nil {
		return err
	}
	reasons, err := explain.Reasons(ctx, k, pod)
	if err != nil {
		return err
	}
	for i := range nodes {
		nodes[i].Refusal = reasons[nodes[i].Name]
	}
	return nil
}

// allocationOf returns the room of a node.
func allocationOf(info fwk.NodeInfo) v1alpha1.NodeAllocation {
	node := info.Node()
	allocation := v1alpha1.NodeAllocation{
		Name: node.Name, Pool: nodepool.Of(node), Zone: node.Labels[corev1.LabelTopologyZone],
		Cordoned: node.Spec.Unschedulable, NotReady: true,
		Allocatable: resourcesOf(info.GetAllocatable()), Requested: resourcesOf(info.GetRequested()),
	}
	allocation.Allocatable[corev1.ResourcePods] =
		*resource.NewQuantity(int64(info.GetAllocatable().GetAllowedPodNumber()), resource.DecimalSI)
	allocation.Requested[corev1.ResourcePods] = *resource.NewQuantity(int64(len(info.GetPods())), resource.DecimalSI)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			allocation.NotReady = false
		}
	}
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; taint.Effect != corev1.TaintEffectPreferNoSchedule {
			allocation.Taints = append(allocation.Taints, taint.ToString())
		}
	}
	return allocation
}

// resourcesOf returns the resources that are not zero, but for pods, as Kubernetes writes them.
func resourcesOf(r fwk.Resource) corev1.ResourceList {
	list := corev1.ResourceList{}
	add := func(name corev1.ResourceName, quantity *resource.Quantity) {
		if !quantity.IsZero() {
			list[name] = *quantity
		}
	}
	add(corev1.ResourceCPU, resource.NewMilliQuantity(r.GetMilliCPU(), resource.DecimalSI))
	add(corev1.ResourceMemory, resource.NewQuantity(r.GetMemory(), resource.BinarySI))
	add(corev1.ResourceEphemeralStorage, resource.NewQuantity(r.GetEphemeralStorage(), resource.BinarySI))
	for name, value := range r.GetScalarResources() {
		add(name, resource.NewQuantity(value, resource.DecimalSI))
	}
	return list
}
