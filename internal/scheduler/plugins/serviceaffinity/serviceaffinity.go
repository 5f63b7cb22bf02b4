// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaffinity is the plugin ServiceAffinity, which kube-scheduler had up to 1.22. It
// keeps the pods of a service on nodes with the same values of some labels, and spreads them over
// the values of others. It implements the predicates with a serviceAffinity and the priorities with
// a serviceAntiAffinity of the legacy Policy API.
package serviceaffinity

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	corev1listers "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// Name of the plugin.
const Name = "ServiceAffinity"

// Service is the resource whose events the plugin registers for. The scheduler framework no longer
// has a name for it.
const Service fwk.EventResource = "Service"

// Args are the arguments of the plugin. All lists are of keys of node labels.
type Args struct {
	args.TypeMeta `json:",inline"`
	// AffinityLabels must have the same values on the nodes of all pods of a service.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
	// AntiAffinityLabelsPreference are the labels over whose values the pods of a service are
	// spread.
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// ParseArgs reads and checks the arguments of the plugin.
func ParseArgs(object runtime.Object) (Args, error) {
	var a Args
	if err := args.Decode(object, &a); err != nil {
		return Args{}, err
	}
	if err := a.Check(Name); err != nil {
		return Args{}, err
	}
	if slices.Contains(a.AffinityLabels, "") || slices.Contains(a.AntiAffinityLabelsPreference, "") {
		return Args{}, errors.New("a label must not be empty")
	}
	return a, nil
}

// ServiceAffinity is the plugin. Its data about a pod is in the pod's cycle state.
type ServiceAffinity struct {
	args     Args
	nodes    fwk.NodeInfoLister
	services corev1listers.ServiceLister
}

var (
	_ fwk.PreFilterPlugin   = &ServiceAffinity{}
	_ fwk.FilterPlugin      = &ServiceAffinity{}
	_ fwk.ScorePlugin       = &ServiceAffinity{}
	_ fwk.EnqueueExtensions = &ServiceAffinity{}
)

// New is the plugin's factory.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	a, err := ParseArgs(object)
	if err != nil {
		return nil, err
	}
	return &ServiceAffinity{
		args:     a,
		nodes:    handle.SnapshotSharedLister().NodeInfos(),
		services: handle.SharedInformerFactory().Core().V1().Services().Lister(),
	}, nil
}

// Name implements fwk.Plugin.
func (pl *ServiceAffinity) Name() string { return Name }

// EventsToRegister returns the events that can make a node acceptable: updates and deletions of the
// service's pods and of services, new nodes, and changes of node labels.
func (pl *ServiceAffinity) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if len(pl.args.AffinityLabels) == 0 {
		return nil, nil
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update | fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: Service, ActionType: fwk.Update | fwk.Delete}},
	}, nil
}
