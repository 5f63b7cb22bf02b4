// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package top is the live view of `kubectl livesched top`:
//
//	Read ──> Data ──> model: keys, sizes and data ──> frame: text of the size of the terminal
//
// The model is a value that changes with messages only. The time is the time of the data.
package top

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

// Data is what one read found.
type Data struct {
	// Time is the time of the read.
	Time time.Time
	// Profiles are nil if they could not be read.
	Profiles []print.ProfileStatus
	// Decisions are the latest ones, the last one first, nil if they could not be read.
	Decisions []v1alpha1.Decision
	// Errors describe what could not be read.
	Errors []string
}

// pendingPods returns the number of pending pods of all profiles. known is false if no profile has
// a known number.
func (d *Data) pendingPods() (pods int32, known bool) {
	for i := range d.Profiles {
		pods += pending(&d.Profiles[i])
		known = known || d.Profiles[i].Pods != nil
	}
	return pods, known
}

// pending returns the number of pending pods of a profile, 0 if it is unknown.
func pending(p *print.ProfileStatus) int32 {
	if p.Pods == nil {
		return 0
	}
	return p.Pods.Pending()
}

// Read reads the data. Errors are part of it, so that one part can be shown without the other.
type Read func(context.Context) Data

// rateWindow is the longest time that rates are measured over.
const rateWindow = time.Minute

// rates returns the decisions and the placed pods a second, of all profiles and of each. They
// cover the last minute, or the time since the oldest decision if that is shorter.
func rates(d *Data) (all, placed float64, placedBy map[string]float64) {
	counts := map[string]int{}
	decided := 0
	oldest := d.Time
	for i := range d.Decisions {
		decision := &d.Decisions[i]
		if d.Time.Sub(decision.Time.Time) > rateWindow {
			oldest = d.Time.Add(-rateWindow)
			break
		}
		oldest = decision.Time.Time
		decided++
		if decision.Result == v1alpha1.DecisionBound || decision.Result == v1alpha1.DecisionBinding {
			counts[decision.Profile]++
		}
	}
	seconds := max(d.Time.Sub(oldest).Seconds(), 1)
	placedBy = map[string]float64{}
	for profile, count := range counts {
		placedBy[profile] = float64(count) / seconds
		placed += placedBy[profile]
	}
	return float64(decided) / seconds, placed, placedBy
}

// waiting are pods of one kind, or a group of pods, whose last decision gave them no node.
type waiting struct {
	pods          int
	name, profile string
	result        v1alpha1.DecisionResult
	attempts      int32
	last          time.Time
}

// generated is the end of a name that a controller generates for its pods: the hash of a ReplicaSet
// and a random text, the index in a Job and a random text, a random text, or an index.
var generated = regexp.MustCompile(`(-[0-9a-f]{8,10}|-\d+)?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-\d+$`)

// kindsThatWait returns the kinds of pods that wait, with the most pods first. Pods with the same
// namespace, profile, result, and name but for the generated end are of one kind. A group that was
// refused as a whole counts once.
func kindsThatWait(decisions []v1alpha1.Decision) []waiting {
	type key struct {
		name, profile string
		result        v1alpha1.DecisionResult
	}
	// Only the last decision about a pod counts, and only the last one about a group, which is
	// about the group as a whole or about its pods.
	seen, tried := map[string]bool{}, map[string]bool{}
	kinds := map[key]*waiting{}
	for i := range decisions {
		d := &decisions[i]
		id, group := string(d.PodUID), d.Namespace+"/podgroup/"+d.PodGroup
		ofGroup := id == ""
		if ofGroup {
			id = group
		}
		if seen[id] || d.PodGroup != "" && (seen[group] || ofGroup && tried[group]) {
			continue
		}
		seen[id], tried[group] = true, true
		if d.Pod == "" && !ofGroup || d.Result == v1alpha1.DecisionBound || d.Result == v1alpha1.DecisionBinding {
			continue
		}
		k := key{d.Namespace + "/" + d.Pod, d.Profile, d.Result}
		if end := generated.FindStringIndex(k.name); ofGroup {
			k.name = group
		} else if end != nil {
			k.name = k.name[:end[0]] + "-*"
		}
		if kinds[k] == nil {
			kinds[k] = &waiting{name: k.name, profile: k.profile, result: k.result}
		}
		w := kinds[k]
		w.pods++
		w.attempts = max(w.attempts, d.Attempt)
		if d.Time.After(w.last) {
			w.last = d.Time.Time
		}
	}
	var all []waiting
	for _, w := range slices.Collect(maps.Values(kinds)) {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.name, b.name), cmp.Compare(a.result, b.result),
			cmp.Compare(a.profile, b.profile))
	})
	return all
}
