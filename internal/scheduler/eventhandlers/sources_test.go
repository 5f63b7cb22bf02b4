// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

func TestConcurrentBuildsShareTheSourceOfANewResource(t *testing.T) {
	s := NewSources(nil, nil)
	if s.join(fwk.StorageClass, nil) {
		t.Fatal("there is a source that nobody made")
	}
	first, second := &source{}, &source{}
	if s.join(fwk.StorageClass, first) {
		t.Error("the first one to listen finds a source")
	}
	if !s.join(fwk.StorageClass, second) {
		t.Error("the second one does not find the source that was made meanwhile")
	}
	if !s.join(fwk.StorageClass, nil) {
		t.Error("a later one does not find the source")
	}
	if got := s.sources[fwk.StorageClass]; got != first || got.users != 3 {
		t.Errorf("the source is the first one: %v, and has %d users, want 3", got == first, got.users)
	}
}
