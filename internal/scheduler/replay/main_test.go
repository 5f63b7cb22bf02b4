// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	schedmetrics.Register()
	metrics.Register()
	leaks.Main(m)
}
