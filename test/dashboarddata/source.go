// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboarddata is a source of the dashboard's data for tests: a cluster of any size
// that is made up.
//
//	dashboard.NewHandler -> Source -> nodes, kinds, load, decisions, profiles
//	                               -> an error instead, by method
package dashboarddata

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Source answers for a cluster with a number of nodes and kinds of pending pods.
type Source struct {
	Nodes, Kinds int
	// Pods is the number of pending pods.
	Pods int32
	// Hostile is written into names and messages.
	Hostile string
	// Errors are returned instead of answers, by the name of the method.
	Errors map[string]error
	// New is the number of decisions that are made between two lists.
	New int64
	// Rollout is the state of the roll-out of the profile default; nil: the first step.
	Rollout atomic.Pointer[v1alpha1.RolloutStatus]

	latest atomic.Int64
}

// Forbidden is the error of a user who may not list nodes.
func Forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "livesched.io", Resource: "nodeallocations"}, "",
		fmt.Errorf("you may not list nodes: you need the permission to list nodes"))
}

// Busy is the error of a livesched that cannot answer now.
func Busy() error { return apierrors.NewServiceUnavailable("no replica leads now") }

// The pools of the cluster, and how large the share of each is, in percent.
var pools = []struct {
	name              string
	percent           int
	cpu, memory, gpus int64
	taint             string
}{
	{"a100", 14, 96, 1152, 8, "nvidia.com/gpu=present:NoSchedule"}, {"general", 62, 32, 128, 0, ""},
	{"highmem", 16, 48, 768, 0, ""}, {"l4", 8, 48, 192, 4, "nvidia.com/gpu=present:NoSchedule"},
}

var zones = []string{"eu-west-1a", "eu-west-1b", "eu-west-1c"}

// NodeAllocations returns the nodes. GPU nodes with fewer than 8 free GPUs refuse any pod.
func (s *Source) NodeAllocations(_ context.Context, pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	if err := s.Errors["NodeAllocations"]; err != nil {
		return nil, err
	}
	list := &v1alpha1.NodeAllocationList{Time: metav1.Now()}
	for p, pool := range pools {
		nodes := s.Nodes * pool.percent / 100
		if p == 1 { // what is left by rounding
			nodes = s.Nodes - s.Nodes*pools[0].percent/100 - s.Nodes*pools[2].percent/100 - s.Nodes*pools[3].percent/100
		}
		for i := range nodes {
			draw := int64((i*7919+p*104729)%1000) * int64(i%17+3) % 1000
			n := v1alpha1.NodeAllocation{
				Name: fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", p+20, i/250, i%250), Pool: pool.name,
				Zone: zones[i%len(zones)], Cordoned: draw%97 == 5, NotReady: draw%131 == 7,
				Allocatable: amounts(pool.cpu*1000, pool.memory<<30, pool.gpus, 110),
				Requested: amounts(pool.cpu*(380+draw*6/10), (pool.memory<<30)*(250+draw*5/10)/1000,
					pool.gpus*(draw+300)/1200, 20+draw*80/1000),
			}
			if pool.taint != "" {
				n.Taints = []string{pool.taint}
			}
			if s.Hostile != "" && i == 0 {
				n.Name += s.Hostile
				n.Pool += s.Hostile
				n.Taints = append(n.Taints, s.Hostile)
			}
			if pod.Name != "" {
				n.Refusal = refusal(&n)
			}
			list.Items = append(list.Items, n)
		}
	}
	return list, nil
}

func refusal(n *v1alpha1.NodeAllocation) v1alpha1.RefusalReason {
	gpus, used := n.Allocatable["nvidia.com/gpu"], n.Requested["nvidia.com/gpu"]
	switch {
	case n.Cordoned:
		return v1alpha1.ReasonCordoned
	case n.Pool == "l4" || gpus.IsZero():
		return v1alpha1.ReasonNodeAffinityMismatch
	case gpus.Value()-used.Value() < 8:
		return v1alpha1.ReasonInsufficientResource
	}
	return ""
}

func amounts(cpu, memory, gpus, pods int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
	if gpus > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return list
}

var kinds = []v1alpha1.PendingKind{
	{Namespace: "ml", Pod: "llama-train-0", Owner: "job/llama-train", PodGroup: "llama-train", Profile: "gpu",
		SchedulerName: "gpu", Result: v1alpha1.DecisionUnschedulable, Priority: 100, Attempts: 14,
		Message: "0/400 nodes are available: 344 node(s) didn't match Pod's node affinity/selector, 56 Insufficient " +
			"nvidia.com/gpu. preemption: 0/400 nodes are available: 56 No preemption victims found for incoming pod."},
	{Namespace: "batch", Pod: "nightly-report-28401-x7k2p", Owner: "job/nightly-report", Profile: "binpack",
		SchedulerName: "binpack", Result: v1alpha1.DecisionUnschedulable, Attempts: 3,
		Message: "0/400 nodes are available: 400 Insufficient memory."},
	{Namespace: "shop", Pod: "checkout-7d4f9c6b5d-x2x4z", Owner: "deployment/checkout", Profile: "default",
		SchedulerName: "default-scheduler", Result: v1alpha1.DecisionUnschedulable, Attempts: 2,
		Message: "0/400 nodes are available: 400 node(s) didn't match pod topology spread constraints."},
	{Namespace: "ci", Pod: "build-4471", Profile: "default", SchedulerName: "default-scheduler"},
}

// PendingKinds returns kinds of pending pods.
func (s *Source) PendingKinds(_ context.Context, namespace string, limit int) (*v1alpha1.PendingKindList, error) {
	if err := s.Errors["PendingKinds"]; err != nil {
		return nil, err
	}
	list := &v1alpha1.PendingKindList{Time: metav1.Now()}
	left := s.Pods
	for i := range s.Kinds {
		k := kinds[i%len(kinds)]
		k.ID = "kind-" + strconv.Itoa(i)
		k.Pods = left / 2
		if i == s.Kinds-1 || k.Pods == 0 {
			k.Pods = left
		}
		left -= k.Pods
		k.Unschedulable = k.Pods * 9 / 10
		k.Backoff = k.Pods - k.Unschedulable
		if k.Result == "" {
			k.Unschedulable, k.Backoff, k.Active = 0, 0, k.Pods
		}
		k.Since = metav1.NewTime(time.Now().Add(-time.Duration(14*60-i*97%800) * time.Second))
		k.Requests = amounts(8000, 64<<30, int64(8*(1-min(i%len(kinds), 1))), 1)
		if i >= len(kinds) {
			k.Pod += "-" + strconv.Itoa(i)
			k.Owner = fmt.Sprintf("job/sweep-%d", i)
		}
		k.Message += s.Hostile
		if namespace != "" && k.Namespace != namespace {
			continue
		}
		list.Kinds++
		list.Pods += k.Pods
		if len(list.Items) < limit {
			list.Items = append(list.Items, k)
		}
	}
	return list, nil
}

// PendingPods returns a kind with its pods.
func (s *Source) PendingPods(ctx context.Context, namespace, id string,
	limit int) (*v1alpha1.PendingKindList, error) {
	if err := s.Errors["PendingPods"]; err != nil {
		return nil, err
	}
	all, err := s.PendingKinds(ctx, namespace, s.Kinds)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.PendingKindList{Time: all.Time}
	for i := range all.Items {
		k := &all.Items[i]
		if k.ID != id {
			continue
		}
		for n := range min(k.Pods, int32(limit)) {
			k.Pending = append(k.Pending, pendingPod(k, n))
		}
		k.Pending[0].Name = k.Pod
		list.Kinds, list.Pods, list.Items = 1, k.Pods, append(list.Items, *k)
	}
	return list, nil
}

func pendingPod(k *v1alpha1.PendingKind, n int32) v1alpha1.PendingPod {
	p := v1alpha1.PendingPod{
		Name:  strings.TrimSuffix(k.Pod, "-0") + "-" + strconv.Itoa(int(n)),
		Since: metav1.NewTime(k.Since.Add(time.Duration(n) * time.Second)), Place: "Active",
	}
	switch {
	case n == 3 && k.Unschedulable > 3:
		p.Place, p.Attempts, p.NominatedNode = "Unschedulable", k.Attempts, chosenNode
	case n < k.Unschedulable:
		p.Place, p.Attempts = "Unschedulable", max(k.Attempts-n, 1)
	case n < k.Unschedulable+k.Backoff:
		p.Place, p.Attempts = "Backoff", 1
	}
	return p
}

// LoadSamples returns a sample for every 10 seconds.
func (s *Source) LoadSamples(_ context.Context, last time.Duration) (*v1alpha1.LoadSampleList, error) {
	if err := s.Errors["LoadSamples"]; err != nil {
		return nil, err
	}
	now := time.Now()
	list := &v1alpha1.LoadSampleList{Replica: "livesched-6c9d7b5f4-2xkzq", Leading: true, Version: "v0.9.0",
		Started: metav1.NewTime(now.Add(-53 * time.Hour)), Nodes: int32(s.Nodes), Pods: int32(s.Nodes) * 31}
	for ago := last; ago >= 0; ago -= 10 * time.Second {
		at := now.Add(-ago)
		wave := int32(at.Unix()/10*7919%40) + int32(at.Unix()/60%5)*8
		p99 := metav1.Duration{Duration: time.Duration(9000+wave*311) * time.Microsecond}
		list.Items = append(list.Items, v1alpha1.LoadSample{
			Time: metav1.NewTime(at), Seconds: 10, Bound: 40 + wave*6, Unschedulable: 20 + wave, Failed: wave / 60,
			P50: &p99, P99: &p99, Active: wave / 4, Backoff: s.Pods/8 + wave/6,
			UnschedulablePods: s.Pods - s.Pods/8, Gated: 3,
		})
	}
	for _, reload := range []struct {
		ago               time.Duration
		profile, revision string
	}{{11 * time.Minute, "gpu", "b47874bsgc"}, {4 * time.Minute, "binpack", "pdh8zspwhj"}} {
		list.Reloads = append(list.Reloads, v1alpha1.ProfileReload{Time: metav1.NewTime(now.Add(-reload.ago)),
			Profile: reload.profile + s.Hostile, Revision: reload.revision})
	}
	return list, nil
}

// Decisions returns the latest decisions, with new ones at every call.
func (s *Source) Decisions(_ context.Context, query url.Values) (*v1alpha1.DecisionList, error) {
	if err := s.Errors["Decisions"]; err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	after, _ := strconv.ParseInt(query.Get("after"), 10, 64)
	s.latest.CompareAndSwap(0, 41200)
	list := &v1alpha1.DecisionList{Latest: s.latest.Add(s.New)}
	oldest := max(after, list.Latest-1000, 0)
	for number := list.Latest; number > oldest && len(list.Items) < limit; number-- {
		d := s.decision(number, list.Latest)
		if matches(query.Get("namespace"), d.Namespace) && matches(query.Get("result"), string(d.Result)) &&
			matches(query.Get("profile"), d.Profile) && matches(query.Get("podGroup"), d.PodGroup) {
			if pod := query.Get("pod"); pod != "" {
				d.Pod = pod
			}
			if node := query.Get("node"); node != "" {
				if d.Node == "" {
					continue
				}
				d.Node = node
			}
			list.Items = append(list.Items, *d)
		}
	}
	return list, nil
}

func matches(filter, value string) bool { return filter == "" || filter == value }

func (s *Source) decision(number, latest int64) *v1alpha1.Decision {
	k := &kinds[number%int64(len(kinds))]
	at := time.Now().Add(-time.Duration(latest-number) * 70 * time.Millisecond)
	d := &v1alpha1.Decision{
		Number: number, Time: metav1.NewMicroTime(at), Namespace: k.Namespace,
		Pod:     fmt.Sprintf("%s-%d", k.Pod, number%10),
		Attempt: 1 + int32(number%5), Profile: k.Profile, Revision: "b47874bsgc", Result: k.Result,
		Message: k.Message + s.Hostile, Nodes: int32(s.Nodes), PodGroup: k.PodGroup,
	}
	if k.Result == "" || number%3 == 0 {
		d.Result, d.Message, d.Feasible, d.Total, d.Tied = v1alpha1.DecisionBound, "", 112, 873, 3
		d.Node = fmt.Sprintf("ip-10-21-0-%d.eu-west-1.compute.internal", number%200)
	}
	if number%101 == 0 {
		d.Result, d.Node, d.Message = v1alpha1.DecisionFailed, "", `plugin "VolumeBinding": timed out`+s.Hostile
	}
	return d
}
