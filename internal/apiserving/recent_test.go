// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// An explanation that was made for one request answers the next ones that allow for its age, each
// with what its user may see.
func TestAnExplanationMayHaveAnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		explain := func(_ context.Context, _, name, node string) (*v1alpha1.PodExplanation, error) {
			made++
			e := &v1alpha1.PodExplanation{Message: name, Bound: &v1alpha1.BoundExplanation{
				Top: []v1alpha1.NodeScore{{Node: "other-node"}}}}
			if node != "" {
				e.Node = &v1alpha1.NodeExplanation{Name: node}
			}
			return e, nil
		}
		h := handler(fakes{explainer: explain}, mayList{nodes: true, pods: true})
		for _, step := range []struct {
			name, query string
			wait        time.Duration
			made        int
		}{
			{"the first", "?maxAge=30s", 0, 1},
			{"a later one", "?maxAge=30s", 30 * time.Second, 1},
			{"one that is too old", "?maxAge=30s", time.Second, 2},
			{"without an age", "", 0, 3},
			{"no age", "?maxAge=0s", 0, 4},
			{"a node", "?maxAge=30s&node=n", 0, 5},
			{"the one before that", "?maxAge=30s", 0, 5},
		} {
			time.Sleep(step.wait) //nolint:forbidigo // of the bubble
			if answer := get(h, path+step.query); answer.Code != http.StatusOK || made != step.made {
				t.Errorf("%s: %d explanations were made, want %d: %s", step.name, made, step.made, answer.Body)
			}
		}
		if answer := get(h, strings.Replace(path, "train-7", "train-8", 1)+"?maxAge=30s"); made != 6 {
			t.Errorf("another pod got %s", answer.Body)
		}
		h.authorizer = mayList{pods: true}
		if answer := get(h, path+"?maxAge=30s").Body.String(); made != 6 || strings.Contains(answer, "other-node") {
			t.Errorf("a user who may not list nodes sees %s", answer)
		}
		h.authorizer = mayList{nodes: true, pods: true}
		if answer := get(h, path+"?maxAge=30s").Body.String(); !strings.Contains(answer, "other-node") {
			t.Errorf("the names of nodes are lost: %s", answer)
		}
		for _, age := range []string{"old", "-1s"} {
			if got := statusIn(t, get(h, path+"?maxAge="+age)); got.Reason != metav1.StatusReasonBadRequest {
				t.Errorf("%s: %+v", age, got)
			}
		}
	})
}
