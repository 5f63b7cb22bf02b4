// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"

	"github.com/livesched/livesched/api/v1alpha1"
)

// listedPods is how many pods of a kind its page lists.
const listedPods = 300

// kindView is the page of a kind, with its pods.
type kindView struct {
	Namespace, ID string
	Kind          *kindRow // nil if no pod of the kind waits
}

// kindPage lists the pods of a kind. It stays when the last of them has gone.
func (h *handler) kindPage(r *http.Request, s Source) answer {
	v := loadKind(r.Context(), s, r.PathValue("namespace"), r.PathValue("id"))
	a := answer{page: "kind", title: "Pending pods of a kind", data: v}
	switch {
	case v.Problem != nil:
		a.status = v.Problem.Status
	case v.Data.Kind != nil:
		a.title = "Pending pods of " + v.Data.Kind.Name
	}
	return a
}

func (h *handler) kindPart(r *http.Request, s Source) answer {
	return answer{part: "kind-pods", data: loadKind(r.Context(), s, r.PathValue("namespace"), r.PathValue("id"))}
}

func loadKind(ctx context.Context, s Source, namespace, id string) part[kindView] {
	v := kindView{Namespace: namespace, ID: id}
	list, err := s.PendingPods(ctx, namespace, id, listedPods)
	if err == nil && len(list.Items) > 0 {
		row := rowOf(&list.Items[0])
		v.Kind = &row
	}
	return partOf(v, err)
}

// placeNames are the names of places in the queue for readers.
var placeNames = map[string]string{"Active": "active", "Backoff": "back-off", "ErrorBackoff": "back-off after an error",
	"Unschedulable": "unschedulable", "Gated": "gated", "InFlight": "being decided"}

// placeName tells where a pod is in the queue. A place of a newer livesched stands for itself.
func placeName(p v1alpha1.PendingPod) string {
	if name, known := placeNames[p.Place]; known {
		return name
	}
	return p.Place
}
