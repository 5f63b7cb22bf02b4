// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// unsettledCrew returns what is still wrong although nothing changes any more. The observer knows
// the state of a replica that has seen everything; what the members know, they report themselves.
func (w *world) unsettledCrew(ctx context.Context) (found findings) {
	t, err := w.truth(ctx)
	if err != nil {
		found.add("looking at the API server: %v", err)
		return found
	}
	for _, m := range w.crew.all() {
		if code, body := fetch(ctx, "http://"+m.probes+"/readyz"); code != http.StatusOK {
			found.add("replica %d is not ready: %d: %s", m.number, code, body)
		}
	}
	leader := w.crew.leader(ctx)
	if leader == nil || len(w.crew.all()) != replicas {
		found.add("there are %d replicas, of which one is to lead", len(w.crew.all()))
		return found
	}
	select {
	case <-w.observer.Scheduler.Ready():
		found = append(found, w.unequal(w.observer, t)...)
	default:
		found.add("the observer is not ready")
	}
	if len(found) > 0 {
		return found
	}
	for _, queue := range []string{"active", "backoff"} {
		if n, err := leader.metric(ctx, "scheduler_pending_pods", map[string]string{"queue": queue}); err != nil ||
			n > 0 {
			found.add("replica %d leads and has %v %s pods (%v)", leader.number, n, queue, err)
		}
	}
	found = append(found, sharedDevices(t)...)
	found = append(found, unexplained(w.observer, t)...)
	found = append(found, unreported(w.observer, t)...)
	if len(found) > 0 {
		return found
	}
	found = append(found, w.lostWakeups(ctx, w.observer, t)...)
	if len(found) > 0 {
		return found
	}
	for _, m := range w.crew.all() {
		found = append(found, m.suspicions(ctx)...)
	}
	return found
}

// The outcomes of a member's comparison with the API server, in its log.
const (
	equalLine      = `"msg":"Cache, queue and devices match the API server"`
	differenceLine = `"msg":"The API server has something else"`
	differentLine  = `"msg":"Cache, queue or devices differ from the API server"`
)

// suspicions lets a member compare itself with the API server, and returns the differences.
func (m *member) suspicions(ctx context.Context) (found findings) {
	before, err := os.ReadFile(m.LogFile())
	if err != nil {
		found.add("%v", err)
		return found
	}
	if err := m.report(); err != nil {
		found.add("replica %d: %v", m.number, err)
		return found
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		after, err := os.ReadFile(m.LogFile())
		if err != nil {
			found.add("%v", err)
			return found
		}
		said := after[len(before):]
		if bytes.Contains(said, []byte(equalLine)) {
			return nil
		}
		if bytes.Contains(said, []byte(differentLine)) || time.Now().After(deadline) {
			found.add("replica %d does not match the API server: %s", m.number, differencesIn(said))
			return found
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// differencesIn returns the differences that a log reports.
func differencesIn(log []byte) string {
	var lines []string
	for line := range strings.SplitSeq(string(log), "\n") {
		if strings.Contains(line, differenceLine) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// fetch returns the response of an endpoint. The code is 0 if there was none.
func fetch(ctx context.Context, url string) (code int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// metric returns the sum of a gauge's series with some labels.
func (m *member) metric(ctx context.Context, name string, labels map[string]string) (sum float64, err error) {
	code, body := fetch(ctx, "http://"+m.metrics+"/metrics")
	if code != http.StatusOK {
		return 0, fmt.Errorf("metrics of replica %d: %d: %s", m.number, code, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for _, series := range families[name].GetMetric() {
		if hasLabels(series, labels) {
			sum += series.GetGauge().GetValue()
		}
	}
	return sum, nil
}

func hasLabels(series *dto.Metric, labels map[string]string) bool {
	matched := 0
	for _, pair := range series.GetLabel() {
		if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
			matched++
		}
	}
	return matched == len(labels)
}
