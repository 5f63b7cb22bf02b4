// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// own is the user that the replica in these tests is.
const own = "system:serviceaccount:livesched-system:livesched"

// users is an API server that takes each token for the name of its user, permits everything to all
// but those in refused, and has one ConfigMap. Any goroutine may ask it; mu guards asked.
type users struct {
	refused []string
	config  *corev1.ConfigMap

	mu    sync.Mutex
	asked []authorizationv1.SubjectAccessReviewSpec
}

func (u *users) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var answer any
	switch path.Base(r.URL.Path) {
	case "tokenreviews":
		review := &authenticationv1.TokenReview{}
		_ = json.Unmarshal(text, review)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: review.Spec.Token}}
		answer = review
	case "selfsubjectreviews":
		answer = &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{
			UserInfo: authenticationv1.UserInfo{Username: own}}}
	case "subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		_ = json.Unmarshal(text, review)
		u.mu.Lock()
		u.asked = append(u.asked, review.Spec)
		u.mu.Unlock()
		review.Status.Allowed = !slices.Contains(u.refused, review.Spec.User)
		answer = review
	case "configmaps":
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusNotImplemented) // it lists again
			return
		}
		list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		if u.config != nil {
			list.Items = append(list.Items, *u.config)
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (u *users) guard(t *testing.T, o Options) *Guard {
	t.Helper()
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	client, err := clientset.NewForConfig(&rest.Config{Host: server.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lastAsked returns whose right was asked for last.
func (u *users) lastAsked() authorizationv1.SubjectAccessReviewSpec {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.asked) == 0 {
		return authorizationv1.SubjectAccessReviewSpec{}
	}
	return u.asked[len(u.asked)-1]
}
