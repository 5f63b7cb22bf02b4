// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// plan is a world.Plan as JSON: numbers, and maps of numbers. What the fields mean does not matter,
// but for the seed, which stays, and for those of the map Actors: an actor acts each so many
// seconds, so that it does less if its number is larger.
type plan map[string]any

const (
	seedField = "Seed"
	actors    = "Actors"
	// longest is how many seconds there are at most between two acts of an actor.
	longest = 3600
)

func parsePlan(text []byte) (p plan, err error) {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber() // a seed has 64 bits
	return p, decoder.Decode(&p)
}

func (p plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it comes from JSON
	}
	return string(text)
}

// clone returns a copy of the plan and its maps.
func (p plan) clone() plan {
	other := maps.Clone(p)
	for name, value := range other {
		if values, ok := value.(map[string]any); ok {
			other[name] = maps.Clone(values)
		}
	}
	return other
}

// number returns a value that is an integer.
func number(value any) (n int64, ok bool) {
	text, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := text.Int64()
	return n, err == nil
}

// set returns a copy of the plan with a number in a field, or in a map that is in a field.
func (p plan) set(field, key string, n int64) plan {
	other, value := p.clone(), json.Number(strconv.FormatInt(n, 10))
	if key == "" {
		other[field] = value
	} else {
		other[field].(map[string]any)[key] = value
	}
	return other
}

// smaller returns plans that do less than a plan in one way each, those that do much less first.
func (p plan) smaller() (all []plan) {
	fields := slices.Sorted(maps.Keys(p))
	for _, field := range fields { // nothing of a kind
		if values, ok := p[field].(map[string]any); ok && len(values) > 1 {
			other := p.clone()
			other[field] = map[string]any{}
			all = append(all, other)
		}
	}
	for _, field := range fields {
		values, _ := p[field].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			other := p.clone()
			delete(other[field].(map[string]any), key)
			all = append(all, other)
		}
	}
	for _, field := range fields {
		if n, ok := number(p[field]); ok && field != seedField {
			for _, fewer := range steps(n) {
				all = append(all, p.set(field, "", fewer))
			}
		}
	}
	for _, field := range fields {
		values, _ := p[field].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			switch n, ok := number(values[key]); {
			case !ok:
			case field == actors && n > 0 && n < longest:
				all = append(all, p.set(field, key, min(2*n, longest)))
			case field != actors && n > 1:
				all = append(all, p.set(field, key, n/2))
			}
		}
	}
	return all
}

// steps returns numbers between one and n: the least, the half, and the next.
func steps(n int64) (all []int64) {
	if n < 2 {
		return nil
	}
	all = []int64{1, n / 2, n - 1}
	return slices.Compact(all)
}

// shrink returns a plan that does less and still fails: none of those that do less in one more way
// does, unless the tries were used up. tries are how many plans may be tried, and some at a time.
// fails returns for each of some plans whether it fails.
func shrink(p plan, tries, some int, fails func([]plan) []bool) plan {
	tried := map[string]bool{}
	for {
		next := slices.DeleteFunc(p.smaller(), func(other plan) bool { return tried[other.String()] })
		found := false
		for len(next) > 0 && !found {
			if tries <= 0 {
				return p
			}
			batch := next[:min(len(next), some, tries)]
			next = next[len(batch):]
			tries -= len(batch)
			failed := fails(batch)
			for _, other := range batch {
				tried[other.String()] = true
			}
			if i := slices.Index(failed, true); i >= 0 {
				p, found = batch[i], true
			}
		}
		if !found {
			return p
		}
	}
}
