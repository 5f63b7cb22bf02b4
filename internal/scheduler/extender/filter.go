// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxReason bounds the reason for one refused node.
const maxReason = 1 << 10

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
	asked := byName(nodes)
	var answer filterAnswer
	if err := e.ask(question{
		verb: e.cfg.FilterVerb, args: e.args(pod, nodes), nodes: len(nodes),
		read: func(d *json.Decoder) error {
			answer = filterAnswer{} // a caller may not see half of it
			return answer.read(d, asked, e.cfg.NodeCacheCapable)
		},
	}); err != nil {
		return nil, nil, nil, err
	}
	return answer.passed.nodes, answer.failed, answer.unresolvable, nil
}

func byName(nodes []fwk.NodeInfo) map[string]fwk.NodeInfo {
	names := make(map[string]fwk.NodeInfo, len(nodes))
	for _, node := range nodes {
		names[node.Node().Name] = node
	}
	return names
}

// filterAnswer is the answer of a filter, as far as it is about nodes that were asked about.
type filterAnswer struct {
	passed               chosen
	failed, unresolvable extenderv1.FailedNodesMap
}

// read reads an answer with names of nodes, if these were accepted, or with nodes.
func (f *filterAnswer) read(d *json.Decoder, asked map[string]fwk.NodeInfo, names bool) error {
	var named, whole chosen
	var message string
	if _, err := readObject(d, func(field string) (err error) {
		switch {
		case is(field, "NodeNames") && names:
			named, err = chooseFrom(d, asked, readText)
		case is(field, "Nodes"):
			whole = chosen{}
			_, err = readObject(d, func(field string) (err error) {
				if !is(field, "items") {
					return skip(d)
				}
				whole, err = chooseFrom(d, asked, readNodeName)
				return err
			})
		case is(field, "FailedNodes"):
			f.failed, err = readReasons(d, asked)
		case is(field, "FailedAndUnresolvableNodes"):
			f.unresolvable, err = readReasons(d, asked)
		case is(field, "Error"):
			message, err = readText(d)
		default:
			err = skip(d)
		}
		return err
	}); err != nil {
		return err
	}
	if message != "" {
		return said(message)
	}
	if f.passed = whole; named.present {
		f.passed = named
	}
	return f.passed.err
}

// chosen are the nodes of an answer, each once, in its order.
type chosen struct {
	present bool
	nodes   []fwk.NodeInfo
	// err is the error that a node is among them that was not asked about.
	err error
}

// chooseFrom reads an array of nodes. Its length is not bounded, but the length of the result is.
func chooseFrom(d *json.Decoder, asked map[string]fwk.NodeInfo,
	read func(*json.Decoder) (string, error)) (chosen, error) {
	var c chosen
	seen := make(map[string]bool, len(asked))
	present, err := readArray(d, func() error {
		name, err := read(d)
		if err != nil {
			return err
		}
		switch node := asked[name]; {
		case node == nil:
			c.err = notAsked(name)
		case !seen[name]:
			seen[name] = true
			c.nodes = append(c.nodes, node)
		}
		return nil
	})
	c.present = present
	return c, err
}

func notAsked(node string) error {
	return quoting("the answer has a node that it was not asked about", fmt.Sprintf("%q", cut(node, maxQuoted)))
}

// readNodeName reads a node, and returns its name.
func readNodeName(d *json.Decoder) (string, error) {
	var node struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	err := d.Decode(&node)
	return node.Metadata.Name, err
}

// readReasons reads the reasons for nodes that were asked about.
func readReasons(d *json.Decoder, asked map[string]fwk.NodeInfo) (extenderv1.FailedNodesMap, error) {
	reasons := extenderv1.FailedNodesMap{}
	present, err := readObject(d, func(node string) error {
		reason, err := readText(d)
		if asked[node] != nil {
			reasons[node] = cut(reason, maxReason)
		}
		return err
	})
	if !present {
		return nil, err
	}
	return reasons, err
}

// Prioritize returns the extender's scores of the nodes, and its weight.
func (e Extender) Prioritize(pod *corev1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	var scores extenderv1.HostPriorityList
	if !e.IsPrioritizer() {
		return &scores, 0, nil
	}
	asked := byName(nodes)
	if err := e.ask(question{
		verb: e.cfg.PrioritizeVerb, args: e.args(pod, nodes), nodes: len(nodes),
		read: func(d *json.Decoder) (err error) {
			scores, err = readScores(d, asked)
			return err
		},
	}); err != nil {
		return nil, 0, err
	}
	return &scores, e.cfg.Weight, nil
}

// readScores reads the scores of nodes that were asked about. Scores of one node add up, as in
// kube-scheduler.
func readScores(d *json.Decoder, asked map[string]fwk.NodeInfo) (extenderv1.HostPriorityList, error) {
	scores, at := extenderv1.HostPriorityList{}, make(map[string]int, len(asked))
	present, err := readArray(d, func() error {
		var entry extenderv1.HostPriority
		if err := d.Decode(&entry); err != nil || asked[entry.Host] == nil {
			return err
		}
		if i, again := at[entry.Host]; again {
			scores[i].Score += entry.Score
			return nil
		}
		at[entry.Host] = len(scores)
		scores = append(scores, entry)
		return nil
	})
	if !present {
		return nil, err
	}
	return scores, err
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
