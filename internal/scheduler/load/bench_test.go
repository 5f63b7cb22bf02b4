// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// A sample reads all of kube-scheduler's metrics, of ten profiles here.
func BenchmarkSample(b *testing.B) {
	schedmetrics.Register()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		schedmetrics.PodScheduled(name, 0.001)
		schedmetrics.PodUnschedulable(name, 0.001)
		schedmetrics.PodScheduleError(name, 0.001)
	}
	_, r := newWorld()
	r.cfg.Gatherer = legacyregistry.DefaultGatherer
	r.begin(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		r.sample(b.Context())
	}
}
