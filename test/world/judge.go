// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// judge is a kube-scheduler whose informers know the cluster.
type judge struct {
	*sidebyside.KubeScheduler
	world  *World
	cancel context.CancelFunc
}

const judgeName = "judge"

// newJudge returns a judge, which the caller must close.
func (w *World) newJudge() (*judge, error) {
	ctx, cancel := context.WithCancel(w.ctx)
	objects := sidebyside.NewObjectsOf(w.cluster.informed()...)
	// The profiles of the world accept the same pods as the default one.
	profile := configv1.KubeSchedulerProfile{SchedulerName: ptr.To(judgeName)}
	scheduler, err := sidebyside.NewKubeScheduler(ctx, objects,
		&sidebyside.Configuration{Profile: profile, Parallelism: 1}, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	objects.Start(ctx.Done())
	synctest.Wait() // until it knows the objects
	j := &judge{scheduler, w, cancel}
	if n := scheduler.Scheduler.Cache.NodeCount(); n != len(w.cluster.nodes) {
		j.Close()
		return nil, fmt.Errorf("it knows %d of %d nodes", n, len(w.cluster.nodes))
	}
	j.queueNominated()
	return j, nil
}

// queueNominated queues the pods that livesched has nominated for nodes, for which room is kept. Of
// a nominated pod that is not in its queue, kube-scheduler does not count the resources.
func (j *judge) queueNominated() {
	for _, pod := range sorted(j.world.cluster.pods) {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
			j.Scheduler.SchedulingQueue.Add(j.world.ctx, judged(pod))
		}
	}
}

// Close ends the judge.
func (j *judge) Close() {
	j.KubeScheduler.Close()
	j.cancel()
}

// decide decides about a pod of livesched.
func (j *judge) decide(pod *corev1.Pod) sidebyside.Decision {
	pod = judged(pod)
	pod.Spec.SchedulerName = judgeName
	return j.Decide(pod)
}

// judged returns a pod as judges see it: without the group that it names. They judge pods one by
// one, also if kube-scheduler's feature gates for groups are on.
func judged(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGroup = nil
	return pod
}

func (c *cluster) judgedPods() map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for key, pod := range c.pods {
		pods[key] = judged(pod)
	}
	return pods
}

// room returns how many of some pods fit at the same time, placed one after the other. The cache is
// as before afterwards.
func (j *judge) room(pods []*corev1.Pod) (n int) {
	cache := j.Scheduler.Cache
	for _, pod := range pods {
		decision := j.decide(pod)
		if decision.Err != nil {
			break
		}
		placed := judged(pod)
		placed.Spec.NodeName = decision.Host
		if cache.AddPod(logr.Discard(), placed) != nil {
			break
		}
		defer func() { _ = cache.RemovePod(logr.Discard(), placed) }()
		n++
	}
	return n
}

// without removes the pods with nodes that have a lower priority, until restore is called.
func (j *judge) without(priority int32) (restore func()) {
	var removed []*corev1.Pod
	for _, pod := range sorted(j.world.cluster.pods) {
		if pod = judged(pod); pod.Spec.NodeName != "" && corev1helpers.PodPriority(pod) < priority &&
			j.Scheduler.Cache.RemovePod(logr.Discard(), pod) == nil {
			removed = append(removed, pod)
		}
	}
	return func() {
		for _, pod := range removed {
			_ = j.Scheduler.Cache.AddPod(logr.Discard(), pod)
		}
	}
}
