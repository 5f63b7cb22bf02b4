// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// settings are the settings of a run, from the environment.
type settings struct {
	// length is how long the actors act, without the pauses for settling. CHURN_LENGTH; the default
	// suits `make test`.
	length time.Duration
	// isDefault is set if CHURN_LENGTH is not.
	isDefault bool
	// round is how long they act before the cluster must settle.
	round time.Duration
	// seed is the seed of the actors' random numbers. CHURN_SEED; the default differs for each run.
	seed uint64
	// previous is the program of a second version of livesched. CHURN_PREVIOUS; empty: there is one
	// version.
	previous string
	// log is a file for everything that is logged. CHURN_LOG; empty: no file.
	log string
}

const (
	defaultLength = 20 * time.Second
	longRound     = 40 * time.Second
	shortRound    = 10 * time.Second
)

// isLong reports whether there is time for faults that take long.
func (s settings) isLong() bool { return s.length > 2*time.Minute }

func readSettings() (settings, error) {
	s := settings{length: defaultLength, isDefault: true, round: shortRound, seed: rand.Uint64(),
		log: os.Getenv("CHURN_LOG"), previous: os.Getenv("CHURN_PREVIOUS")}
	if v := os.Getenv("CHURN_LENGTH"); v != "" {
		length, err := time.ParseDuration(v)
		if err != nil || length <= 0 {
			return s, fmt.Errorf("CHURN_LENGTH=%q: must be a duration, such as 10m", v)
		}
		s.length, s.isDefault = length, false
	}
	if s.isLong() {
		s.round = longRound
	}
	if v := os.Getenv("CHURN_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return s, fmt.Errorf("CHURN_SEED=%q: must be a number, as an earlier run has logged it", v)
		}
		s.seed = seed
	}
	return s, nil
}
