// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"strings"
)

// podNamespaceFile contains the namespace of the pod that the process runs in.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace returns the namespace of the pod that the process runs in, or an error if it does
// not run in a pod.
func podNamespace() (string, error) {
	text, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return "", err
	}
	namespace := strings.TrimSpace(string(text))
	if namespace == "" {
		return "", fmt.Errorf("%s is empty", podNamespaceFile)
	}
	return namespace, nil
}
