// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// progress tells on standard error how far a run is.
type progress struct {
	began            time.Time
	turns, doneTurns int
	size, doneSize   int
}

// turnSize is the size that a turn has beside its nodes and pods: the start of a control plane
// takes as long as some thousand of them.
const turnSize = 5000

func newProgress(work []*turn) *progress {
	p := &progress{began: time.Now(), turns: len(work)}
	for _, t := range work {
		p.size += t.size() + turnSize
	}
	return p
}

func (p *progress) begin(t *turn) {
	left := "the time left is not known yet"
	if p.doneSize > 0 {
		left = "about " + p.left().Round(time.Second).String() + " left"
	}
	fmt.Fprintf(os.Stderr, "[%d/%d, %s] %s with %s ...\n", p.doneTurns+1, p.turns, left, t.name(), t.contender)
}

func (p *progress) left() time.Duration {
	return time.Duration(float64(time.Since(p.began)) * float64(p.size-p.doneSize) / float64(p.doneSize))
}

func (p *progress) end(t *turn, o outcome) {
	p.doneTurns++
	p.doneSize += t.size() + turnSize
	result := o.status
	for _, c := range o.collections {
		result += fmt.Sprintf(", %d pods", c.scheduledSoFar())
		rate := c.samples.average()
		if math.IsNaN(rate) {
			rate = c.whole()
		}
		if !math.IsNaN(rate) {
			result += fmt.Sprintf(" at %.0f pods/s", rate)
		}
	}
	if o.note != "" {
		result += ": " + o.note
	}
	fmt.Fprintf(os.Stderr, "    %s, %s in all\n", result, o.total.Round(time.Second))
}

// list prints workloads with their sizes, and why contenders do not run them.
func list(to io.Writer, workloads []*workload, within limits) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "topic\tworkload\tlabels\tnodes and pods\tnotes")
	for _, of := range workloads {
		p, err := of.plan(within)
		if err != nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t\tcannot run: %v\n", of.of.topic, of.name(),
				strings.Join(of.labels(), ","), err)
			continue
		}
		notes := p.reduced
		for _, name := range contenders {
			if reason := p.skipped(name); reason != "" {
				notes = append(notes, "no "+name+": "+reason)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", of.of.topic, of.name(), strings.Join(of.labels(), ","), p.size(),
			strings.Join(notes, "; "))
	}
	return w.Flush()
}
