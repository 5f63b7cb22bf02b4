// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ProcessPreemption sends the candidate nodes of a preemption with their victims to the extender,
// and returns those that it accepts: possibly fewer nodes, or other victims. The response names
// victims by UID, whether the extender caches the nodes or not. The victims of a node without a
// list are nil, which the caller has to check.
func (e Extender) ProcessPreemption(
	pod *corev1.Pod, candidates map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister,
) (map[string]*extenderv1.Victims, error) {
	if !e.SupportsPreemption() {
		return nil, fmt.Errorf("extender %q has no preemptVerb", e.name)
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		args.NodeNameToMetaVictims = identifiers(candidates)
	} else {
		args.NodeNameToVictims = candidates
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := e.call(e.cfg.PreemptVerb, args, &answer); err != nil {
		return nil, err
	}
	left := make(map[string]*extenderv1.Victims, len(answer.NodeNameToMetaVictims))
	for name, identified := range answer.NodeNameToMetaVictims {
		victims, err := find(name, identified, candidates, nodes)
		if err != nil {
			return nil, fmt.Errorf("extender %q, %s: %w", e.name, e.cfg.PreemptVerb, err)
		}
		left[name] = victims
	}
	return left, nil
}

// identifiers replaces pods by their UIDs.
func identifiers(candidates map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	all := make(map[string]*extenderv1.MetaVictims, len(candidates))
	for name, victims := range candidates {
		identified := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations, Pods: make([]*extenderv1.MetaPod, len(victims.Pods))}
		for i, pod := range victims.Pods {
			identified.Pods[i] = &extenderv1.MetaPod{UID: string(pod.UID)}
		}
		all[name] = identified
	}
	return all
}

// find replaces UIDs by pods, which must be on the node: the extender may have another view of it.
func find(
	name string, identified *extenderv1.MetaVictims, candidates map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister,
) (*extenderv1.Victims, error) {
	if _, asked := candidates[name]; !asked {
		return nil, fmt.Errorf("the answer has node %q, which it was not asked about", name)
	}
	if identified == nil {
		return nil, nil
	}
	node, err := nodes.Get(name)
	if err != nil {
		return nil, err
	}
	victims := &extenderv1.Victims{NumPDBViolations: identified.NumPDBViolations, Pods: []*corev1.Pod{}}
	for _, wanted := range identified.Pods {
		if wanted == nil {
			return nil, fmt.Errorf("the answer has a victim without a UID on node %q", name)
		}
		pod := podOn(node, wanted.UID)
		if pod == nil {
			return nil, fmt.Errorf("the answer has a victim with the UID %q on node %q, on which there is none", wanted.UID, name)
		}
		victims.Pods = append(victims.Pods, pod)
	}
	return victims, nil
}

func podOn(node fwk.NodeInfo, uid string) *corev1.Pod {
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); string(pod.UID) == uid {
			return pod
		}
	}
	return nil
}

// Bind lets the extender bind the pod.
func (e Extender) Bind(binding *corev1.Binding) error {
	if !e.IsBinder() {
		return errors.New("the extender has no bindVerb")
	}
	var answer extenderv1.ExtenderBindingResult
	if err := e.call(e.cfg.BindVerb, &extenderv1.ExtenderBindingArgs{
		PodName:      binding.Name,
		PodNamespace: binding.Namespace,
		PodUID:       binding.UID,
		Node:         binding.Target.Name,
	}, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return e.said(e.cfg.BindVerb, answer.Error)
	}
	return nil
}
