// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestASlowCycleNamesWhatTookLongest(t *testing.T) {
	metrics.Register()
	const line = `"msg"="A scheduling cycle was slow" "profile"="mine" "duration"="150ms" `
	for name, test := range map[string]struct {
		plugin  slow
		path    sidebyside.Path
		sampled bool
		want    string
	}{
		"a plugin that is called once for a pod": {
			slow{point: "Reserve", takes: 150 * time.Millisecond}, sidebyside.ScalarPath, false,
			line + `"longestStep"="Reserve" "stepDuration"="150ms" "plugin"="Slow"`,
		},
		"plugins that are called for each node": {
			slow{point: "Filter", takes: 150 * time.Millisecond}, sidebyside.ScalarPath, false,
			line + `"longestStep"="Filter" "stepDuration"="150ms"`,
		},
		"a plugin that is called for each node, while calls are measured": {
			slow{point: "Filter", takes: 150 * time.Millisecond}, sidebyside.ScalarPath, true,
			line + `"longestStep"="Filter" "stepDuration"="150ms" "plugin"="Slow"`,
		},
		"the fast path": {
			slow{point: "Filter", takes: 150 * time.Millisecond}, sidebyside.FastPath, false,
			line + `"longestStep"="FastPath" "stepDuration"="150ms"`,
		},
		"a plugin that the fast path calls for each node": {
			slow{point: "Filter", takes: 150 * time.Millisecond}, sidebyside.FastPath, true,
			line + `"longestStep"="FastPath" "stepDuration"="150ms" "plugin"="Slow"`,
		},
		"a cycle that is not slow": {slow{point: "Reserve", takes: 99 * time.Millisecond}, sidebyside.ScalarPath,
			false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				logger := funcr.New(func(_, line string) {
					if strings.Contains(line, "cycle was slow") {
						logged = append(logged, line)
					}
				}, funcr.Options{})
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
				defer cancel()
				c := newCycleOn(ctx, t, &test.plugin, test.path)
				c.state.SetRecordPluginMetrics(test.sampled)
				before := testutil.ToFloat64(metrics.SlowCycles.WithLabelValues("mine"))
				if placed, _, status := c.placeInTime(ctx); placed == nil {
					t.Fatal(status.Message())
				}
				counted := testutil.ToFloat64(metrics.SlowCycles.WithLabelValues("mine")) - before
				if test.want == "" {
					if len(logged) != 0 || counted != 0 || c.loop.sampled != 0 {
						t.Errorf("logged %q, counted %v, and measures %d cycles", logged, counted, c.loop.sampled)
					}
					return
				}
				if len(logged) != 1 || !strings.HasSuffix(logged[0], test.want) {
					t.Errorf("logged %q, want %q", logged, test.want)
				}
				if counted != 1 || c.loop.sampled != sampledAfterSlow {
					t.Errorf("counted %v, and measures %d cycles", counted, c.loop.sampled)
				}
			})
		})
	}
}
