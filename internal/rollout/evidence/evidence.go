// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence measures how strongly what was observed of a roll-out speaks against the new
// revision.
//
//	Paired   both revisions decide about the same pods; only decisions in which they differ count
//	Owners   each owner of pods has one revision; only owners that failed count
//
// The measure is an e-value. If the new revision is no worse than the old one, an e-value is 1
// or less on average, whenever one looks at it, and so it ever reaches 1/alpha with a
// probability of at most alpha: one may look after each observation, and stop at any time. It
// can be read as a bet: "14 : 1 that the new revision is worse" has won 14 times its stake.
//
// E-values of different runs, such as those of two leaders, may be multiplied. Those of m tests are
// compared with m/alpha.
//
// Sources: A. Ramdas, P. Grünwald, V. Vovk, G. Shafer, Game-theoretic statistics and safe
// anytime-valid inference, Statistical Science 38 (2023), arXiv:2210.01948; R. Turner, A. Ly,
// P. Grünwald, Generic E-variables for exact sequential k-sample tests that allow for optional
// stopping, JSPI 230 (2024), arXiv:2106.02693.
package evidence

import "math"

// Paired counts decisions about the same pods in which two revisions differ: one of them finds a
// node and the other does not, for example. The zero Paired has seen none.
type Paired struct {
	// Differing is how many of them there were, and Against is in how many the new revision was
	// worse.
	Differing, Against int
}

// E returns the e-value against "the new revision is not worse more often than better". Under it,
// each decision in which they differ is a fair coin, at worst. The bet is spread evenly over all
// coins that show the worse side more often.
//
// It takes 7 decisions, all of them against the new revision, to reach 20, and 9 to reach 100.
func (p Paired) E() float64 {
	n, k := float64(p.Differing), float64(p.Against)
	// The integral of p^k (1-p)^(n-k) from 1/2 to 1, over its mean density of 2, and (1/2)^n.
	return math.Exp((n+1)*math.Ln2 + logBeta(k+1, n-k+1) + logAtMost(p.Against, p.Differing+1))
}

// logBeta returns the logarithm of the beta function.
func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}

// logAtMost returns the logarithm of the probability that n fair coins show at most k heads.
// That is also the part of the beta distribution (k+1, n-k) above 1/2.
func logAtMost(k, n int) float64 {
	sum := math.Inf(-1)
	for i := range k + 1 {
		sum = logSum(sum, logChoose(n, i)-float64(n)*math.Ln2)
	}
	return min(sum, 0)
}

func logChoose(n, k int) float64 {
	return -math.Log(float64(n+1)) - logBeta(float64(n-k+1), float64(k+1))
}

// logSum returns log(exp(a) + exp(b)).
func logSum(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
