// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// Revision is the output for one revision.
type Revision struct {
	// Number of the revision in the history, and its name as status has it.
	Number   int64  `json:"number"`
	Revision string `json:"revision"`
	Active   bool   `json:"active"`
	// ActiveSince is when the revision became active last.
	ActiveSince time.Time `json:"activeSince,omitzero"`
	// By is the field manager of the change, and ChangeCause the annotation
	// kubernetes.io/change-cause.
	By          string    `json:"by,omitempty"`
	ChangeCause string    `json:"changeCause,omitempty"`
	Created     time.Time `json:"created"`
	Generation  int64     `json:"generation"`
	// Name of the ControllerRevision.
	Name string `json:"name"`
	// Manifests restore the revision when they are applied: the policy of a profile comes first.
	Manifests []any `json:"manifests"`
	// Policy describes the policy that the revision has, "" if it has none.
	Policy string `json:"-"`
}

// Revisions prints the revisions of a profile, or of a policy.
func Revisions(w io.Writer, revisions []Revision, ofProfile, wide bool) error {
	header := []string{"NUMBER", "REVISION", "ACTIVE SINCE", "BY"}
	if wide {
		header = append(header, "GENERATION", "CREATED")
	}
	if wide && ofProfile {
		header = append(header, "POLICY")
	}
	header = append(header, "CHANGE-CAUSE")
	var rows [][]string
	for i := range revisions {
		rows = append(rows, revisions[i].row(ofProfile, wide))
	}
	if !wide {
		rows = terminal.Of(w).Fit(header, rows, len(header)-1, len(header)-2)
	}
	return Table(w, header, rows)
}

func (r *Revision) row(ofProfile, wide bool) []string {
	number, since := fmt.Sprint(r.Number), None
	if r.Active {
		number += " *"
	}
	if !r.ActiveSince.IsZero() {
		since = duration.HumanDuration(time.Since(r.ActiveSince))
	}
	row := []string{number, r.Revision, since, cmp.Or(r.By, None)}
	if wide {
		row = append(row, fmt.Sprint(r.Generation), duration.HumanDuration(time.Since(r.Created)))
	}
	if wide && ofProfile {
		row = append(row, cmp.Or(r.Policy, "built-in defaults"))
	}
	return append(row, cmp.Or(r.ChangeCause, None))
}
