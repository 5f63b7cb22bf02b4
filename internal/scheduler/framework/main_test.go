// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	leaks.Main(m)
}
