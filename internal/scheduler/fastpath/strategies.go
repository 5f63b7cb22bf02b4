// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// strategy is a way to score nodes by their resources.
type strategy uint8

const (
	// The strategies of NodeResourcesFit.
	leastAllocated strategy = iota
	mostAllocated
	requestedToCapacityRatio
	// balancedAllocation is NodeResourcesBalancedAllocation.
	balancedAllocation
)

// nodeScore computes the scores of one plugin for the pods with one local key.
type nodeScore struct {
	*resourceScorer
	terms []term
	// pair is true if the terms are cpu and memory, as by default, and balanced uses request
	// instead of the terms.
	pair    bool
	request [numCore]int64
}

// term is one resource that counts for the score.
type term struct {
	// core is the position of the resource in nodeResources. If scalar is not nil, it holds the
	// resource instead.
	core   int
	scalar *scalarColumn
	// request is the request of the pod.
	request int64
	weight  int64
}

// of returns the score of a node. Its loops perform the plugins' arithmetic in the plugins' order.
func (s *nodeScore) of(n *nodeResources, slot int) int64 {
	switch s.strategy {
	case leastAllocated, mostAllocated:
		return s.allocated(n, slot)
	case requestedToCapacityRatio:
		return s.ratio(n, slot)
	default:
		return s.balanced(n, slot)
	}
}

// numbers returns how much of the resource the node has, and how much will be requested with the
// pod. Containers without a request count with a small one.
func (t *term) numbers(n *nodeResources, slot int) (requested, allocatable int64) {
	if t.scalar != nil {
		return t.scalar.requested[slot] + t.request, t.scalar.allocatable[slot]
	}
	return n.nonZero[t.core] + t.request, n.allocatable[t.core]
}

// allocated computes the score of LeastAllocated or MostAllocated: the mean of the shares of the
// resources that will be free, or requested.
func (s *nodeScore) allocated(n *nodeResources, slot int) int64 {
	var sum, weights int64
	for i := range s.terms {
		t := &s.terms[i]
		requested, allocatable := t.numbers(n, slot)
		if allocatable == 0 {
			continue
		}
		counted := min(requested, allocatable)
		if s.strategy == leastAllocated {
			counted = allocatable - counted
		}
		sum += counted * fwk.MaxScore / allocatable * t.weight
		weights += t.weight
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// fullUtilization is the utilization of a full node, in percent.
const fullUtilization = 100

// ratio computes the score of RequestedToCapacityRatio. Resources that score 0 do not count,
// whatever their weight.
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

// scoresByUtilization returns the score for each utilization, by the points of a shape. The scores
// of the points go up to schedconfig.MaxCustomPriorityScore.
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

// balanced computes the score of NodeResourcesBalancedAllocation: how much closer the pod brings
// the requested shares of the resources to each other.
func (s *nodeScore) balanced(n *nodeResources, slot int) int64 {
	if s.pair && n.allocatable[cpu] != 0 && n.allocatable[memory] != 0 {
		after := deviationOfPair(
			share(n.requested[cpu]+s.request[cpu], n.allocatable[cpu]),
			share(n.requested[memory]+s.request[memory], n.allocatable[memory]))
		return improvement(n.nearness, nearness(after))
	}
	var with, without [4]float64 // large enough for most pods
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

// share returns the requested share of a resource, or 1 if more is requested than there is.
func share(requested, allocatable int64) float64 {
	return min(float64(requested)/float64(allocatable), 1)
}

// improvement returns the score for the nearness of the shares of a node before and with the pod.
func improvement(before, after int64) int64 {
	const half = fwk.MaxScore / 2
	return half + (half+after-before)/2
}

// nearness returns how near shares are to each other, by their deviation. It is fwk.MaxScore if all
// are equal.
func nearness(deviation float64) int64 { return int64((1 - deviation) * float64(fwk.MaxScore)) }

// deviation returns the standard deviation of shares. For two shares kube-scheduler uses a
// shortcut, and the result must equal its own.
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

// deviationOfPair returns half the distance.
func deviationOfPair(a, b float64) float64 { return math.Abs((a - b) / 2) }
