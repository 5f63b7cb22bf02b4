// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// shortage is what a node lacks, by resource and sorted by its name.
type shortage []lack

// lack is how much of a resource is missing. CPU is in thousandths.
type lack struct {
	resource corev1.ResourceName
	amount   int64
	// of is what the node has in all.
	of int64
}

// shortageOf returns what the node lacks of the resources that NodeResourcesFit finds insufficient.
// It is nil if nothing is: pods that are nominated for the node may take what the pod needs.
func shortageOf(wanted fwk.Resource, node fwk.NodeInfo, refusals []*fwk.Status) shortage {
	i := slices.IndexFunc(refusals, func(s *fwk.Status) bool { return s.Plugin() == names.NodeResourcesFit })
	if i < 0 {
		return nil
	}
	var short shortage
	for _, message := range refusals[i].Reasons() {
		name, ok := strings.CutPrefix(message, "Insufficient ")
		l := lack{resource: corev1.ResourceName(name)}
		switch {
		case message == "Too many pods":
			l = lack{resource: corev1.ResourcePods, amount: int64(len(node.GetPods())) + 1,
				of: int64(node.GetAllocatable().GetAllowedPodNumber())}
		case ok:
			l.amount = amountOf(wanted, l.resource) + amountOf(node.GetRequested(), l.resource)
			l.of = amountOf(node.GetAllocatable(), l.resource)
		}
		if l.amount -= l.of; l.amount > 0 {
			short = append(short, l)
		}
	}
	slices.SortFunc(short, func(a, b lack) int { return cmp.Compare(a.resource, b.resource) })
	return short
}

// amountOf returns the amount of a resource.
func amountOf(r fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.GetMilliCPU()
	case corev1.ResourceMemory:
		return r.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	}
	return r.GetScalarResources()[name]
}

// quantity returns the amount as users write it.
func (l lack) quantity() resource.Quantity {
	switch {
	case l.resource == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(l.amount, resource.DecimalSI)
	case l.resource == corev1.ResourceMemory || l.resource == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(l.resource), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(l.amount, resource.BinarySI)
	}
	return *resource.NewQuantity(l.amount, resource.DecimalSI)
}

func (l lack) String() string {
	if l.resource == corev1.ResourceCPU {
		return cpuText(l.amount) + " cpu"
	}
	q := l.quantity()
	return fmt.Sprintf("%s %s", q.String(), l.resource)
}

func (s shortage) String() string {
	texts := make([]string, len(s))
	for i, l := range s {
		texts[i] = l.String()
	}
	return strings.Join(texts, " and ")
}

// equal reports whether two nodes lack the same.
func (s shortage) equal(other shortage) bool {
	return slices.EqualFunc(s, other, func(a, b lack) bool { return a.resource == b.resource && a.amount == b.amount })
}

// weight compares shortages: the number of resources counts first, and then how much of what the
// node has is missing.
func (s shortage) weight() float64 {
	w := float64(2 * len(s))
	for _, l := range s {
		w += float64(l.amount) / float64(l.amount+l.of)
	}
	return w
}

// shortages returns what nodes lack of each resource: the least, and the most.
func shortages(nodes []*refusedNode) []v1alpha1.Shortage {
	var least, most shortage
	var out []v1alpha1.Shortage
	for _, n := range nodes {
		for _, l := range n.short {
			i := slices.IndexFunc(least, func(other lack) bool { return other.resource == l.resource })
			switch {
			case i < 0:
				least, most = append(least, l), append(most, l)
				out = append(out, v1alpha1.Shortage{Resource: string(l.resource), Nodes: 1, Node: n.name()})
				continue
			case l.amount < least[i].amount:
				least[i], out[i].Nodes, out[i].Node = l, 1, n.name()
			case l.amount == least[i].amount:
				out[i].Nodes++
			}
			if l.amount > most[i].amount {
				most[i] = l
			}
		}
	}
	for i := range out {
		out[i].Quantity = least[i].quantity()
		if most[i].amount > least[i].amount {
			out[i].Most = ptr.To(most[i].quantity())
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.Shortage) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}
