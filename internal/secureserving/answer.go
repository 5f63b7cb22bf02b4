// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeTimeout limits the time in which a client takes an answer.
const writeTimeout = 10 * time.Second

// WriteObject answers with an object as JSON.
func WriteObject(w http.ResponseWriter, object any) {
	write(w, http.StatusOK, object)
}

// WriteError answers with an error as a Status, which is what clients of the API server expect.
func WriteError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	write(w, int(status.Code), &status)
}

func write(w http.ResponseWriter, code int, object any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, code, text.Bytes())
}

// WriteGzip answers with an object that is JSON, compressed by gzip. The client must accept that.
func WriteGzip(w http.ResponseWriter, compressed []byte) {
	w.Header().Set("Content-Encoding", "gzip")
	writeJSON(w, http.StatusOK, compressed)
}

func writeJSON(w http.ResponseWriter, code int, text []byte) {
	// A client that reads slowly must not keep the connection. Some writers know no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}
