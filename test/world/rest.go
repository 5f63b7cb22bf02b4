// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/debugger"
	"github.com/livesched/livesched/test/sidebyside"
)

// checkRest checks what holds once the cluster has come to rest.
func (w *World) checkRest() {
	w.checkPending()
	for _, r := range w.replicas {
		w.checkCaches(r)
	}
	if leaders := w.leaders(); leaders != 1 {
		w.fail("%d replicas lead", leaders)
	}
}

// checkPending checks that pods without a node fit on none, and say so. kube-scheduler decides.
func (w *World) checkPending() {
	var pending []*corev1.Pod
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName == "" {
			pending = append(pending, pod)
		}
	}
	w.counts["pending at the end"] = len(pending)
	if len(pending) == 0 {
		return
	}
	judge, err := w.newJudge()
	if err != nil {
		w.fail("kube-scheduler: %v", err)
		return
	}
	defer judge.Close()
	for _, pod := range pending {
		i := slices.IndexFunc(pod.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if i < 0 || pod.Status.Conditions[i].Reason != corev1.PodReasonUnschedulable {
			w.fail("pod %s has no node, and no condition that says why", pod.Name)
			return
		}
		w.log.add("pod %s is pending: %s", pod.Name, pod.Status.Conditions[i].Message)
		judged := pod.DeepCopy()
		judged.Spec.SchedulerName = judgeName
		switch decision := judge.Decide(judged); {
		case decision.Err == nil && decision.Host == "":
			w.fail("kube-scheduler does not decide about pod %s: %v", pod.Name, decision.Status)
			return
		case decision.Err == nil:
			w.fail("pod %s is pending (%s), but fits on %s", pod.Name, pod.Status.Conditions[i].Message, decision.Host)
			return
		case decision.Nominating != nil && decision.Nominating.NominatedNodeName != "":
			w.fail("pod %s is pending (%s), but could preempt on %s", pod.Name, pod.Status.Conditions[i].Message,
				decision.Nominating.NominatedNodeName)
			return
		case pod.Status.NominatedNodeName != "":
			w.fail("pod %s is pending (%s), and nominated for %s", pod.Name, pod.Status.Conditions[i].Message,
				pod.Status.NominatedNodeName)
			return
		}
	}
}

const judgeName = "judge"

// newJudge returns a kube-scheduler that knows the cluster.
func (w *World) newJudge() (*sidebyside.KubeScheduler, error) {
	// The profiles of the world accept the same pods as the default one.
	profile := configv1.KubeSchedulerProfile{SchedulerName: ptr.To(judgeName)}
	objects := sidebyside.NewObjects()
	for _, pod := range sorted(w.cluster.pods) {
		if err := objects.Put(pod); err != nil {
			return nil, err
		}
	}
	for _, budget := range sorted(w.cluster.budgets) {
		if err := objects.Put(budget); err != nil {
			return nil, err
		}
	}
	judge, err := sidebyside.NewKubeScheduler(w.ctx, objects,
		&sidebyside.Configuration{Profile: profile, Parallelism: 1}, nil)
	if err != nil {
		return nil, err
	}
	for _, node := range sorted(w.cluster.nodes) {
		judge.Scheduler.Cache.AddNode(logr.Discard(), node)
	}
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName == "" {
			continue
		}
		if err := judge.Scheduler.Cache.AddPod(logr.Discard(), pod); err != nil {
			return nil, err
		}
	}
	return judge, nil
}

// checkCaches checks that a replica knows what the API server has.
func (w *World) checkCaches(r *replica) {
	if r.over || r.manager == nil {
		w.fail("%s does not run", r.process.name)
		return
	}
	parts, err := r.manager.Scheduler.Parts()
	if err != nil {
		w.fail("%s is not ready: %v", r.process.name, err)
		return
	}
	var differences []debugger.Difference
	compared := make(chan struct{})
	go func() {
		defer close(compared)
		differences, err = parts.Debugger.Compare(w.ctx)
	}()
	w.RunUntil(time.Now().Add(time.Minute), func() bool { return ended(compared) })
	switch {
	case w.failure != nil:
	case !ended(compared):
		w.fail("%s does not answer", r.process.name)
	case err != nil:
		w.fail("%s: %v", r.process.name, err)
	case len(differences) > 0:
		w.fail("%s differs from the API server: %v", r.process.name, differences)
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leaders returns the number of replicas that lead.
func (w *World) leaders() (n int) {
	for _, r := range w.replicas {
		if !r.over && r.manager != nil && ended(r.manager.Elected()) {
			n++
		}
	}
	return n
}
