// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suggest finds the names that a mistyped name may stand for.
//
//	Nearest("NodeResourceFit", names, 3)  ->  NodeResourcesFit
//	Nearest("gpu", resources, 3)          ->  nvidia.com/gpu
//	DidYouMean("bin-pack", profiles)      ->  ": did you mean binpack?"
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

const (
	// minSimilarity is the least similarity of a name that is suggested, as in Python's difflib.
	minSimilarity = 0.6
	// maxLength is the length of the longest word that is compared: the longest name in Kubernetes.
	maxLength = 253
	// maxSuggested is the number of names in DidYouMean.
	maxSuggested = 3
)

// Nearest returns up to limit of the candidates, without duplicates: the most similar to
// the word, the most similar first, and in alphabetical order if they are equally similar. It
// ignores case, and compares the part after the last slash of a candidate, too: resources and
// labels are often named without their prefix. It returns none if no candidate is similar.
func Nearest(word string, candidates []string, limit int) []string {
	type match struct {
		name       string
		similarity float64
	}
	if word == "" || len(word) > maxLength || limit < 1 {
		return nil
	}
	matcher := difflib.NewMatcherWithJunk(nil, characters(word), false, nil)
	var matches []match
	for _, name := range candidates {
		if s := similarity(matcher, name); s >= minSimilarity {
			matches = append(matches, match{name, s})
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.name, b.name))
	})
	matches = slices.Compact(matches)
	var nearest []string
	for _, m := range matches[:min(limit, len(matches))] {
		nearest = append(nearest, m.name)
	}
	return nearest
}

// DidYouMean returns the end of an error message about an unknown word, such as ": did you mean
// binpack?". It is empty if no candidate is similar.
func DidYouMean(word string, candidates []string) string {
	nearest := Nearest(word, candidates, maxSuggested)
	if len(nearest) == 0 {
		return ""
	}
	return ": did you mean " + OneOf(nearest) + "?"
}

// OneOf returns names in a sentence, such as "a, b or c".
func OneOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// similarity returns the similarity of a name and the word of the matcher, from 0 to 1.
func similarity(m *difflib.SequenceMatcher, name string) float64 {
	best := 0.0
	if len(name) <= maxLength {
		best = ratio(m, name)
	}
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 && len(name)-slash <= maxLength {
		best = max(best, ratio(m, name[slash+1:]))
	}
	return best
}

func ratio(m *difflib.SequenceMatcher, name string) float64 {
	m.SetSeq1(characters(name))
	if m.RealQuickRatio() < minSimilarity || m.QuickRatio() < minSimilarity {
		return 0
	}
	return m.Ratio()
}

func characters(word string) []string { return strings.Split(strings.ToLower(word), "") }
