// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// strategy is how nodes are scored by their resources.
type strategy uint8

const (
	// Those of NodeResourcesFit.
	leastAllocated strategy = iota
	mostAllocated
	requestedToCapacityRatio
	// balancedAllocation is NodeResourcesBalancedAllocation.
	balancedAllocation
)

// nodeScore scores nodes for the pods with one local key in the way of one plugin.
type nodeScore struct {
	*resourceScorer
	terms []term
	// pair is true if the terms are cpu and memory, as they are by default, and balanced goes by
	// request instead of them.
	pair    bool
	request [numCore]int64
}

// term is one resource that counts.
type term struct {
	// core is its position in nodeResources. If scalar is not nil, that has the resource instead.
	core   int
	scalar *scalarColumn
	// request is the pod's.
	request int64
	weight  int64
}

// of is the score of a node. What its loops do with the numbers, and in which order, is what the
// plugins do.
func (s *nodeScore) of(n *nodeResources, slot int) int64 {
	switch s.strategy {
	case leastAllocated:
		return s.least(n, slot)
	case mostAllocated:
		return s.most(n, slot)
	case requestedToCapacityRatio:
		return s.ratio(n, slot)
	default:
		return s.balanced(n, slot)
	}
}

// numbers are what a node has of the resource, and what will be requested of that with the pod,
// containers without a request counted with a small one.
func (t *term) numbers(n *nodeResources, slot int) (requested, allocatable int64) {
	if t.scalar != nil {
		return t.scalar.requested[slot] + t.request, t.scalar.allocatable[slot]
	}
	return n.nonZero[t.core] + t.request, n.allocatable[t.core]
}

func (s *nodeScore) least(n *nodeResources, slot int) int64 {
	var sum, weights int64
	for i := range s.terms {
		t := &s.terms[i]
		requested, allocatable := t.numbers(n, slot)
		if allocatable == 0 {
			continue
		}
		if requested <= allocatable {
			sum += (allocatable - requested) * fwk.MaxScore / allocatable * t.weight
		}
		weights += t.weight
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

func (s *nodeScore) most(n *nodeResources, slot int) int64 {
	var sum, weights int64
	for i := range s.terms {
		t := &s.terms[i]
		requested, allocatable := t.numbers(n, slot)
		if allocatable == 0 {
			continue
		}
		sum += min(requested, allocatable) * fwk.MaxScore / allocatable * t.weight
		weights += t.weight
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// fullUtilization is the utilization of a node that is full, in per cent.
const fullUtilization = 100

// ratio is the score of RequestedToCapacityRatio. Resources that score 0 do not count, whatever
// their weight.
func (s *nodeScore) ratio(n *nodeResources, slot int) int64 {
	var sum, weights int64
	for i := range s.terms {
		t := &s.terms[i]
		requested, allocatable := t.numbers(n, slot)
		if allocatable == 0 {
			continue
		}
		utilization := int64(fullUtilization)
		if requested <= allocatable {
			utilization = requested * fullUtilization / allocatable
		}
		if score := s.shape[min(max(utilization, 0), fullUtilization)]; score > 0 {
			sum += score * t.weight
			weights += t.weight
		}
	}
	if weights == 0 {
		return 0
	}
	return int64(math.Round(float64(sum) / float64(weights)))
}

// scoresByUtilization returns the score for each utilization by the points of a shape, whose scores
// go up to schedconfig.MaxCustomPriorityScore.
func scoresByUtilization(points []schedconfig.UtilizationShapePoint) *[fullUtilization + 1]int64 {
	shape := make(helper.FunctionShape, 0, len(points))
	for _, point := range points {
		shape = append(shape, helper.FunctionShapePoint{
			Utilization: int64(point.Utilization),
			Score:       int64(point.Score) * (fwk.MaxScore / schedconfig.MaxCustomPriorityScore),
		})
	}
	at := helper.BuildBrokenLinearFunction(shape)
	var scores [fullUtilization + 1]int64
	for utilization := range scores {
		scores[utilization] = at(int64(utilization))
	}
	return &scores
}

// balanced is the score of NodeResourcesBalancedAllocation: how much nearer the shares of the
// resources that are requested come to each other by the pod.
func (s *nodeScore) balanced(n *nodeResources, slot int) int64 {
	if s.pair && n.allocatable[cpu] != 0 && n.allocatable[memory] != 0 {
		after := deviationOfPair(
			share(n.requested[cpu]+s.request[cpu], n.allocatable[cpu]), share(n.requested[memory]+s.request[memory], n.allocatable[memory]))
		return improvement(n.nearness, nearness(after))
	}
	var with, without [4]float64 // for most there is room here
	before, after := without[:0], with[:0]
	for i := range s.terms {
		t := &s.terms[i]
		var requested, allocatable int64
		if t.scalar != nil {
			requested, allocatable = t.scalar.requested[slot], t.scalar.allocatable[slot]
		} else {
			requested, allocatable = n.requested[t.core], n.allocatable[t.core]
		}
		if allocatable == 0 {
			continue
		}
		before = append(before, share(requested, allocatable))
		after = append(after, share(requested+t.request, allocatable))
	}
	return improvement(nearness(deviation(before)), nearness(deviation(after)))
}

// share returns the share of a resource that is requested, 1 if more is requested than there is.
func share(requested, allocatable int64) float64 {
	fraction := float64(requested) / float64(allocatable)
	if fraction > 1 {
		return 1
	}
	return fraction
}

// improvement is the score by how near the shares of a node are to each other before and with the
// pod.
func improvement(before, after int64) int64 {
	const half = fwk.MaxScore / 2
	return half + (half+after-before)/2
}

// nearness is how near shares are to each other by their deviation, fwk.MaxScore if they are all
// the same.
func nearness(deviation float64) int64 { return int64((1 - deviation) * float64(fwk.MaxScore)) }

// deviation is the standard deviation of shares. For two kube-scheduler takes a short cut, and its
// result is to be met.
func deviation(shares []float64) float64 {
	if len(shares) == 2 {
		return deviationOfPair(shares[0], shares[1])
	}
	if len(shares) < 2 {
		return 0
	}
	var sum float64
	for _, share := range shares {
		sum += share
	}
	mean := sum / float64(len(shares))
	var squares float64
	for _, share := range shares {
		squares += (share - mean) * (share - mean)
	}
	return math.Sqrt(squares / float64(len(shares)))
}

// deviationOfPair is half the distance.
func deviationOfPair(a, b float64) float64 { return math.Abs((a - b) / 2) }
