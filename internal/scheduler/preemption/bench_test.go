// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkPreemptor measures the CPU time of PostFilter for a preemptor, on 5,000 nodes that are
// full of pods of a lower priority, with 500 disruption budgets. Before each preemptor, a pod comes
// to the node that the last one has chosen, and another leaves it. No pod is evicted.
//
//	go test -run '^$' -bench Preemptor -benchtime 300x ./internal/scheduler/preemption
func BenchmarkPreemptor(b *testing.B) {
	for _, kind := range []struct {
		name                       string
		classes, budgets, statuses int
	}{
		{"quiet", 1, 0, 0},
		{"budgets", 1, 1, 0}, // the status of a budget changes before each preemptor
		{"classes", 8, 0, 0}, // preemptors of eight classes in turn
		{"statuses", 1, 0, 50},
	} {
		b.Run(kind.name, func(b *testing.B) {
			c := newCrowd(b, 5000)
			c.evictor.mu.Lock()
			c.evictor.closed = true
			c.evictor.mu.Unlock()
			c.fill(2)
			var preemptors []*corev1.Pod
			for range kind.classes {
				preemptors = append(preemptors, c.pending(10))
			}
			statuses := c.full(c.nodes)
			budgets := c.budgetsOfApps()
			chosen := c.nodes[0]
			var cpu time.Duration
			preempt := func(i int) {
				c.replaceOn(chosen)
				for range kind.budgets {
					b := pick(c.Rand, budgets...)
					now := b.DeepCopy()
					now.Status.DisruptionsAllowed = int32(c.IntN(3))
					now.ResourceVersion = fmt.Sprint(c.Int())
					c.setBudget(now)
				}
				for range kind.statuses {
					j := c.IntN(len(c.residents))
					now := c.residents[j].DeepCopy()
					now.Status.Message = fmt.Sprint(c.Int())
					must(b, c.cache.UpdatePod(logr.Discard(), c.residents[j], now))
					c.residents[j] = now
				}
				pod := preemptors[i%len(preemptors)]
				state := c.preparedOf(pod, uint64(1+i%len(preemptors)), 1)
				before := cpuTime()
				b.StartTimer()
				result, status := c.plugin.PostFilter(c.ctx, state, pod, statuses)
				b.StopTimer()
				cpu += cpuTime() - before
				if !status.IsSuccess() {
					b.Fatal(status)
				}
				chosen = result.NominatedNodeName
			}
			b.StopTimer()
			for i := range 40 * len(preemptors) {
				preempt(i)
			}
			b.ResetTimer()
			b.StopTimer()
			cpu = 0
			before := c.runs.runs.Load()
			for i := range b.N {
				preempt(i)
			}
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(c.runs.runs.Load()-before)/float64(b.N), "dryruns/op")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// fill puts so many pods on each node, of 500 apps.
func (c *crowd) fill(pods int) {
	for i, node := range c.nodes {
		for j := range pods {
			c.residents = append(c.residents, c.ofApp(c.add(node, int32(c.IntN(4)), "300m"), i*pods+j))
		}
	}
}

// ofApp gives a pod another label.
func (c *crowd) ofApp(pod *corev1.Pod, app int) *corev1.Pod {
	c.t.Helper()
	labelled := pod.DeepCopy()
	labelled.Labels = map[string]string{"app": fmt.Sprintf("app-%d", app%500)}
	must(c.t, c.cache.UpdatePod(logr.Discard(), pod, labelled))
	return labelled
}

// replaceOn replaces a pod on a node by another one.
func (c *crowd) replaceOn(node string) {
	c.t.Helper()
	for i, pod := range c.residents {
		if pod.Spec.NodeName == node {
			must(c.t, c.cache.RemovePod(logr.Discard(), pod))
			c.residents[i] = c.ofApp(c.add(node, int32(c.IntN(4)), "300m"), i)
			return
		}
	}
}

// budgetsOfApps creates a budget for each app.
func (c *crowd) budgetsOfApps() (budgets []*policyv1.PodDisruptionBudget) {
	for i := range 500 {
		name := fmt.Sprintf("app-%d", i)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			UID: types.UID(name)}}
		b.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": name})
		b.Status.DisruptionsAllowed = 2
		budgets = append(budgets, b)
		c.setBudget(b)
	}
	return budgets
}

func (c *crowd) setBudget(budget *policyv1.PodDisruptionBudget) { c.budgets.OnUpdate(nil, budget) }
