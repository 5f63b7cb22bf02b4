// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"testing"
)

// TestPseudonymsAreKnown redacts a snapshot, and finds all its objects by their names.
func TestPseudonymsAreKnown(t *testing.T) {
	in := fullOfMarkers(t, 5)
	plain, err := Read(compressed(t, plainText(t, in, false)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	names, err := Redact(t.Context(), &file, plain)
	if err != nil {
		t.Fatal(err)
	}
	written := bytes.Clone(file.Bytes())
	redacted, err := Read(&file, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if !redacted.Header.Redacted || len(redacted.Pods) != len(plain.Pods) ||
		len(redacted.Decisions) != len(plain.Decisions) ||
		len(redacted.PodGroups) != len(plain.PodGroups) || len(redacted.Profiles) != len(plain.Profiles) {
		t.Errorf("%+v, %d pods, %d decisions, %d PodGroups, %d profiles", redacted.Header, len(redacted.Pods),
			len(redacted.Decisions), len(redacted.PodGroups), len(redacted.Profiles))
	}
	for i, pod := range redacted.Pods {
		was := plain.Pods[i]
		if pod.Name == was.Name || names[pod.Name] != was.Name || names[pod.Namespace] != was.Namespace ||
			names[pod.Spec.NodeName] != was.Spec.NodeName {
			t.Errorf("%s/%s on %s was %s/%s", pod.Namespace, pod.Name, pod.Spec.NodeName, was.Namespace, was.Name)
		}
	}
	named, err := ReadWithNames(bytes.NewReader(written), DefaultLimits, names)
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range named.Pods {
		if was := plain.Pods[i]; pod.Name != was.Name || pod.Namespace != was.Namespace ||
			pod.Spec.NodeName != was.Spec.NodeName {
			t.Errorf("%s/%s on %s was %s/%s", pod.Namespace, pod.Name, pod.Spec.NodeName, was.Namespace, was.Name)
		}
	}
	for pseudonym, name := range names {
		if pseudonym == "" || name == "" || words().Has(name) {
			t.Errorf("%q stands for %q", pseudonym, name)
		}
	}
	if _, err := Redact(t.Context(), &file, redacted); err == nil {
		t.Error("a redacted snapshot was redacted again")
	}
}
