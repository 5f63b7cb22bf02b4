// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
)

// groupView is the page of a pod group.
type groupView struct {
	Namespace string
	Name      string
	// Kinds are those of its pending pods, and Explanation is that of the first of these pods,
	// which has how many pods of the group fit together.
	Kinds       part[[]kindRow]
	Explanation *part[explanationView]
	Decisions   part[decisionsView]
}

// groupPage explains why the pods of a pod group wait.
func (h *handler) groupPage(r *http.Request, s Source) answer {
	v := groupView{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	list, err := s.PendingKinds(r.Context(), v.Namespace, mostKinds)
	v.Kinds = partOf([]kindRow{}, err)
	if err == nil {
		for i := range list.Items {
			if list.Items[i].PodGroup == v.Name {
				v.Kinds.Data = append(v.Kinds.Data, rowOf(&list.Items[i]))
			}
		}
	}
	if len(v.Kinds.Data) > 0 {
		first := &v.Kinds.Data[0]
		explanation := h.loadExplanation(r.Context(), s, first.Namespace, first.Pod, "")
		v.Explanation = &explanation
	}
	v.Decisions = loadDecisionsOf(r.Context(), s, byGroup, v.Namespace+"/"+v.Name)
	if err == nil && v.Decisions.Problem == nil && len(v.Kinds.Data)+len(v.Decisions.Data.Rows) == 0 {
		return notFound("No pod of this group waits, and livesched remembers no decision about one.")
	}
	return answer{page: "group", title: "Pod group " + v.Namespace + "/" + v.Name, data: v}
}
