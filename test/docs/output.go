// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
)

// Shows reports whether an output on a page is what a command has printed. "..." on the page stands
// for any number of lines, or for the rest of one. What differs from run to run is not compared;
// see steady.
func Shows(page, printed string) bool {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	anywhere := false
	for want := range strings.Lines(strings.TrimSpace(page)) {
		want = strings.TrimRight(want, " \n")
		if want == "..." {
			anywhere = true
			continue
		}
		for len(lines) > 0 && anywhere && !sameLine(want, lines[0]) {
			lines = lines[1:]
		}
		if len(lines) == 0 || !sameLine(want, lines[0]) {
			return false
		}
		lines, anywhere = lines[1:], false
	}
	return len(lines) == 0 || anywhere
}

func sameLine(want, line string) bool {
	if beginning, cut := strings.CutSuffix(want, "..."); cut {
		return strings.HasPrefix(steady(line), steady(beginning))
	}
	return steady(line) == steady(want)
}

var (
	// A number of seconds and so on. Quantities of CPU in thousandths look the same.
	duration = regexp.MustCompile(`\b([0-9]+(\.[0-9]+)?(ms|µs|h|m|s))+\b`)
	address  = regexp.MustCompile(`\b[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+(:[0-9]+)?\b`)
	// The names that a Deployment gives its pods, and those of the nodes of the quickstart and of
	// the tutorials: equal nodes are chosen at random.
	replica  = regexp.MustCompile(`\b([a-z][a-z0-9]*)-[a-z0-9]{8,10}-[a-z0-9]{5}\b`)
	nodeName = regexp.MustCompile(`\b(node-[0-9]{4}|gpu-[0-9])\b`)
	spaces   = regexp.MustCompile(`\s+`)
)

// steady returns a line of output without what differs from run to run.
func steady(line string) string {
	line = address.ReplaceAllString(line, "ADDRESS")
	line = replica.ReplaceAllString(line, "$1-POD")
	line = nodeName.ReplaceAllString(line, "NODE")
	line = duration.ReplaceAllString(line, "TIME")
	return strings.TrimSpace(spaces.ReplaceAllString(line, " "))
}

var (
	bars     = regexp.MustCompile(`[▁▂▃▄▅▆▇█…]+`)
	revision = regexp.MustCompile(`\b[a-z0-9]{10}\b`)
	number   = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(ms|µs|s|m)?`)
	blanks   = regexp.MustCompile(` +`)
)

// Words returns the transcript of a tour without its numbers: of equal nodes, a pod gets any.
func Words(transcript string) string {
	for _, part := range []*regexp.Regexp{bars, revision, number, blanks} {
		transcript = part.ReplaceAllString(transcript, " ")
	}
	return strings.TrimSpace(transcript)
}
