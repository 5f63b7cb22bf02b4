// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// allocationsFor is how long the room of nodes is kept at least: all requests about the same pod
// in that time get the same.
const allocationsFor = 5 * time.Second

// allocations keeps the room of nodes for the pod of the latest request. Any goroutine may use it.
// Its zero value is ready.
type allocations struct {
	mu   sync.Mutex // guards the fields below, and is held while nodes are read
	pod  types.NamespacedName
	list *v1alpha1.NodeAllocationList
	// until is how long it is kept.
	until time.Time
}

// NodeAllocations implements apiserving.Answers.
func (a *Answers) NodeAllocations(ctx context.Context,
	pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	kept := &a.allocations
	kept.mu.Lock()
	defer kept.mu.Unlock()
	now := a.Clock.Now()
	if kept.list != nil && kept.pod == pod && now.Before(kept.until) {
		return kept.list, nil
	}
	list, err := a.readAllocations(ctx, pod)
	if err != nil {
		return nil, err
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeAllocationList"}
	list.Time = metav1.NewTime(now)
	kept.pod, kept.list, kept.until = pod, list, a.keepUntil(now, allocationsFor)
	return list, nil
}

func (a *Answers) readAllocations(ctx context.Context,
	name types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	nodes, err := k.NodeAllocations()
	if err != nil {
		return nil, err
	}
	if name.Name != "" {
		if err := a.addRefusals(ctx, k, name, nodes); err != nil {
			return nil, err
		}
	}
	return &v1alpha1.NodeAllocationList{Items: nodes}, nil
}

// addRefusals adds why nodes refuse a pod. The nodes are those of the fork.
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
