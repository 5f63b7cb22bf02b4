// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// leastKept is the share of a request, in percent, that a suggestion must leave: a pod that gets
// less is another pod.
const leastKept = 10

// reduceRequests tries whether the pod fits if it requests less: what is free on the node that
// lacks the least share of the requests.
func (e *explainer) reduceRequests(ctx context.Context) ([]suggestion, error) {
	requests := (&schedframework.PodInfo{Pod: e.pod}).CalculateResource().Resource
	least := func(n *refusedNode) int64 { // the share that is left of the request that shrinks most
		share := int64(100)
		for _, l := range n.short {
			requested := amountOf(requests, l.resource)
			if l.resource == corev1.ResourcePods || l.amount >= requested {
				return 0
			}
			share = min(share, 100-(l.amount*100+requested-1)/requested)
		}
		return share
	}
	nodes := slices.DeleteFunc(e.only(names.NodeResourcesFit),
		func(n *refusedNode) bool { return len(n.short) == 0 || least(n) < leastKept })
	slices.SortStableFunc(nodes, func(a, b *refusedNode) int { return cmp.Compare(least(b), least(a)) })
	for _, n := range nodes[:min(len(nodes), maxAttempts)] {
		pod, texts := reduced(e.pod, requests, n.short)
		if pod == nil {
			return nil, nil
		}
		fit, err := e.fork.FirstFit(ctx, e.instance, pod, n.name())
		if err != nil {
			return nil, err
		}
		if fit != "" {
			description := fmt.Sprintf("Request at most %s: so much is free on a node%s.", enumerate(texts, "and"),
				ofPool(n.pool))
			return []suggestion{*suggested(v1alpha1.SuggestionReduceRequests, description, n.pool, fit, 1,
				Change{Pod: pod})}, nil
		}
	}
	return nil, nil
}

// reduced returns a copy of the pod that requests less, and its requests in words. It is nil if
// more than one container requests what is short: then it is not clear which one could do with
// less.
func reduced(pod *corev1.Pod, requests fwk.Resource, short shortage) (*corev1.Pod, []string) {
	pod = pod.DeepCopy()
	if pod.Spec.Resources != nil || len(pod.Spec.Overhead) > 0 {
		return nil, nil
	}
	var texts []string
	for _, l := range short {
		var only *corev1.Container
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; !c.Resources.Requests.Name(l.resource, resource.DecimalSI).IsZero() {
				if only != nil {
					return nil, nil
				}
				only = c
			}
		}
		inInit := func(c corev1.Container) bool {
			return !c.Resources.Requests.Name(l.resource, resource.DecimalSI).IsZero()
		}
		if only == nil || slices.ContainsFunc(pod.Spec.InitContainers, inInit) {
			return nil, nil
		}
		left := lack{resource: l.resource, amount: amountOf(requests, l.resource) - l.amount}
		left.round()
		quantity := left.quantity()
		only.Resources.Requests[l.resource] = quantity
		if _, limited := only.Resources.Limits[l.resource]; limited && isExtended(l.resource) {
			only.Resources.Limits[l.resource] = quantity // they must be equal
		}
		texts = append(texts, left.String())
	}
	return pod, texts
}

func isExtended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

// round rounds bytes down to what people write.
func (l *lack) round() {
	if l.resource != corev1.ResourceMemory && l.resource != corev1.ResourceEphemeralStorage {
		return
	}
	for _, unit := range []int64{1 << 30, 1 << 20} {
		if l.amount >= 16*unit {
			l.amount -= l.amount % unit
			return
		}
	}
}

// cpuText writes thousandths of CPUs as CPUs.
func cpuText(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// tooLarge describes which requests exceed what any node has that would take the pod otherwise,
// beside the pods that stay with the node. It is empty if there are none.
func (e *explainer) tooLarge() string {
	requests := (&schedframework.PodInfo{Pod: e.pod}).CalculateResource().Resource
	var texts []string
	nodes := e.only(names.NodeResourcesFit)
	for _, short := range shortages(nodes) {
		l := lack{resource: corev1.ResourceName(short.Resource),
			amount: amountOf(requests, corev1.ResourceName(short.Resource))}
		most, of := lack{resource: l.resource}, nodepool.None
		for _, n := range nodes {
			if free := amountOf(n.GetAllocatable(), l.resource) - ofStaying(n, l.resource); free > most.amount {
				most.amount, of = free, n.pool
			}
		}
		switch {
		case l.resource == corev1.ResourcePods || most.amount >= l.amount:
		case most.amount == 0:
			texts = append(texts, fmt.Sprintf("it requests %s, and no node that it may be on has any", l.String()))
		default:
			texts = append(texts, fmt.Sprintf("it requests %s, and the largest node that it may be on has %s beside "+
				"DaemonSets and static pods%s", l.String(), most.String(), inParentheses(of)))
		}
	}
	return enumerate(texts, "and")
}

// ofStaying returns how much of a resource the pods request that stay with a node.
func ofStaying(n *refusedNode, name corev1.ResourceName) (sum int64) {
	for _, info := range n.GetPods() {
		if podfields.StaysWithNode(info.GetPod()) {
			sum += amountOf(info.CalculateResource().Resource, name)
		}
	}
	return sum
}
