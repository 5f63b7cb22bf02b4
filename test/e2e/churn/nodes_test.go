// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// The resources of a calm node.
const (
	nodeCPU     = 4000 // millis
	nodeMemory  = 8 << 30
	podsPerNode = 16
)

var (
	// calmNodes are created, deleted and changed like the rough ones, but always have the same
	// allocatable, and only livesched binds pods to them.
	calmNodes  = []string{"calm-0", "calm-1", "calm-2", "calm-3", "calm-4", "calm-5", "calm-6"}
	roughNodes = []string{"rough-0", "rough-1", "rough-2", "rough-3"}
	nodeNames  = slices.Concat(calmNodes, roughNodes)
)

func isCalm(node string) bool { return strings.HasPrefix(node, "calm-") }

var nodeActs = []act{
	{"change nodes", 400 * time.Millisecond, changeNode},
	{"recreate nodes", 1500 * time.Millisecond, recreateNode},
	{"heartbeats", 300 * time.Millisecond, beat},
}

// newNode returns a new node with a random zone and color.
func (a *actor) newNode(name string) *corev1.Node {
	node := objects.Node(name, "4", "8Gi", map[string]string{
		corev1.LabelTopologyZone: one(a, "a", "b", "c"),
		colorLabel:               one(a, "red", "blue", "green"),
	})
	node.Status.Capacity[corev1.ResourcePods] = resource.MustParse(fmt.Sprint(podsPerNode))
	node.Status.Allocatable = node.Status.Capacity
	return node
}

// createNodes makes all nodes that are missing.
func createNodes(ctx context.Context, a *actor) error {
	for _, name := range nodeNames {
		if err := raced(a.client.Create(ctx, a.newNode(name))); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	var list corev1.NodeList
	if err := a.client.List(ctx, &list); err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}

func changeNode(ctx context.Context, a *actor) error {
	name := one(a, nodeNames...)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !isCalm(name) && a.chance(40) {
		return a.did("nodes shrunk or grown", a.resizeNode(ctx, node))
	}
	return a.did("nodes changed", change(ctx, a, node, func(node *corev1.Node) {
		switch {
		case node.Spec.Unschedulable || len(node.Spec.Taints) > 0:
			heal(node) // faults of a node do not last: the cluster must have room
		case a.chance(20):
			node.Spec.Unschedulable = true
		case a.chance(30):
			node.Spec.Taints = []corev1.Taint{
				{Key: taintKey,
					Effect: one(a, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
						corev1.TaintEffectNoExecute)}}
		case a.chance(50):
			node.Labels[corev1.LabelTopologyZone] = one(a, "a", "b", "c")
		default:
			node.Labels[colorLabel] = one(a, "red", "blue", "green")
		}
	}))
}

func heal(node *corev1.Node) { node.Spec.Unschedulable, node.Spec.Taints = false, nil }

func (a *actor) resizeNode(ctx context.Context, node *corev1.Node) error {
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return err
	}
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(one(a, "1", "2", "4", "8"))
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(one(a, "4", "16", "30"))
	return a.client.Status().Update(ctx, node)
}

// recreateNode deletes a node, and may recreate it under its name, immediately or later.
func recreateNode(ctx context.Context, a *actor) error {
	name := one(a, nodeNames...)
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	if nodes[name] == nil {
		return a.did("nodes back", a.client.Create(ctx, a.newNode(name)))
	}
	if len(nodes) < len(nodeNames)/2 {
		return nil
	}
	if err := a.did("nodes deleted", a.client.Delete(ctx, nodes[name])); err != nil {
		return err
	}
	if a.chance(50) {
		return a.did("nodes back", a.client.Create(ctx, a.newNode(name)))
	}
	return nil
}

// beat changes the fields of a node that kubelets change every few seconds.
func beat(ctx context.Context, a *actor) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: one(a, nodeNames...)}}
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return raced(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.Now()}}
	return a.did("heartbeats", a.client.Status().Update(ctx, node))
}
