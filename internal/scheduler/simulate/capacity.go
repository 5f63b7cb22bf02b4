// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// CountRequest asks how many pods like one fit.
type CountRequest struct {
	// Pod is like the pods that are counted. It is on no node.
	Pod   *corev1.Pod
	Nodes Nodes
	Limit int
	Seed  uint64
	// SuggestFor is how long changes that may help the next pod are tried.
	SuggestFor time.Duration
}

// Count counts how many pods fit. The fork is changed, and must not be used afterwards. The error
// is a *InvalidError, that of a plugin, or that of a context that ended.
func Count(ctx context.Context, k *fork.Fork, r CountRequest) (*v1alpha1.CapacityStatus, error) {
	cfg, err := k.Profile(r.Pod.Spec.SchedulerName)
	if err != nil {
		path := field.NewPath("spec", "pod", "spec", "schedulerName")
		return nil, &InvalidError{field.ErrorList{field.Invalid(path, r.Pod.Spec.SchedulerName, "no SchedulerProfile has this scheduler name")}}
	}
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil, err
	}
	removed, errs := r.Nodes.removed(snapshot)
	templates, more := r.Nodes.templates(snapshot)
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, &InvalidError{errs}
	}
	if err := r.Nodes.apply(k, templates, removed); err != nil {
		return nil, err
	}
	if snapshot, err = k.Snapshot(); err != nil {
		return nil, err
	}
	status := &v1alpha1.CapacityStatus{
		Profile: cfg.Name, Revision: cfg.Revision, ExtendersNotCalled: len(cfg.Extenders) > 0, ClusterNodes: int32(snapshot.NumNodes()),
	}
	return status, count(ctx, k, cfg, r, status)
}

// count places pods until one fits nowhere, and explains why.
func count(ctx context.Context, k *fork.Fork, cfg *config.Profile, r CountRequest, status *v1alpha1.CapacityStatus) error {
	sequence, pools := NewSequence(k, r.Seed), poolPods{}
	for number := range r.Limit {
		pod := numbered(r.Pod, number)
		d, err := sequence.Place(ctx, cfg, pod)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case Refused(err):
			status.Next, err = next(ctx, k, pod, r.SuggestFor)
			pools.report(status)
			return err
		case err != nil:
			return fmt.Errorf("deciding pod %d: %w", number+1, err)
		}
		snapshot, err := k.Snapshot()
		if err != nil {
			return err
		}
		node, err := snapshot.NodeInfos().Get(d.SuggestedHost)
		if err != nil {
			return err
		}
		pools.add(explain.PoolOf(node.Node()), d.SuggestedHost)
		status.Pods++
	}
	status.Limited = true
	pools.report(status)
	return nil
}

// numbered returns a copy of a pod with a name and a UID of its own.
func numbered(like *corev1.Pod, number int) *corev1.Pod {
	pod := *like // shallow: nothing below its metadata is changed
	pod.Name = fmt.Sprintf("%s-%d", like.Name, number)
	pod.UID = types.UID(fmt.Sprintf("counted-%d", number))
	return &pod
}

// next explains a pod that does not fit.
func next(ctx context.Context, k *fork.Fork, pod *corev1.Pod, suggestFor time.Duration) (*v1alpha1.NextPod, error) {
	x, err := explain.Explain(ctx, k, explain.Pending{Pod: pod, SuggestFor: suggestFor})
	if err != nil {
		return nil, err
	}
	return &v1alpha1.NextPod{Verdict: x.Verdict, Message: x.Message, Groups: x.Pending.Groups, Suggestions: x.Pending.Suggestions}, nil
}

// poolPods counts pods by pool, with the nodes that they are on.
type poolPods map[string]*poolCount

type poolCount struct {
	pods  int
	nodes sets.Set[string]
}

func (p poolPods) add(pool, node string) {
	if p[pool] == nil {
		p[pool] = &poolCount{nodes: sets.New[string]()}
	}
	p[pool].pods++
	p[pool].nodes.Insert(node)
}

// report writes the pools, with the most pods first.
func (p poolPods) report(status *v1alpha1.CapacityStatus) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		status.Nodes += int32(p[name].nodes.Len())
		status.Pools = append(status.Pools, v1alpha1.PoolCapacity{Pool: name, Pods: int32(p[name].pods), Nodes: int32(p[name].nodes.Len())})
	}
	slices.SortStableFunc(status.Pools, func(a, b v1alpha1.PoolCapacity) int { return cmp.Compare(b.Pods, a.Pods) })
}
