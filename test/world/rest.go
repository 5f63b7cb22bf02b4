// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/debugger"
	"github.com/livesched/livesched/test/sidebyside"
)

// checkRest checks what holds once the cluster has come to rest.
func (w *World) checkRest() {
	for _, r := range w.replicas {
		w.checkCaches(r)
	}
	w.checkBound()
	w.checkPending()
	w.checkConditions()
	w.checkProfiles()
	w.checkHistory()
	if leaders := w.leaders(); len(leaders) != 1 {
		w.fail("%d replicas lead", len(leaders))
	} else if w.failure == nil {
		w.checkStore(leaders[0])
	}
}

// checkBound checks that pods with a node do not say that they have none, unless somebody else has
// bound them: the condition may have been on its way then.
func (w *World) checkBound() {
	for _, pod := range sorted(w.cluster.pods) {
		_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
		if pod.Spec.NodeName != "" && condition != nil && condition.Status != corev1.ConditionTrue &&
			!w.cluster.foreign[pod.UID] && !w.overwritten[statusPath(pod)] && pod.CreationTimestamp.After(w.restored) {
			w.fail("pod %s has node %s, and the condition %+v", pod.Name, pod.Spec.NodeName, *condition)
		}
	}
}

// statusPath is the path of the status of a pod.
func statusPath(pod *corev1.Pod) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/status", pod.Namespace, pod.Name)
}

// checkPending checks that pods without a node fit on none, and say so. kube-scheduler decides.
func (w *World) checkPending() {
	var pending []*corev1.Pod
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName != otherScheduler {
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
		if w.checkPendingPod(judge, pod); w.failure != nil {
			w.logSituation(pod)
			return
		}
	}
	w.checkGroups(judge)
}

// checkPendingPod checks a pod without a node.
func (w *World) checkPendingPod(judge *judge, pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		if pod.CreationTimestamp.Time.Before(w.restored) {
			w.counts["condition lost by a restore"]++ // livesched writes it again at its next attempt
			w.checkFitsNowhere(judge, pod)
			return
		}
		w.fail("pod %s has no node, and no condition that says why%s", pod.Name, w.queued(pod))
		return
	}
	condition := pod.Status.Conditions[i]
	w.log.add("pod %s is pending: %s: %s", pod.Name, condition.Reason, condition.Message)
	if w.overwritten[statusPath(pod)] {
		w.counts["condition that was overwritten"]++
		w.checkFitsNowhere(judge, pod)
		return
	}
	gated := condition.Reason == corev1.PodReasonSchedulingGated
	switch {
	case gated != isGated(pod) && pod.CreationTimestamp.Time.Before(w.restored):
		w.counts["condition lost by a restore"]++
		return
	case gated != isGated(pod):
		w.fail("pod %s has the gates %v, and is pending because of %s: %s", pod.Name, pod.Spec.SchedulingGates,
			condition.Reason, condition.Message)
		return
	case gated:
		return
	}
	waits := w.waits(pod) || w.lacksClaim(pod)
	switch reason := condition.Reason; {
	case reason == corev1.PodReasonUnschedulable || waits && reason == v1alpha1.PodReasonPreEnqueueRejected:
	case pod.CreationTimestamp.Time.Before(w.restored): // that of a former attempt
		w.counts["condition lost by a restore"]++
	default:
		w.fail("pod %s is pending because of %s: %s%s", pod.Name, reason, condition.Message, w.queued(pod))
		return
	}
	node := pod.Status.NominatedNodeName
	if waits {
		// It may still be nominated: only an attempt ends that. See checkGroups for pods of groups.
		return
	}
	switch decision := judge.decide(pod); {
	case node != "" && pod.CreationTimestamp.Time.Before(w.restored): // livesched had ended the nomination
		w.counts["nomination back with a restore"]++
		w.checkNoHelp(pod, condition.Message, decision)
	case node != "" && (decision.Nominating != nil || len(pod.Spec.Volumes) == 0):
		w.fail("pod %s is pending (%s), and nominated for %s%s", pod.Name, condition.Message, node, w.queued(pod))
	case node != "":
		// A pod that was nominated keeps its node if PreFilter of a plugin for volumes rejects it
		// then: PostFilter of DynamicResources fails without its own PreFilter, before
		// DefaultPreemption would clear the nomination. kube-scheduler does the same.
		w.counts["nominated in vain"]++
	default:
		w.checkNoHelp(pod, condition.Message, decision)
	}
}

// checkFitsNowhere checks that kube-scheduler finds no node for a pending pod whose condition does
// not say why it is pending.
func (w *World) checkFitsNowhere(judge *judge, pod *corev1.Pod) {
	if isGated(pod) || w.waits(pod) || w.lacksClaim(pod) {
		return
	}
	if decision := judge.decide(pod); decision.Err == nil && decision.Host != "" {
		w.fail("pod %s is pending without a valid condition, but fits on %s%s", pod.Name, decision.Host, w.queued(pod))
	}
}

// checkNoHelp checks that kube-scheduler finds no node for a pending pod, nor one where preemption
// would help.
func (w *World) checkNoHelp(pod *corev1.Pod, message string, decision sidebyside.Decision) {
	switch {
	case decision.Err == nil && decision.Host == "":
		w.fail("kube-scheduler does not decide about pod %s: %v", pod.Name, decision.Status)
	case decision.Err == nil:
		w.fail("pod %s is pending (%s), but fits on %s%s", pod.Name, message, decision.Host, w.queued(pod))
	case decision.Nominating == nil || decision.Nominating.NominatedNodeName == "":
	case usesDevices(pod):
		// A pod that was rejected for another reason is not tried again when devices become free,
		// though preemption, which could not help without these, could help then. kube-scheduler's
		// queue does the same.
		w.counts["could preempt since devices are free"]++
	case hindered(message):
		// The same for a pod that hindered preemption, and has gone since.
		w.counts["could preempt since another pod is gone"]++
	default:
		w.fail("pod %s is pending (%s), but could preempt on %s", pod.Name, message,
			decision.Nominating.NominatedNodeName)
	}
}

// hindered reports whether a pod, by the message of its condition, could not preempt because of
// what was not a reason for which it was rejected. When that changes, nothing wakes the pod.
func hindered(message string) bool {
	rejected, preemption, _ := strings.Cut(message, " preemption: ")
	_, reasons, _ := strings.Cut(strings.TrimSuffix(preemption, "."), ": ")
	for reason := range strings.SplitSeq(reasons, ", ") {
		_, reason, _ = strings.Cut(reason, " ") // without the number of nodes
		if reason != "" && !strings.HasPrefix(reason, "No preemption victims") &&
			!strings.HasPrefix(reason, "Preemption is not helpful") && !strings.Contains(rejected, reason) {
			return true
		}
	}
	return false
}

// queued describes where the queues of the replicas have a pod.
func (w *World) queued(pod *corev1.Pod) (text string) {
	for _, r := range w.replicas {
		if r.manager == nil {
			continue
		}
		parts, err := r.manager.Scheduler.Parts()
		if err != nil {
			continue
		}
		state, known := parts.Queue.Get(pod.UID)
		assumed, err := parts.Cache.IsAssumedPod(pod)
		text += fmt.Sprintf("; %s: queued %v, assumed %v (%v), %v since %v, attempts %d, %s %s", r.process.name, known,
			assumed, err, state.Place, time.Since(state.Timestamp), state.Attempts, state.GatingPlugin,
			state.GatingMessage)
	}
	return text
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

// leaders returns the replicas that lead.
func (w *World) leaders() (leaders []*replica) {
	for _, r := range w.replicas {
		if !r.over && r.manager != nil && ended(r.manager.Elected()) {
			leaders = append(leaders, r)
		}
	}
	return leaders
}
