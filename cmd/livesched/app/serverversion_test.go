// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

func TestTheVersionOfTheAPIServerIsReported(t *testing.T) {
	for _, test := range []struct {
		server string
		err    error
		skew   string
		log    string // "" if nothing is logged
	}{
		{server: "v1.33.7", skew: "older", log: `"livesched is not tested with the version of the API server" ` +
			`"version"="v1.33.7" "skew"="older" "tested"="1.34 to 1.37"`},
		{server: "v1.34.0", skew: "tested"},
		{server: "v1.36.1-gke.100", skew: "tested"},
		{server: "v1.38.0-alpha.1", skew: "newer", log: `"version"="v1.38.0-alpha.1" "skew"="newer"`},
		{server: "custom", skew: "unknown", log: `"version"="custom" "skew"="unknown"`},
		{err: errors.New("forbidden"), skew: "unknown",
			log: `"The version of the API server is unknown" "tested"="1.34 to 1.37" "err"="forbidden"`},
	} {
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		client := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{},
			FakedServerVersion: &version.Info{GitVersion: test.server}}
		client.AddReactor("get", "version",
			func(clienttesting.Action) (bool, runtime.Object, error) { return test.err != nil, nil, test.err })
		reportServerVersion(logger, client)
		if n := testutil.CollectAndCount(metrics.APIServerVersion); n != 1 {
			t.Errorf("%q: %d series, want 1: that of an earlier version must go", test.server, n)
		}
		if value := testutil.ToFloat64(metrics.APIServerVersion.WithLabelValues(test.server, test.skew)); value != 1 {
			t.Errorf("%q: the metric with skew %q is %v", test.server, test.skew, value)
		}
		if log := strings.Join(lines, "\n"); log == "" != (test.log == "") || !strings.Contains(log, test.log) {
			t.Errorf("%q: logged %q, want %q", test.server, log, test.log)
		}
	}
}
