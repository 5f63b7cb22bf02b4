// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// hintKeys returns what the hints of plugins of kube-scheduler 1.37 read of a pod, by plugin.
// Plugins whose hints are not known, and those whose hints read the claims of a pod, are missing.
func hintKeys(extensions []fwk.EnqueueExtensions) map[string]queue.HintKey {
	keys := map[string]queue.HintKey{}
	for _, ext := range extensions {
		if key := hintKey(ext); key.Write != nil {
			keys[ext.Name()] = key
		}
	}
	return keys
}

func hintKey(pl fwk.Plugin) queue.HintKey {
	switch pl.(type) {
	case *noderesources.Fit:
		return queue.HintKey{Write: writeRequests}
	case *nodeaffinity.NodeAffinity:
		return queue.HintKey{Write: podfields.WriteNodeAffinity}
	case *tainttoleration.TaintToleration, *nodeunschedulable.NodeUnschedulable:
		return queue.HintKey{Write: podfields.WriteTolerations}
	case *nodeports.NodePorts:
		return queue.HintKey{Write: podfields.WriteHostPorts}
	case *podtopologyspread.PodTopologySpread:
		return queue.HintKey{Write: writeSpread}
	case *interpodaffinity.InterPodAffinity:
		return queue.HintKey{Write: writePodAffinity, Differs: deletesAntiAffinity}
	case *schedulinggates.SchedulingGates, *preemption.Plugin, *nodelabel.NodeLabel:
		return queue.HintKey{Write: writeNothing}
	}
	return queue.HintKey{}
}

func writeNothing(*mapkey.Writer, *corev1.Pod) bool { return true }

// writeRequests writes what the requests of a pod follow from, if that is its spec. For a pod that
// is on a node, because its resize is deferred, hints look at that node only.
func writeRequests(w *mapkey.Writer, pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !podfields.ReportsResources(pod) && podfields.WriteRequests(w, pod)
}

// writeSpread writes what the spread constraints of a pod follow from. Default constraints follow
// from the services and the controller that select the pod.
func writeSpread(w *mapkey.Writer, pod *corev1.Pod) bool {
	w.Text(pod.Namespace)
	ok := podfields.WriteSpread(w, pod)
	constraints := pod.Spec.TopologySpreadConstraints
	if len(constraints) == 0 {
		w.Map(pod.Labels, nil)
		podfields.WriteController(w, pod)
	}
	for i := range constraints {
		for _, label := range constraints[i].MatchLabelKeys {
			value, has := pod.Labels[label]
			w.Flag(has)
			w.Text(value)
		}
	}
	return ok
}

// writePodAffinity writes the affinity terms of a pod and its namespace, which terms without
// namespaces mean, and whether the pod is one that its required affinity selects.
func writePodAffinity(w *mapkey.Writer, pod *corev1.Pod) bool {
	w.Text(pod.Namespace)
	if len(fwk.GetPodAffinityTerms(pod.Spec.Affinity)) > 0 {
		selects, err := selectedByAffinity(pod)
		w.Flag(err == nil && selects(pod))
	}
	return podfields.WritePodAffinity(w, pod)
}

// deletesAntiAffinity reports whether an event is the deletion of a pod with required
// anti-affinity. The terms of that pod may select waiting pods by any of their labels.
func deletesAntiAffinity(oldObj, newObj any) bool {
	pod, ok := oldObj.(*corev1.Pod)
	return ok && newObj == nil && len(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity)) > 0
}
