// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

func TestRevisionsAreStoredInTheNamespaceOfTheLeaseByDefault(t *testing.T) {
	for _, test := range []struct{ revisions, lease, want string }{
		{"", "", "default"}, // tests do not run in a pod
		{"", "lease", "lease"},
		{"own", "lease", "own"},
		{"own", "", "own"},
	} {
		o := NewOptions()
		o.RevisionNamespace, o.LeaderElectionNamespace = test.revisions, test.lease
		if got := o.revisionNamespace(); got != test.want {
			t.Errorf("--revision-namespace=%s --leader-election-namespace=%s: %q, want %q", test.revisions, test.lease,
				got, test.want)
		}
	}
}
