// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/suggest"
)

// MaxAddedNodes limits the nodes that are added.
const MaxAddedNodes = 5000

// Nodes are changes of nodes.
type Nodes struct {
	Add []Addition
	// Remove has names, and RemoveLabels selects more if it is not nil.
	Remove       []string
	RemoveLabels labels.Selector
}

// Addition adds nodes like one of a name, or like the nodes of a pool.
type Addition struct {
	Like  string
	Count int
}

// nodesOf returns the nodes in their order.
func nodesOf(snapshot *cache.Snapshot) []fwk.NodeInfo {
	nodes, _ := snapshot.NodeInfos().List() // it never fails
	return nodes
}

// resolve returns the names of the nodes that are removed, and a node for each addition: the one of
// the name, or the first of the pool.
func (n *Nodes) resolve(snapshot *cache.Snapshot) (removed map[string]bool, templates []fwk.NodeInfo,
	errs field.ErrorList) {
	removed = map[string]bool{}
	missing, path := sets.New(n.Remove...), specPath.Child("nodes")
	for _, node := range nodesOf(snapshot) {
		name := node.Node().Name
		if missing.Has(name) || n.RemoveLabels != nil && n.RemoveLabels.Matches(labels.Set(node.Node().Labels)) {
			removed[name] = true
		}
		missing.Delete(name)
	}
	for i, name := range n.Remove {
		if missing.Has(name) {
			problem := "no node has this name" + suggest.DidYouMean(name, namesOf(snapshot))
			errs = append(errs, field.Invalid(path.Child("remove").Index(i), name, problem))
		}
	}
	if n.RemoveLabels != nil && len(removed) == 0 {
		errs = append(errs, field.Invalid(path.Child("removeSelector"), n.RemoveLabels.String(), "selects no node"))
	}
	for i, addition := range n.Add {
		template := findTemplate(snapshot, addition.Like)
		if template == nil {
			problem := "no node and no pool has this name" + alternatives(snapshot, addition.Like)
			errs = append(errs, field.Invalid(path.Child("add").Index(i).Child("like"), addition.Like, problem))
		}
		templates = append(templates, template)
	}
	return removed, templates, errs
}

// maxNamed limits the names of pools in an error.
const maxNamed = 20

// alternatives returns the end of an error about the name of a node or a pool: what it may stand
// for, and the pools.
func alternatives(snapshot *cache.Snapshot, name string) string {
	found := sets.New[string]()
	for _, node := range nodesOf(snapshot) {
		found.Insert(nodepool.Of(node.Node()))
	}
	pools := sets.List(found.Delete("", "-"))
	text := suggest.DidYouMean(name, append(namesOf(snapshot), pools...))
	switch {
	case len(pools) == 0:
		return text
	case text == "":
		text = "; pools: "
	default:
		text += " Pools: "
	}
	text += strings.Join(pools[:min(len(pools), maxNamed)], ", ")
	if more := len(pools) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// namesOf returns the names of the nodes.
func namesOf(snapshot *cache.Snapshot) []string {
	nodes := nodesOf(snapshot)
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	return names
}

// findTemplate returns the node of a name, or one of a pool, if possible one that is not cordoned.
// It returns nil if there is none.
func findTemplate(snapshot *cache.Snapshot, like string) fwk.NodeInfo {
	if node, err := snapshot.NodeInfos().Get(like); err == nil {
		return node
	}
	var template fwk.NodeInfo
	for _, node := range nodesOf(snapshot) {
		if nodepool.Of(node.Node()) != like {
			continue
		}
		if !node.Node().Spec.Unschedulable {
			return node
		}
		template = node
	}
	return template
}

// apply changes the nodes of a fork. Pods that stay on removed nodes go with them.
func (n *Nodes) apply(k *fork.Fork, templates []fwk.NodeInfo, removed map[string]bool) error {
	for i, addition := range n.Add {
		for number := range addition.Count {
			if _, _, err := k.AddNodeLike(templates[i], fmt.Sprintf("added-%d-%d-", i, number)); err != nil {
				return fmt.Errorf("adding a node like %q: %w", addition.Like, err)
			}
		}
	}
	for name := range removed {
		node := &corev1.Node{}
		node.Name = name
		if err := k.RemoveNode(node); err != nil {
			return fmt.Errorf("removing the node %q: %w", name, err)
		}
	}
	return nil
}
