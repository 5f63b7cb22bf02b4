// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/mapkey"
)

// The benchmarks named "livesched" and "kube-scheduler" do the same with either queue, for
// comparison.

// benchHints are registrations like those of the default plugins: a dozen plugins with a few events
// each.
func benchHints() (HintMap, upstream.QueueingHintMap) {
	ours, theirs := HintMap{}, upstream.QueueingHintMap{}
	skip := func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil }
	for i, event := range []fwk.ClusterEvent{
		{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable},
		{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeTaint}, {Resource: fwk.Pod, ActionType: fwk.Delete},
		{Resource: fwk.Pod, ActionType: fwk.All}, {Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown},
		{Resource: fwk.PersistentVolume, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.StorageClass, ActionType: fwk.Add}, {Resource: fwk.CSINode, ActionType: fwk.All},
		{Resource: fwk.CSIDriver, ActionType: fwk.Update},
		{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update},
	} {
		for j := range 3 {
			plugin := fmt.Sprint("Plugin", (i+j*5)%12)
			ours[event] = append(ours[event], Hint{Plugin: plugin, Fn: skip})
			theirs[event] = append(theirs[event],
				&upstream.QueueingHintFunction{PluginName: plugin, QueueingHintFn: skip})
		}
	}
	return ours, theirs
}

// benchKeys are keys of all plugins of benchHints. The hints read one label.
func benchKeys() map[string]HintKey {
	keys := map[string]HintKey{}
	for i := range 12 {
		keys[fmt.Sprint("Plugin", i)] = HintKey{Write: func(w *mapkey.Writer, pod *corev1.Pod) bool {
			w.Text(pod.Labels["kind"])
			return true
		}}
	}
	return keys
}

// benchQueue has the methods of both queues that the benchmarks call.
type benchQueue struct {
	add     func(*corev1.Pod)
	pop     func() *schedframework.QueuedPodInfo
	done    func(types.UID)
	requeue func(*schedframework.QueuedPodInfo) error
	move    func(fwk.ClusterEvent)
}

func bothQueues(b *testing.B, run func(b *testing.B, q benchQueue)) {
	ours, theirs := benchHints()
	open := &chaosGate{preEnqueuer{name: "open", answer: func(*corev1.Pod) *fwk.Status { return nil }}}
	stop := make(chan struct{})
	defer close(stop)
	recorder := schedmetrics.NewMetricsAsyncRecorder(1000, time.Second, stop)

	b.Run("livesched", func(b *testing.B) {
		q := New(Config{Metrics: recorder})
		q.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": {
			InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, Hints: ours, HintKeys: benchKeys(),
			PreEnqueue: []fwk.PreEnqueuePlugin{open},
		}}}, nil)
		run(b, benchQueue{
			add:  func(pod *corev1.Pod) { q.Add(logger, pod) },
			pop:  func() *schedframework.QueuedPodInfo { p := q.Pop(logger).Pod; return p },
			done: q.Done,
			requeue: func(p *schedframework.QueuedPodInfo) error {
				_, err := q.Requeue(logger, p, nil)
				return err
			},
			move: func(event fwk.ClusterEvent) { q.Move(logger, event, nil, nil, nil) },
		})
	})
	b.Run("kube-scheduler", func(b *testing.B) {
		q := upstream.NewPriorityQueue(defaultLess, informers.NewSharedInformerFactory(fake.NewClientset(), 0),
			upstream.WithPodLister(nil),
			upstream.WithPluginMetricsSamplePercent(pluginMetricsSamplePercent),
			upstream.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{"default": {"open": open}}),
			upstream.WithQueueingHintMapPerProfile(upstream.QueueingHintMapPerProfile{"default": theirs}),
			upstream.WithMetricsRecorder(recorder))
		run(b, benchQueue{
			add: func(pod *corev1.Pod) { q.Add(context.Background(), pod) },
			pop: func() *schedframework.QueuedPodInfo {
				p, err := q.Pop(logger)
				if err != nil {
					b.Fatal(err)
				}
				return p.(*schedframework.QueuedPodInfo)
			},
			done: q.Done,
			requeue: func(p *schedframework.QueuedPodInfo) error {
				return q.AddUnschedulablePodIfNotPresent(logger, p, 0)
			},
			move: func(event fwk.ClusterEvent) { q.MoveAllToActiveOrBackoffQueue(logger, event, nil, nil, nil) },
		})
	})
}

// BenchmarkAddPop measures a pod that is scheduled at the first attempt: Add, Pop, Done, with
// 10,000 others waiting.
func BenchmarkAddPop(b *testing.B) {
	bothQueues(b, func(b *testing.B, q benchQueue) {
		const waiting = 10_000
		pods := make([]*corev1.Pod, waiting+b.N)
		for i := range pods {
			pods[i] = newPod(fmt.Sprint("pod-", i), priority(int32(i%7)))
		}
		for _, pod := range pods[:waiting] {
			q.add(pod)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for _, pod := range pods[waiting:] {
			q.add(pod)
			q.done(q.pop().Pod.UID)
		}
	})
}

// BenchmarkPopRequeue measures a failed attempt: Pop, ten events in the meantime, Requeue as
// rejected by a plugin.
func BenchmarkPopRequeue(b *testing.B) {
	bothQueues(b, func(b *testing.B, q benchQueue) {
		for i := range b.N {
			q.add(newPod(fmt.Sprint("pod-", i), uid(types.UID(fmt.Sprint(i)))))
		}
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			p := q.pop()
			p.UnschedulablePlugins = sets.New("Plugin3")
			if err := q.requeue(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMove measures one event with 100,000 unschedulable pods of 200 kinds, none of which
// moves. In "asked", the plugins that refused them registered for the event; in "not asked", only
// other plugins did.
func BenchmarkMove(b *testing.B) {
	for name, event := range map[string]fwk.ClusterEvent{
		"asked":     schedframework.EventAssignedPodDelete,
		"not asked": {Resource: fwk.StorageClass, ActionType: fwk.Add},
	} {
		b.Run(name, func(b *testing.B) {
			bothQueues(b, func(b *testing.B, q benchQueue) {
				fillUnschedulable(b, q)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					q.move(event)
				}
			})
		})
	}
}

// waitingInBench is the number of waiting pods in BenchmarkMove and BenchmarkMoveAll.
const waitingInBench = 100_000

func fillUnschedulable(b *testing.B, q benchQueue) {
	b.Helper()
	for i := range waitingInBench {
		q.add(newPod(fmt.Sprint("pod-", i), label("kind", fmt.Sprint(i%200))))
		p := q.pop()
		p.UnschedulablePlugins = sets.New("Plugin3", "Plugin4")
		if err := q.requeue(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMoveAll measures an event that moves 100,000 unschedulable pods, and for how long
// another goroutine has to wait for the queue meanwhile.
func BenchmarkMoveAll(b *testing.B) {
	bothQueues(b, func(b *testing.B, q benchQueue) {
		var longest time.Duration
		for b.Loop() {
			b.StopTimer()
			fillUnschedulable(b, q)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						start := time.Now()
						q.done("nobody")
						longest = max(longest, time.Since(start))
					}
				}
			}()
			b.StartTimer()
			q.move(fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All})
			b.StopTimer()
			close(stop)
			<-stopped
			for range waitingInBench {
				q.done(q.pop().Pod.UID)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(longest.Microseconds()), "us-longest-wait")
	})
}

// BenchmarkNominatedPodsForNode measures the cost per node and cycle.
func BenchmarkNominatedPodsForNode(b *testing.B) {
	for _, nominations := range []int{0, 100} {
		b.Run(fmt.Sprintf("%d nominated", nominations), func(b *testing.B) {
			q := New(Config{})
			q.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": {}}}, nil)
			for i := range nominations {
				q.Nominator().AddNominatedPod(logger, info(newPod(fmt.Sprint("pod-", i))),
					nominate(fmt.Sprint("node-", i)))
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					q.Nominator().NominatedPodsForNode("another")
				}
			})
		})
	}
}
