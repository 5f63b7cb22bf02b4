// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// plan is what a workload does, with the values of its parameters.
type plan struct {
	*workload
	ops []op
	// declaredFeatures is the number of features that each node declares.
	declaredFeatures int
	// reduced describes the parameters that were reduced.
	reduced []string
}

// declaredFeaturesParam is a parameter that no operation uses: the program of its topic does, after
// it has created nodes.
const declaredFeaturesParam = "numNodeDeclaredFeatures"

// limits are the highest numbers of nodes and pods that one operation creates. 0: there is no
// limit.
type limits struct{ nodes, pods int }

// plan returns what a workload does within limits.
func (w *workload) plan(within limits) (*plan, error) {
	values, reduced, err := w.reduce(within)
	if err != nil {
		return nil, err
	}
	p := newParams(values)
	made := &plan{workload: w, reduced: reduced}
	for i, o := range w.of.WorkloadTemplate {
		resolved, err := o.resolve(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: operation %d: %w", w.of.topic, w.name(), i, err)
		}
		made.ops = append(made.ops, unroll(resolved)...)
	}
	if _, ok := values[declaredFeaturesParam]; ok {
		if made.declaredFeatures, err = p.number(0, "$"+declaredFeaturesParam); err != nil {
			return nil, err
		}
	}
	if unused := p.unused(); len(unused) > 0 {
		return nil, fmt.Errorf("%s: %s: no operation uses the parameters %s", w.of.topic, w.name(),
			strings.Join(unused, ", "))
	}
	return made, nil
}

// unroll returns the operations that stand for one.
func unroll(o op) []op {
	sets, ok := o.(*createPodSets)
	if !ok {
		return []op{o}
	}
	var all []op
	for i := range sets.Count {
		pods := sets.CreatePodsOp
		namespace := fmt.Sprintf("%s-%d", sets.NamespacePrefix, i)
		pods.Namespace = &namespace
		all = append(all, &pods)
	}
	return all
}

// counts are the counts of an operation: of outer things, of inner ones in each of them, and
// whether these are nodes or pods.
type counts struct {
	outer, inner string // references to parameters; inner may be empty
	nodes, pods  bool
}

// countsOf returns the counts of an operation that grow with the size of a workload.
func countsOf(o op) counts {
	switch o := o.(type) {
	case *createNodes:
		return counts{outer: o.CountParam, nodes: true}
	case *createPods:
		return counts{outer: o.CountParam, inner: o.CountMultiplierParam, pods: true}
	case *createPodSets:
		return counts{outer: o.CountParam, inner: o.CreatePodsOp.CountParam, pods: true}
	case *createAny:
		return counts{outer: o.CountParam}
	case *updateAny:
		return counts{outer: o.CountParam}
	case *createPodGroups:
		return counts{outer: o.CountParam}
	case *createResourceClaims:
		return counts{outer: o.CountParam}
	case *createNamespaces:
		return counts{outer: o.CountParam}
	}
	return counts{}
}

// reduce returns the parameters within limits. All counts are divided by one whole number, so that
// most of the proportions that the comments of the cases ask for stay: pods for each node, claims
// for each pod. Numbers of nodes are rounded up and others down, so that pods still fit.
func (w *workload) reduce(within limits) (map[string]any, []string, error) {
	divisor, err := w.divisor(within)
	if err != nil || divisor == 1 {
		return w.Params, nil, err
	}
	divided, kept, nodes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range w.of.WorkloadTemplate {
		// Of groups of pods, either the number or the size is divided, in all operations alike: a
		// few large groups become smaller, many small ones become fewer.
		if c := countsOf(o.op); c.inner != "" {
			outer, _ := w.value(c.outer)
			inner, _ := w.value(c.inner)
			if outer%divisor != 0 && (outer < divisor || inner%divisor == 0) {
				divided[c.inner], kept[c.outer] = true, true
			}
		}
	}
	for _, o := range w.of.WorkloadTemplate {
		c := countsOf(o.op)
		nodes[c.outer] = nodes[c.outer] || c.nodes
		switch {
		case c.outer == "":
		case c.inner != "" && divided[c.inner]:
			kept[c.outer] = true
		default:
			divided[c.outer] = true
		}
	}
	values := maps.Clone(w.Params)
	var reduced []string
	for _, name := range slices.Sorted(maps.Keys(w.Params)) {
		n, ok := w.value("$" + name)
		if !ok || !divided["$"+name] || kept["$"+name] || n <= 1 {
			continue
		}
		less := max(n/divisor, 1)
		if nodes["$"+name] {
			less = (n + divisor - 1) / divisor
		}
		values[name] = float64(less)
		reduced = append(reduced, fmt.Sprintf("%s %d instead of %d", name, less, n))
	}
	return values, reduced, nil
}

// divisor returns the smallest whole number by which counts have to be divided.
func (w *workload) divisor(within limits) (int, error) {
	p := newParams(w.Params)
	divisor := 1
	for i, o := range w.of.WorkloadTemplate {
		c := countsOf(o.op)
		limit := 0
		switch {
		case c.nodes:
			limit = within.nodes
		case c.pods:
			limit = within.pods
		}
		if limit == 0 || c.outer == "" {
			continue
		}
		n, err := p.number(0, c.outer)
		if err == nil && c.inner != "" {
			var inner int
			inner, err = p.number(0, c.inner)
			n *= inner
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %s: operation %d: %w", w.of.topic, w.name(), i, err)
		}
		divisor = max(divisor, (n+limit-1)/limit)
	}
	return divisor, nil
}

// value returns the value of the parameter that a reference names, if it is a number.
func (w *workload) value(reference string) (int, bool) {
	value, ok := w.Params[strings.TrimPrefix(reference, "$")].(float64)
	return int(value), ok
}

// size is a measure of the time that a plan takes: the nodes and pods that it creates.
func (p *plan) size() int {
	total := 0
	for _, o := range p.ops {
		switch o := o.(type) {
		case *createNodes:
			total += o.Count
		case *createPods:
			total += o.Count
		}
	}
	return total
}
