// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"testing"

	"go.uber.org/goleak"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
