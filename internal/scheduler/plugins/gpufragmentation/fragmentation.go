// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// whole is a whole GPU. Parts of GPUs are in thousandths.
const whole = 1000

// gpu is a GPU of a node.
type gpu struct {
	// free is how much of it is not allocated, in thousandths.
	free  int64
	model string
	// capacity is the capacity that claims share, 0 if the GPU is allocated as a whole. usual is
	// what a claim gets of it that does not say how much it needs.
	capacity, usual int64
}

// podType is a typical pod.
type podType struct {
	cpu  int64 // in thousandths
	gpus int
	// share is what it needs of each GPU, in thousandths.
	share      int64
	models     []string // nil: all
	popularity float64
}

// fragment returns how much of the free GPUs of a node is of no use for the typical pod, in
// thousandths: all of it if the pod does not fit, else the GPUs that have too little left or are of
// another model. A pod without GPUs uses none.
func (t *podType) fragment(cpu int64, gpus []gpu) int64 {
	var free, unusable int64
	usable := 0
	for i := range gpus {
		g := &gpus[i]
		free += g.free
		if g.free < t.share || len(t.models) > 0 && !slices.Contains(t.models, g.model) {
			unusable += g.free
			continue
		}
		usable++
	}
	if t.gpus == 0 || usable < t.gpus || cpu < t.cpu {
		return free
	}
	return unusable
}

// fragmentation returns the expected fragment of a node for a pod drawn from the typical ones.
func fragmentation(types []podType, cpu int64, gpus []gpu) (expected float64) {
	for i := range types {
		expected += types[i].popularity * float64(types[i].fragment(cpu, gpus))
	}
	return expected
}

// scoreOf returns the score of a node whose fragmentation changes: half of the highest score if it
// stays the same, more if it becomes less.
func scoreOf(before, after float64) int64 {
	less := (before - after) / whole
	return int64(float64(fwk.MaxScore) / (1 + math.Exp(-less)))
}
