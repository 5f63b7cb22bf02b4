// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"regexp"
	"slices"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
)

// withoutNodeNames returns an explanation without the names of nodes, for those who may not list
// nodes. The node of the pod itself stays: the pod names it, too.
func withoutNodeNames(e *v1alpha1.PodExplanation) *v1alpha1.PodExplanation {
	e = e.DeepCopy()
	var hidden names
	if p := e.Pending; p != nil {
		hidden.own = p.NominatedNode
		for i := range p.Groups {
			hidden.hide(&p.Groups[i].Example)
			for j := range p.Groups[i].Refusals {
				short := p.Groups[i].Refusals[j].ShortBy
				for k := range short {
					hidden.hide(&short[k].Node)
				}
			}
		}
		for i := range p.Suggestions {
			hidden.hide(&p.Suggestions[i].Node)
		}
		for i := range p.Suggestions {
			hidden.erase(&p.Suggestions[i].Description)
		}
		if p.PodGroup != nil {
			// The label of a domain may be the label of the host name.
			p.PodGroup.Domain, p.PodGroup.Tried = "", nil
		}
		hidden.eraseIn(p.PodRefusals)
		for _, g := range p.Groups {
			hidden.eraseIn(g.Refusals)
		}
	}
	e.Node = nil // to ask about a node needs the permission to list nodes
	if b := e.Bound; b != nil {
		hidden.own = b.Node
		for i := range b.Top {
			hidden.hide(&b.Top[i].Node)
		}
	}
	hidden.erase(&e.Message)
	return e
}

// withoutPodsOfOthers returns an explanation without the names of pods in other namespaces, for
// those who may not list pods in all namespaces.
func withoutPodsOfOthers(e *v1alpha1.PodExplanation) *v1alpha1.PodExplanation {
	if e.Pending == nil {
		return e
	}
	e = e.DeepCopy()
	others := func(p v1alpha1.PodReference) bool { return p.Namespace != e.Metadata.Namespace }
	e.Pending.Victims = slices.DeleteFunc(e.Pending.Victims, others)
	for i := range e.Pending.Suggestions {
		s := &e.Pending.Suggestions[i]
		s.Pods = slices.DeleteFunc(s.Pods, others)
	}
	return e
}

// names are names of nodes that are being hidden.
type names struct {
	own    string // the node of the pod itself
	hidden []string
}

// hide empties a field with the name of a node.
func (n *names) hide(field *string) {
	if *field == "" || *field == n.own {
		return
	}
	if !slices.Contains(n.hidden, *field) {
		n.hidden = append(n.hidden, *field)
	}
	*field = ""
}

// eraseIn replaces the hidden names in refusals.
func (n *names) eraseIn(refusals []v1alpha1.Refusal) {
	for i := range refusals {
		n.erase(&refusals[i].Detail)
		for j := range refusals[i].Messages {
			n.erase(&refusals[i].Messages[j])
		}
	}
}

// erase replaces the hidden names in a sentence.
func (n *names) erase(sentence *string) {
	for _, name := range n.hidden {
		if !strings.Contains(*sentence, name) {
			continue
		}
		// A name may be part of another word.
		whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(name) + `([^\w.-]|[.]\W|[.]?$)`)
		for whole.MatchString(*sentence) { // neighbors share the character between them
			*sentence = whole.ReplaceAllString(*sentence, "${1}(a node)${2}")
		}
	}
}
