// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// changedBy is an annotation that admission adds.
const changedBy = "admission.example.com/request"

// change changes the body of a write, as a webhook does: it adds an annotation with another value
// each time. The client gets to see in the answer what was stored.
func (w *World) change(x *exchange) {
	w.counts["requests changed"]++
	value := fmt.Sprint(w.counts["requests changed"])
	var fields map[string]any
	if json.Unmarshal(x.body, &fields) != nil {
		fields = fieldsOf(x.body)
	}
	if fields == nil {
		return
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[changedBy] = value
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	x.body = body
	x.req = x.req.Clone(x.req.Context())
	x.req.ContentLength = int64(len(body))
	if x.req.Method != http.MethodPatch {
		x.req.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
}

// fieldsOf returns the fields of an object that is not JSON, nil if it cannot be read.
func fieldsOf(body []byte) map[string]any {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil || meta.IsListType(object) {
		return nil
	}
	fields["apiVersion"], fields["kind"] = kind.GroupVersion().String(), kind.Kind
	return fields
}
