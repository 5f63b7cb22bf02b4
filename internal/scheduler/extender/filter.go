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

// Filter returns the nodes that pass the extender, in its order, and the reasons for those that it
// refuses. The returned nodes are those that were passed in: only the name of a node in the
// response is used, even if the extender received whole nodes (kube-scheduler continues with the
// node from the response, and scores it as one without pods).
func (e Extender) Filter(pod *corev1.Pod, nodes []fwk.NodeInfo) (
	passed []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error,
) {
	if !e.IsFilter() {
		return nodes, nil, nil, nil
	}
	var answer extenderv1.ExtenderFilterResult
	if err := e.call(e.cfg.FilterVerb, e.args(pod, nodes), &answer); err != nil {
		return nil, nil, nil, err
	}
	if answer.Error != "" {
		return nil, nil, nil, e.said(e.cfg.FilterVerb, answer.Error)
	}
	passed, err = choose(nodes, e.namesOf(&answer))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("extender %q, %s: %w", e.name, e.cfg.FilterVerb, err)
	}
	return passed, answer.FailedNodes, answer.FailedAndUnresolvableNodes, nil
}

// namesOf returns the names of the nodes in a response.
func (e Extender) namesOf(answer *extenderv1.ExtenderFilterResult) []string {
	switch {
	case e.cfg.NodeCacheCapable && answer.NodeNames != nil:
		return *answer.NodeNames
	case answer.Nodes != nil:
		names := make([]string, len(answer.Nodes.Items))
		for i := range answer.Nodes.Items {
			names[i] = answer.Nodes.Items[i].Name
		}
		return names
	}
	return nil
}

// choose returns the nodes with the given names, each once.
func choose(nodes []fwk.NodeInfo, names []string) ([]fwk.NodeInfo, error) {
	byName := make(map[string]fwk.NodeInfo, len(nodes))
	for _, node := range nodes {
		byName[node.Node().Name] = node
	}
	chosen := make([]fwk.NodeInfo, 0, min(len(names), len(nodes)))
	for _, name := range names {
		node, sent := byName[name]
		switch {
		case !sent:
			return nil, fmt.Errorf("the answer has node %q, which it was not asked about", name)
		case node != nil:
			chosen = append(chosen, node)
			byName[name] = nil // choose it once only
		}
	}
	return chosen, nil
}

// Prioritize returns the extender's scores and its weight.
func (e Extender) Prioritize(pod *corev1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	var scores extenderv1.HostPriorityList
	if !e.IsPrioritizer() {
		return &scores, 0, nil
	}
	if err := e.call(e.cfg.PrioritizeVerb, e.args(pod, nodes), &scores); err != nil {
		return nil, 0, err
	}
	return &scores, e.cfg.Weight, nil
}

// args returns the arguments of filter and prioritize: nodes, or only names for an extender that
// caches the nodes.
func (e Extender) args(pod *corev1.Pod, nodes []fwk.NodeInfo) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, node := range nodes {
			names[i] = node.Node().Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{Items: make([]corev1.Node, len(nodes))}
	for i, node := range nodes {
		args.Nodes.Items[i] = *node.Node()
	}
	return args
}

// said returns an error from the extender's response.
func (e Extender) said(verb, message string) error {
	return fmt.Errorf("extender %q, %s: %w", e.name, verb, errors.New(message))
}
