// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// revisionsOf returns the active revisions by the names of the profiles.
func revisionsOf(m *profile.Map) map[string]string {
	revisions := map[string]string{}
	for p := range m.All() {
		revisions[p.Config.Name] = p.Config.Revision
	}
	return revisions
}

// reloadsBetween returns what differs between active revisions, by name.
func reloadsBetween(before, after map[string]string, now time.Time) (reloads []v1alpha1.ProfileReload) {
	at := metav1.NewTime(now)
	for name, revision := range after {
		if before[name] != revision {
			reloads = append(reloads, v1alpha1.ProfileReload{Time: at, Profile: name, Revision: revision})
		}
	}
	for name := range before {
		if after[name] == "" {
			reloads = append(reloads, v1alpha1.ProfileReload{Time: at, Profile: name})
		}
	}
	slices.SortFunc(reloads, func(a, b v1alpha1.ProfileReload) int { return cmp.Compare(a.Profile, b.Profile) })
	return reloads
}
