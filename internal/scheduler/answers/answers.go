// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answers answers questions about the running scheduler, for package apiserving. It changes
// nothing:
//
//	Explain           a recorded decision, or one that is made on a fork   pending.go, bound.go
//	Simulate, Count   many decisions on a fork                             simulate.go
//	Decisions         the decision log                                     decisions.go
//	Queues            the counters of the queue                            queues.go
//	PendingKinds      the pods in the queue, by kind                       pendingkinds.go
//	NodeAllocations   the room of nodes, and why they refuse a pod         nodeallocations.go
//	LoadSamples       the load of the last hours (package load)            loadsamples.go
//	Snapshot          all that decisions depend on, as a file              snapshot.go
package answers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/load"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Answers implements apiserving.Answers for a scheduler that has listed the cluster. All exported
// fields but Log are required, and none changes. Any goroutine may call it.
//
// It works on every replica. A replica that does not lead has made no decisions, and does not know
// how often the leader has tried a pod.
type Answers struct {
	Cache       *cache.Cache
	Queue       *queue.Queue
	WaitingPods *framework.WaitingPods
	Groups      *podgroup.Registry
	Profiles    *profile.Store
	Forker      *fork.Forker
	// Log holds the decisions of this replica. nil: they are not recorded.
	Log *decisionlog.Log
	// Leading is true while this replica schedules.
	Leading *atomic.Bool
	// FastPath is the value of --fast-path.
	FastPath string
	Clock    clock.PassiveClock

	Informers *informers.Source
	Pods      corev1listers.PodLister
	Client    clientset.Interface
	// Objects reads profiles and policies.
	Objects client.Reader
	// Registered and AllowedHosts are the plugins and the hosts of extenders that profiles and
	// policies may name.
	Registered   sets.Set[string]
	AllowedHosts resolve.AllowedHosts

	// Load has the load of this replica, Replica its name, and Started when it was started.
	Load    *load.Recorder
	Replica string
	Started time.Time

	kinds       kinds
	allocations allocations
}

var _ apiserving.Answers = (*Answers)(nil)

// Explain implements apiserving.Answers.
func (a *Answers) Explain(ctx context.Context, namespace, name, node string) (*v1alpha1.PodExplanation, error) {
	pod, err := a.Pods.Pods(namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	case err != nil:
		return nil, err
	case pod.Spec.NodeName != "":
		return a.explainBound(ctx, pod, node)
	}
	return a.explainPending(ctx, pod, node)
}

// explainNode compares a node with the others that a pod fits on. The fork must not be used
// afterwards.
func explainNode(ctx context.Context, k *fork.Fork, pod *corev1.Pod, name string) (*v1alpha1.NodeExplanation, error) {
	x, err := explain.Node(ctx, k, pod, name)
	if none := (*explain.NoNodeError)(nil); errors.As(err, &none) {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return x, err
}

// objects returns the profiles and policies, to be resolved without Secrets: forks call no
// extenders.
func (a *Answers) objects(ctx context.Context) (resolve.Input, error) {
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	if err := errors.Join(a.Objects.List(ctx, &profiles), a.Objects.List(ctx, &policies)); err != nil {
		return resolve.Input{}, fmt.Errorf("listing SchedulerProfiles and SchedulingPolicies: %w", err)
	}
	return resolve.Input{
		Profiles: profiles.Items, Policies: policies.Items, SecretsUnknown: true, AllowedHosts: a.AllowedHosts,
		Registered: a.Registered,
	}, nil
}
