// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import "time"

// windowSeconds is the length of a window.
const windowSeconds = 2

// The names of the values of windows: what is different while livesched is asked. The rates of two
// runs on a shared machine differ by more than questions cost, those of windows that take turns do
// not.
const (
	// askedRate is the rate of bound pods with questions, divided by that without.
	askedRate = "pods/s asked:not"
	// askedDecision is the mean time of a decision with questions, divided by that without.
	askedDecision = "decision asked:not"
	// askedCPU is the CPU time that the scheduler uses more with questions, each second.
	askedCPU = "questions' CPU ms/s"
	// firstPage and largestPage are the median time of the first page of the dashboard, with all
	// its parts, and its largest size without compression.
	firstPage, largestPage = "first page ms", "first page kB"
)

// sample is the state at the beginning or the end of a window. pods are those bound so far.
type sample struct {
	time  time.Time
	pods  int
	usage usage
}

// windows are the parts of a run with questions, and those without, in turn.
type windows struct{ asked, silent stretch }

// stretch sums up windows.
type stretch struct {
	time, cpu time.Duration
	pods      int
	decisions decisions
}

// add adds a window.
func (w *windows) add(asked bool, before, after sample) {
	s := &w.silent
	if asked {
		s = &w.asked
	}
	s.time += after.time.Sub(before.time)
	s.cpu += after.usage.CPU - before.usage.CPU
	s.pods += after.pods - before.pods
	more := after.usage.decisions.since(before.usage.decisions)
	s.decisions.count, s.decisions.total = s.decisions.count+more.count, s.decisions.total+more.total
}

// values returns the figures. There are none if a run was too short for both kinds of windows.
func (w *windows) values() map[string]float64 {
	a, s := w.asked, w.silent
	if a.pods == 0 || s.pods == 0 || a.decisions.count == 0 || s.decisions.total == 0 {
		return nil
	}
	return map[string]float64{
		askedRate:     (float64(a.pods) / a.time.Seconds()) / (float64(s.pods) / s.time.Seconds()),
		askedDecision: a.decisions.mean() / s.decisions.mean(),
		askedCPU:      milliseconds(a.cpu)/a.time.Seconds() - milliseconds(s.cpu)/s.time.Seconds(),
	}
}
