// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// notTerminal selects the pods that the scheduler's informers hold.
var notTerminal = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

// Cluster is the part of the API server's state that is compared.
type Cluster struct {
	Nodes map[string]Node
	// Pods holds the pods that have not ended.
	Pods map[types.UID]Pod
	// Devices are those that claims have; empty if dynamic resource allocation is off.
	Devices devices.Allocations
}

// Node holds the fields of a node that are compared.
type Node struct {
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Allocatable   corev1.ResourceList
}

// Pod holds the fields of a pod that are compared.
type Pod struct {
	Namespace, Name, SchedulerName string
	// NodeName is the node of the pod, NominatedNodeName the nominated node in its status.
	NodeName, NominatedNodeName string
	// ResizeDeferred is true if the pod is on a node that has no room for its resize yet.
	ResizeDeferred bool
	// Deleting is true if the pod has a deletion timestamp.
	Deleting bool
	// Requests are the resources that the pod takes up on its node.
	Requests *schedframework.Resource
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// AddNode adds a node.
func (c *Cluster) AddNode(node *corev1.Node) {
	if c.Nodes == nil {
		c.Nodes = map[string]Node{}
	}
	c.Nodes[node.Name] = nodeOf(node)
}

// AddPod adds a pod, unless it has ended.
func (c *Cluster) AddPod(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if c.Pods == nil {
		c.Pods = map[types.UID]Pod{}
	}
	c.Pods[pod.UID] = podOf(pod)
}

func nodeOf(node *corev1.Node) Node {
	return Node{
		Labels:        node.Labels,
		Taints:        node.Spec.Taints,
		Unschedulable: node.Spec.Unschedulable,
		Allocatable:   node.Status.Allocatable,
	}
}

func podOf(pod *corev1.Pod) Pod {
	return Pod{
		Namespace:         pod.Namespace,
		Name:              pod.Name,
		SchedulerName:     pod.Spec.SchedulerName,
		NodeName:          pod.Spec.NodeName,
		NominatedNodeName: pod.Status.NominatedNodeName,
		ResizeDeferred:    podfields.ResizeDeferred(pod),
		Deleting:          pod.DeletionTimestamp != nil,
		Requests:          requestsOf(&schedframework.PodInfo{Pod: pod}),
	}
}

// ReadCluster lists all nodes and pods, in pages, and keeps only the compared fields.
func ReadCluster(ctx context.Context, client clientset.Interface) (*Cluster, error) {
	cluster := &Cluster{}
	if err := list(ctx, client.CoreV1().Nodes().List, "", cluster.AddNode); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if err := list(ctx, client.CoreV1().Pods(metav1.NamespaceAll).List, notTerminal, cluster.AddPod); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return cluster, nil
}

// readClaims lists all claims for devices, and keeps only what they have. There are none if the API
// server does not serve them.
func (c *Cluster) readClaims(ctx context.Context, client clientset.Interface) error {
	c.Devices = devices.Allocations{}
	err := list(ctx, client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List, "", c.Devices.Add)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing resource claims: %w", err)
	}
	return nil
}

func list[L, T runtime.Object](ctx context.Context, page func(context.Context, metav1.ListOptions) (L, error),
	fieldSelector string, each func(T)) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return page(ctx, o) })
	p.PageSize, p.PageBufferSize = pageSize, 1
	return p.EachListItem(ctx, metav1.ListOptions{FieldSelector: fieldSelector}, func(object runtime.Object) error {
		if item, ok := object.(T); ok {
			each(item)
		}
		return nil
	})
}
