// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ProcessPreemption sends the candidate nodes of a preemption with their victims to the extender,
// and returns those that it accepts: possibly fewer nodes, or other victims that the pod may
// preempt. The response names
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
	var left map[string]*extenderv1.Victims
	if err := e.ask(question{
		verb: e.cfg.PreemptVerb, args: args, nodes: len(candidates),
		read: func(d *json.Decoder) (err error) {
			left, err = readCandidates(d, pod, candidates, nodes)
			return err
		},
	}); err != nil {
		return nil, err
	}
	return left, nil
}

// identifiers replaces pods by their UIDs.
func identifiers(candidates map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	all := make(map[string]*extenderv1.MetaVictims, len(candidates))
	for name, victims := range candidates {
		identified := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations,
			Pods: make([]*extenderv1.MetaPod, len(victims.Pods))}
		for i, pod := range victims.Pods {
			identified.Pods[i] = &extenderv1.MetaPod{UID: string(pod.UID)}
		}
		all[name] = identified
	}
	return all
}

// readCandidates reads the nodes that are left, with their victims.
func readCandidates(
	d *json.Decoder, preemptor *corev1.Pod, candidates map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister,
) (map[string]*extenderv1.Victims, error) {
	left := make(map[string]*extenderv1.Victims, len(candidates))
	_, err := readObject(d, func(field string) error {
		if !is(field, "NodeNameToMetaVictims") {
			return skip(d)
		}
		_, err := readObject(d, func(name string) error {
			if _, asked := candidates[name]; !asked {
				return notAsked(name)
			}
			node, err := nodes.Get(name)
			if err != nil {
				return err
			}
			left[name], err = readVictims(d, preemptor, node)
			return err
		})
		return err
	})
	return left, err
}

// readVictims reads the victims on a node, nil for null. They may be others than those that the
// extender was asked about, as in kube-scheduler, because it may know better which pods make room.
// But they must be pods that the preemptor may preempt: on the node, and of a lower priority.
func readVictims(d *json.Decoder, preemptor *corev1.Pod, node fwk.NodeInfo) (*extenderv1.Victims, error) {
	victims := &extenderv1.Victims{Pods: []*corev1.Pod{}}
	onNode, seen := podsByUID(node), map[string]bool{}
	present, err := readObject(d, func(field string) error {
		switch {
		case is(field, "NumPDBViolations"):
			return d.Decode(&victims.NumPDBViolations)
		case !is(field, "Pods"):
			return skip(d)
		}
		_, err := readArray(d, func() error {
			uid, err := readUID(d)
			if err != nil {
				return err
			}
			pod := onNode[uid]
			switch {
			case pod == nil:
				return quoting(fmt.Sprintf("the answer has a victim on node %q that is not there", node.Node().Name),
					fmt.Sprintf("UID %q", cut(uid, maxQuoted)))
			case corev1helpers.PodPriority(pod) >= corev1helpers.PodPriority(preemptor):
				return quoting(
					fmt.Sprintf("the answer has a victim on node %q that does not have a lower priority than the pod",
						node.Node().Name), klog.KObj(pod).String())
			case !seen[uid]:
				seen[uid] = true
				victims.Pods = append(victims.Pods, pod)
			}
			return nil
		})
		return err
	})
	if !present {
		return nil, err
	}
	return victims, err
}

func readUID(d *json.Decoder) (uid string, err error) {
	_, err = readObject(d, func(field string) (err error) {
		if !is(field, "UID") {
			return skip(d)
		}
		uid, err = readText(d)
		return err
	})
	return uid, err
}

func podsByUID(node fwk.NodeInfo) map[string]*corev1.Pod {
	pods := make(map[string]*corev1.Pod, len(node.GetPods()))
	for _, info := range node.GetPods() {
		pods[string(info.GetPod().UID)] = info.GetPod()
	}
	return pods
}

// Bind lets the extender bind the pod.
func (e Extender) Bind(binding *corev1.Binding) error {
	if !e.IsBinder() {
		return errors.New("the extender has no bindVerb")
	}
	return e.ask(question{
		verb: e.cfg.BindVerb,
		args: &extenderv1.ExtenderBindingArgs{
			PodName:      binding.Name,
			PodNamespace: binding.Namespace,
			PodUID:       binding.UID,
			Node:         binding.Target.Name,
		},
		read: readBound,
	})
}

// readBound reads the answer of a binding, which has an error or nothing.
func readBound(d *json.Decoder) error {
	var message string
	_, err := readObject(d, func(field string) (err error) {
		if !is(field, "Error") {
			return skip(d)
		}
		message, err = readText(d)
		return err
	})
	if err == nil && message != "" {
		err = said(message)
	}
	return err
}
