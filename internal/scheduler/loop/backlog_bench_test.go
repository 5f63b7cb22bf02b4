// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// BenchmarkDecideBesideABacklog decides pods on 5,000 nodes while pods that fit nowhere wait in the
// queue, each of a Job of its own, or in groups of 8: the median time of a decision, and that of
// what the queue does for a pod.
//
//	go test -run '^$' -bench DecideBesideABacklog -benchtime 20000x ./internal/scheduler/loop
func BenchmarkDecideBesideABacklog(b *testing.B) {
	metrics.Register()
	for _, backlog := range []struct{ jobs, groups int }{{}, {jobs: 100_000}, {groups: 1000}} {
		b.Run(fmt.Sprintf("jobs=%d/groups=%d", backlog.jobs, backlog.groups), func(b *testing.B) {
			decideBesideABacklog(b, backlog.jobs, backlog.groups)
		})
	}
}

func decideBesideABacklog(b *testing.B, jobs, groups int) {
	const nodes = 5000
	logger := logr.Discard()
	registry := podgroup.NewRegistry()
	registry.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	q := queue.New(queue.Config{Groups: registry})
	defer q.Close()
	q.Reconfigure(logger, &queue.Settings{Profiles: map[string]*queue.ProfileSettings{corev1.DefaultSchedulerName: {
		Hints: queue.HintMap{schedframework.EventAssignedPodDelete: {{Plugin: "NodeResourcesFit"}}},
	}}}, nil)
	for i := range jobs {
		job := metav1.OwnerReference{Kind: "Job", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("job-", i)),
			Controller: ptr.To(true)}
		q.Add(logger, workload.Admit(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "backlog", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("backlog-", i)),
			OwnerReferences: []metav1.OwnerReference{job},
		}}))
		refuse(b, q)
	}
	for i := range groups {
		addWaitingGroup(b, q, registry, fmt.Sprint("group-", i), 8)
	}
	cluster, err := decidebench.New(decidebench.Livesched)
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	for i := range nodes {
		cluster.AddNode(workload.Node(i))
	}
	from := workload.Pods{Kind: workload.Basic, Nodes: nodes}
	decisions, queueing := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pod := workload.Admit(from.Pod(i))
		begin := time.Now()
		q.Add(logger, pod)
		info := q.Pop(logger).Pod
		popped := time.Now()
		if _, err := cluster.Place(info.Pod); err != nil {
			b.Fatal(err)
		}
		placed := time.Now()
		q.Done(pod.UID)
		q.Move(logger, schedframework.EventAssignedPodAdd, nil, pod, nil)
		decisions = append(decisions, placed.Sub(popped))
		queueing = append(queueing, time.Since(begin)-placed.Sub(popped))
	}
	slices.Sort(decisions)
	slices.Sort(queueing)
	b.ReportMetric(float64(decisions[len(decisions)/2].Nanoseconds())/1000, "decision-us")
	b.ReportMetric(float64(queueing[len(queueing)/2].Nanoseconds())/1000, "queue-us")
}

// refuse pops a pod, or the pods of a group, and puts them back as fitting nowhere.
func refuse(b *testing.B, q *queue.Queue) {
	popped := q.Pop(logr.Discard())
	pods := []*schedframework.QueuedPodInfo{popped.Pod}
	if popped.Group != nil {
		pods = append(pods, popped.Group.Others...)
	}
	for _, info := range pods {
		info.UnschedulablePlugins = sets.New("NodeResourcesFit")
		if _, err := q.Requeue(logr.Discard(), info, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// addWaitingGroup adds a group that fits nowhere.
func addWaitingGroup(b *testing.B, q *queue.Queue, registry *podgroup.Registry, name string, pods int) {
	registry.SetGroup(podgroup.Group{Key: podgroup.Key{Namespace: "backlog", Name: name}, MinMember: pods})
	for i := range pods {
		member := fmt.Sprintf("%s-%d", name, i)
		q.Add(logr.Discard(), workload.Admit(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "backlog", Name: member, UID: types.UID(member), Labels: map[string]string{podgroup.Label: name},
		}}))
	}
	refuse(b, q)
	if waiting := q.Counts().Unschedulable; waiting%pods != 0 {
		b.Fatalf("%d pods wait", waiting)
	}
}
