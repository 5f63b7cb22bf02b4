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
			// The label of a domain may be that of the host name.
			p.PodGroup.Domain, p.PodGroup.Tried = "", nil
		}
		for _, g := range p.Groups {
			for _, r := range g.Refusals {
				for i := range r.Messages {
					hidden.erase(&r.Messages[i])
				}
			}
		}
	}
	if b := e.Bound; b != nil {
		hidden.own = b.Node
		for i := range b.Top {
			hidden.hide(&b.Top[i].Node)
		}
	}
	hidden.erase(&e.Message)
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
