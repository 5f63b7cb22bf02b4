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
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// BenchmarkDecideBesideABacklog decides pods on 5,000 nodes while pods that fit nowhere wait in the
// queue, each of a Job of its own: the median time of a decision, and that of what the queue does
// for a pod.
//
//	go test -run '^$' -bench DecideBesideABacklog -benchtime 20000x ./internal/scheduler/loop
func BenchmarkDecideBesideABacklog(b *testing.B) {
	metrics.Register()
	for _, backlog := range []int{0, 100_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) { decideBesideABacklog(b, backlog) })
	}
}

func decideBesideABacklog(b *testing.B, backlog int) {
	const nodes = 5000
	logger := logr.Discard()
	q := queue.New(queue.Config{})
	defer q.Close()
	q.Reconfigure(logger, &queue.Settings{Profiles: map[string]*queue.ProfileSettings{corev1.DefaultSchedulerName: {
		Hints: queue.HintMap{schedframework.EventAssignedPodDelete: {{Plugin: "NodeResourcesFit"}}},
	}}}, nil)
	for i := range backlog {
		job := metav1.OwnerReference{Kind: "Job", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("job-", i)), Controller: ptr.To(true)}
		q.Add(logger, workload.Admit(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "backlog", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("backlog-", i)), OwnerReferences: []metav1.OwnerReference{job},
		}}))
		info := q.Pop(logger).Pod
		info.UnschedulablePlugins = sets.New("NodeResourcesFit")
		if _, err := q.Requeue(logger, info); err != nil {
			b.Fatal(err)
		}
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
