// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/truncate"
)

// maxCause limits the length of a cause, in bytes. An object may have a longer one.
const maxCause = 1024

// ActivationOf describes the change by which the present spec of an object became active.
func ActivationOf(object client.Object, since time.Time) Activation {
	return Activation{
		Since: since, By: lastManager(object.GetManagedFields()),
		Cause: truncate.ToBytes(object.GetAnnotations()[AnnotationChangeCause], maxCause),
	}
}

// lastManager returns the field manager that changed the spec last, empty if that is not known. Of
// the managers that own a part of the spec, it is the one that has written last: the time of an
// entry changes when the manager writes any of its fields.
func lastManager(entries []metav1.ManagedFieldsEntry) string {
	var last *metav1.ManagedFieldsEntry
	for i := range entries {
		entry := &entries[i]
		if entry.Subresource != "" || entry.Time == nil || !ownsSpec(entry) {
			continue
		}
		if last == nil || !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	if last == nil {
		return ""
	}
	return last.Manager
}

// ownsSpec returns whether an entry has a field of the spec.
func ownsSpec(entry *metav1.ManagedFieldsEntry) bool {
	var fields struct {
		Spec json.RawMessage `json:"f:spec"`
	}
	return entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec != nil
}
