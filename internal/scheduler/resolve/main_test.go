// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// kube-scheduler's own defaulting, which the tests compare with, logs every plugin that it
// overrides.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
