// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/livesched/livesched/api/v1alpha1"
)

// partTime limits how long the overview waits for a part. The next poll of the part waits longer.
const partTime = 3 * time.Second

// overviewView is the first page.
type overviewView struct {
	Namespace string
	Verdict   part[verdictView]
	Kinds     part[kindsView]
	Health    part[healthView]
	Profiles  part[[]profileRow]
	Room      part[roomView]
}

// overview loads all parts of the first page at the same time.
func (h *handler) overview(r *http.Request, s Source) answer {
	ctx, cancel := context.WithTimeout(r.Context(), partTime)
	defer cancel()
	q := r.URL.Query()
	v := overviewView{Namespace: namespaceOf(r)}
	var loads sync.WaitGroup
	loads.Go(func() { v.Verdict = loadVerdict(ctx, s, v.Namespace) })
	loads.Go(func() { v.Kinds = loadKinds(ctx, s, v.Namespace, q.Get("all") != "") })
	loads.Go(func() { v.Health = h.loadHealth(ctx, s, q.Get("last")) })
	loads.Go(func() { v.Profiles = loadProfiles(ctx, s) })
	loads.Go(func() { v.Room = loadRoom(ctx, s, v.Namespace, q.Get("resource")) })
	loads.Wait()
	return answer{page: "overview", title: "Overview", data: v}
}

func (h *handler) profilesPart(r *http.Request, s Source) answer {
	return answer{part: "profiles", data: loadProfiles(r.Context(), s)}
}

func loadProfiles(ctx context.Context, s Source) part[[]profileRow] {
	profiles, err := s.Profiles(ctx)
	if err != nil {
		return partOf([]profileRow{}, err)
	}
	return part[[]profileRow]{Data: rowsOf(profiles)}
}

func rowsOf(profiles []v1alpha1.SchedulerProfile) []profileRow {
	rows := make([]profileRow, 0, len(profiles))
	for i := range profiles {
		rows = append(rows, profileRowOf(&profiles[i]))
	}
	return rows
}
