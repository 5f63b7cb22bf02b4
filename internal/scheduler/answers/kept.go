// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import "time"

const (
	// keptPerWork is how much longer than it took to make an answer the answer is kept: so
	// questions that many people ask take no more than half a percent of a CPU, however large the
	// cluster is.
	keptPerWork = 200
	// keptAtMost limits that.
	keptAtMost = 30 * time.Second
)

// keepUntil returns until when an answer is kept that took from began until now to make.
func (a *Answers) keepUntil(began time.Time, atLeast time.Duration) time.Time {
	now := a.Clock.Now()
	return now.Add(max(atLeast, min(keptPerWork*now.Sub(began), keptAtMost)))
}
