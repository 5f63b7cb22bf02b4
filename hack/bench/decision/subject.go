// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"maps"
	"runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// The names of the values. A name that begins with First or Second belongs to the first or the
// second decision about a class.
const (
	CPU    = "cpu us/pod"
	Wall   = "wall us/pod"
	Bytes  = "B/pod"
	Allocs = "allocs/pod"
	First  = "first "
	Second = "second "
)

// Subject is a contender with the cluster that it decides in.
type Subject struct {
	// Contender is one of the contenders of package decidebench, and Cluster is its cluster.
	Contender string
	Cluster   decidebench.Cluster
	// Pods makes the pods to decide about. Next is the number of the next pod.
	Pods workload.Pods
	Next int
}

// warmUpRounds is the number of pods of each series to decide about before the measurement begins.
const warmUpRounds = 3

// Measure measures n decisions about pods of known classes. If the contender keeps state for each
// class, it also measures a number (firsts) of first and second decisions about a class.
func (s *Subject) Measure(n, firsts int) (map[string]float64, error) {
	keeps := s.Contender == decidebench.Livesched
	known := warmUpRounds
	if keeps {
		known *= max(s.Pods.Series, workload.DefaultSeries)
	}
	warm, err := s.make(known)
	if err != nil {
		return nil, err
	}
	if _, err := s.place(warm); err != nil {
		return nil, err
	}
	pods, err := s.make(n)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	cost, err := s.place(pods)
	if err != nil {
		return nil, err
	}
	values := perPod("", cost, n)
	if keeps && firsts > 0 {
		err = s.measureFirsts(values, firsts)
	}
	return values, err
}

// measureFirsts measures the first and the second decision about a class. The second reuses the
// results of the first, and may still compute more than the decisions that follow.
func (s *Subject) measureFirsts(values map[string]float64, times int) error {
	all := map[string][]float64{}
	for range times {
		if err := s.Cluster.Reload(); err != nil {
			return err
		}
		pod, err := s.next()
		if err != nil {
			return err
		}
		again := pod.DeepCopy()
		again.Name += "-again"
		workload.Admit(pod)
		workload.Admit(again)
		runtime.GC()
		for _, turn := range []struct {
			name string
			pod  *corev1.Pod
		}{{First, pod}, {Second, again}} {
			cost, err := s.place([]*corev1.Pod{turn.pod})
			if err != nil {
				return err
			}
			for name, value := range perPod(turn.name, cost, 1) {
				all[name] = append(all[name], value)
			}
		}
	}
	for name, of := range maps.All(all) {
		values[name] = report.Quantile(of, 0.5)
	}
	return nil
}

// make returns the next n pods.
func (s *Subject) make(n int) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod, err := s.next()
		if err != nil {
			return nil, err
		}
		pods[i] = workload.Admit(pod)
	}
	return pods, nil
}

// next returns the next pod and adds the objects that it refers to.
func (s *Subject) next() (*corev1.Pod, error) {
	i := s.Next
	s.Next++
	if s.Pods.Kind == workload.Claims {
		if err := s.Cluster.AddClaim(s.Pods.Claim(i)); err != nil {
			return nil, err
		}
	}
	return s.Pods.Pod(i), nil
}

func (s *Subject) place(pods []*corev1.Pod) (decidebench.Cost, error) {
	return decidebench.Measure(func() error {
		for _, pod := range pods {
			if _, err := s.Cluster.Place(pod); err != nil {
				return fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
		return nil
	})
}

// perPod returns a cost per pod as values, whose names begin with a prefix.
func perPod(prefix string, cost decidebench.Cost, pods int) map[string]float64 {
	n := float64(pods)
	return map[string]float64{
		prefix + CPU:   float64(cost.CPU.Nanoseconds()) / n / 1000,
		prefix + Wall:  float64(cost.Wall.Nanoseconds()) / n / 1000,
		prefix + Bytes: float64(cost.Bytes) / n, prefix + Allocs: float64(cost.Objects) / n,
	}
}
