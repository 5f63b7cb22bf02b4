// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Requests is an API server that answers every request with success and records the writes. Several
// goroutines may use it.
type Requests struct {
	client *fakeclient.Clientset

	mu      sync.Mutex // guards the fields below
	writes  []string
	deletes int
}

func newRequests() *Requests {
	s := &Requests{client: &fakeclient.Clientset{}}
	s.client.AddReactor("*", "*", s.react)
	return s
}

func (s *Requests) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := action.(type) {
	case clienttesting.PatchAction:
		s.writes = append(s.writes, fmt.Sprintf("patch %s/%s %s/%s %s",
			a.GetResource().Resource, a.GetSubresource(), a.GetNamespace(), a.GetName(), bare(a.GetPatch())))
	case clienttesting.DeleteAction:
		s.deletes++
		s.writes = append(s.writes,
			fmt.Sprintf("delete %s %s/%s", a.GetResource().Resource, a.GetNamespace(), a.GetName()))
	default:
		s.writes = append(s.writes, fmt.Sprintf("%s %s", a.GetVerb(), a.GetResource().Resource))
	}
	return false, nil, nil
}

// bare removes from a patch the times, which differ between two runs, and the UID with which
// livesched ensures that it patches no other pod of the same name.
func bare(patch []byte) string {
	var value any
	if err := json.Unmarshal(patch, &value); err != nil {
		return err.Error()
	}
	var drop func(any)
	drop = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "lastTransitionTime")
			if meta, ok := v["metadata"].(map[string]any); ok && len(meta) == 1 && meta["uid"] != nil {
				delete(v, "metadata")
			}
			for _, child := range v {
				drop(child)
			}
		case []any:
			for _, child := range v {
				drop(child)
			}
		}
	}
	drop(value)
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// Deleted returns the number of deletions since the last Take.
func (s *Requests) Deleted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deletes
}

// Take returns the writes since the last Take, sorted: victims are evicted in parallel.
func (s *Requests) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.writes
	s.writes, s.deletes = nil, 0
	slices.SortFunc(writes, strings.Compare)
	return writes
}
