// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// decisionSeconds is the histogram of the time of decisions, which livesched and kube-scheduler
// both have. Decisions that found no node are in it, with their preemption.
const decisionSeconds = "scheduler_scheduling_algorithm_duration_seconds"

// decisions are the decisions of a scheduler so far.
type decisions struct {
	count uint64
	// total is the time that they took together.
	total time.Duration
}

func (d decisions) since(before decisions) decisions {
	return decisions{count: d.count - before.count, total: d.total - before.total}
}

// mean returns the mean time in microseconds.
func (d decisions) mean() float64 {
	return float64(d.total) / float64(d.count) / float64(time.Microsecond)
}

// metricsClient does not check certificates: kube-scheduler signs its own, and the benchmark asks
// the loopback interface alone.
var metricsClient = &http.Client{
	Timeout:   10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // see above
}

// readDecisions reads the decisions of the scheduler that serves metrics at a URL.
func readDecisions(url string) (decisions, error) {
	response, err := metricsClient.Get(url)
	if err != nil {
		return decisions{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return decisions{}, fmt.Errorf("%s: %s", url, response.Status)
	}
	return parseDecisions(response.Body)
}

func parseDecisions(text io.Reader) (decisions, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return decisions{}, err
	}
	family := families[decisionSeconds]
	if family.GetType() != dto.MetricType_HISTOGRAM {
		return decisions{}, errors.New("no histogram " + decisionSeconds)
	}
	var d decisions
	for _, metric := range family.GetMetric() {
		h := metric.GetHistogram()
		d.count += h.GetSampleCount()
		d.total += time.Duration(h.GetSampleSum() * float64(time.Second))
	}
	return d, nil
}
