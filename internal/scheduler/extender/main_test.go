// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// klog's flush daemon is started by the package's import.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
