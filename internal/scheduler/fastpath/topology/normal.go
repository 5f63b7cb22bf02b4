// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// maxNormals bounds the range of scores whose normalized values are remembered.
const maxNormals = 4096

// normals remembers the normalized value of each raw score: nodes have few different scores, and a
// division costs more than the rest.
type normals struct{ known []int8 }

// apply normalizes scores between lowest and highest. normal must return 0 to 100.
func (n *normals) apply(scores []int64, lowest, highest int64, normal func(score int64) int64) {
	if highest-lowest >= maxNormals {
		for i, score := range scores {
			scores[i] = normal(score)
		}
		return
	}
	n.known = append(n.known[:0], unknownNormals[:highest-lowest+1]...)
	for i, score := range scores {
		known := n.known[score-lowest]
		if known < 0 {
			known = int8(normal(score))
			n.known[score-lowest] = known
		}
		scores[i] = int64(known)
	}
}

var unknownNormals = func() (unknown [maxNormals]int8) {
	for i := range unknown {
		unknown[i] = -1
	}
	return unknown
}()
