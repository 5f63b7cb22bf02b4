// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// Nominator knows the pods that are nominated to nodes, as the scheduling queue does.
type Nominator interface {
	// NominatedPodsForNode returns the pods that are nominated to a node.
	NominatedPodsForNode(nodeName string) []fwk.PodInfo
	// Nominations returns what has changed since a position, for pods of the priority of a pod. The
	// position is the End of an earlier answer, or 0 at first.
	Nominations(pod *corev1.Pod, since uint64) NominationChanges
}

// NominatedNode is a node with nominated pods that count for some pod: those of equal or higher
// priority, except the pod itself. If a node has the same number twice, the same pods count. 0: no
// nominated pod counts.
type NominatedNode struct {
	Name   string
	Number uint64
}

// NominationChanges are changes of nominations, for pods of one priority.
type NominationChanges struct {
	// Nodes are the nodes with changes. A node may be among them more than once, or without a
	// change. If All is true, they are all nodes with nominated pods that count. They include the
	// pod itself.
	Nodes []NominatedNode
	All   bool
	// End is the position after the changes.
	End uint64
	// Own is the node that the pod itself is nominated to, without the pod. Its name is empty if
	// the pod is not nominated.
	Own NominatedNode
}

// maxPriorities bounds the priorities for which Nominations keeps the nominated nodes.
const maxPriorities = 16

// Nominations keeps the nominated nodes for pods of several priorities up to date. It belongs to
// one goroutine. The zero value is ready for use.
type Nominations struct {
	byPriority map[int32]*NominatedNodes
}

// Read returns the nodes with nominated pods that count for a pod, by what a Nominator knows (nil:
// nothing). They are valid until the next call of Read.
func (n *Nominations) Read(from Nominator, pod *corev1.Pod) *NominatedNodes {
	priority := corev1helpers.PodPriority(pod)
	v := n.byPriority[priority]
	if v == nil || v.source != from {
		if n.byPriority == nil || len(n.byPriority) >= maxPriorities {
			n.byPriority = map[int32]*NominatedNodes{}
		}
		v = &NominatedNodes{source: from, numbers: map[string]uint64{}}
		n.byPriority[priority] = v
	}
	if v.source != nil {
		v.apply(v.source.Nominations(pod, v.pos))
	}
	return v
}

// NominatedNodes are the nodes for which [Framework.RunFilterPluginsWithNominatedPods] may return
// another status than [Framework.RunFilterPlugins] for a pod.
type NominatedNodes struct {
	source Nominator
	// pos is the position in the changes of source.
	pos uint64
	// numbers are by name, without zeros, for pods that are not nominated themselves.
	numbers map[string]uint64
	own     NominatedNode
	// log lists the nodes whose numbers have changed.
	log changelog.Log[string]
}

func (v *NominatedNodes) apply(changes NominationChanges) {
	if changes.All && len(v.numbers) > 0 {
		now := make(map[string]uint64, len(changes.Nodes))
		for _, node := range changes.Nodes {
			now[node.Name] = node.Number
		}
		for name := range v.numbers {
			if now[name] == 0 {
				v.set(name, 0)
			}
		}
	}
	for _, node := range changes.Nodes {
		v.set(node.Name, node.Number)
	}
	v.pos, v.own = changes.End, changes.Own
}

// maxChanges is the number of changes that a reader of NominatedNodes may be behind.
const maxChanges = 2048

func (v *NominatedNodes) set(name string, number uint64) {
	if v.numbers[name] == number {
		return
	}
	if number == 0 {
		delete(v.numbers, name)
	} else {
		v.numbers[name] = number
	}
	v.log.Add(name, maxChanges)
}

// End returns the position after the latest change. It does not count which pod was read for.
func (v *NominatedNodes) End() uint64 { return v.log.End() }

// Since returns the nodes whose numbers have changed since a position, and true; false if that is
// not known any more, as for position 0.
func (v *NominatedNodes) Since(pos uint64) ([]string, bool) { return v.log.Since(pos) }

// Own returns the name of the node that the pod itself is nominated to, or "".
func (v *NominatedNodes) Own() string { return v.own.Name }

// Number returns the number of a node, 0 if no nominated pod there counts.
func (v *NominatedNodes) Number(name string) uint64 {
	if name == v.own.Name {
		return v.own.Number
	}
	return v.numbers[name]
}

// Any reports whether any nominated pod counts.
func (v *NominatedNodes) Any() bool {
	if v.own.Number != 0 || v.own.Name == "" {
		return v.own.Number != 0 || len(v.numbers) > 0
	}
	others := len(v.numbers)
	if v.numbers[v.own.Name] != 0 {
		others--
	}
	return others > 0
}

// All yields the nodes with nominated pods that count, with their numbers, in any order.
func (v *NominatedNodes) All(yield func(name string, number uint64) bool) {
	for name := range v.numbers {
		if number := v.Number(name); number != 0 && !yield(name, number) {
			return
		}
	}
}

// Names returns the names of all nodes with nominated pods that count for some pod of the priority.
func (v *NominatedNodes) Names() []string { return slices.Collect(maps.Keys(v.numbers)) }

// Changed reports whether other nominated pods may count for a pod now than when Read was called
// for it.
func (v *NominatedNodes) Changed(pod *corev1.Pod) bool {
	if v.source == nil {
		return false
	}
	now := v.source.Nominations(pod, v.pos)
	if now.Own != v.own {
		return true
	}
	same := 0
	for _, node := range now.Nodes {
		if v.numbers[node.Name] != node.Number {
			return true
		}
		same++
	}
	return now.All && same != len(v.numbers)
}

// Nominator returns the Nominator that the Framework was made with. It may be nil.
func (f *Framework) Nominator() Nominator { return f.cfg.Nominator }

// NominatedPods returns the pods that are nominated to a node and count for a pod.
func (f *Framework) NominatedPods(pod *corev1.Pod, node string) (counting []fwk.PodInfo) {
	if f.cfg.Nominator == nil {
		return nil
	}
	for _, nominated := range f.cfg.Nominator.NominatedPodsForNode(node) {
		other := nominated.GetPod()
		if other.UID != pod.UID && corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod) {
			counting = append(counting, nominated)
		}
	}
	return counting
}
