// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	SetDefaultEventuallyTimeout(time.Minute)
	leaks.Main(m)
}
