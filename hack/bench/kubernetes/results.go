// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/livesched/livesched/hack/bench/report"
)

// The labels of rows.
const (
	labelWorkload   = "workload"
	labelTopic      = "topic"
	labelContender  = "contender"
	labelStatus     = "status"
	labelNote       = "note"
	labelReduced    = "reduced"
	labelSettings   = "settings"
	labelLimit      = "limit"
	labelCollection = "collection"
)

// The names of the values.
const (
	// podsPerSecond is the throughput as upstream measures it: the average of the samples. Runs
	// that are too short for two samples do not have it.
	podsPerSecond = "pods/s"
	// wholeRate is the rate from the start of the measurement to the last scheduled pod, without
	// samples.
	wholeRate = "whole pods/s"
	// pods is the number of scheduled pods, and seconds the time of the measurement.
	pods    = "pods"
	seconds = "measured s"
	// totalSeconds is the time from the start of the control plane to its end.
	totalSeconds = "total s"
	// The next are about the measurement, except for the peak.
	schedulerCPU = "scheduler CPU s"
	cpuPerPod    = "scheduler CPU ms/pod"
	apiCPU       = "API server CPU ms/pod"
	schedulerRSS = "scheduler peak MiB"
	// thresholdValue is the least average that upstream accepts, of its own machines.
	thresholdValue = "threshold pods/s"
	differing      = "differing decisions"
)

// percentiles are those that upstream reports.
var percentiles = []int{50, 90, 95, 99}

func percentile(p int) string { return fmt.Sprintf("p%d pods/s", p) }

// values returns the figures of a collection.
func (c *collection) values() map[string]float64 {
	n := float64(c.scheduledSoFar())
	values := map[string]float64{pods: n, seconds: c.ended.Sub(c.began).Seconds()}
	if rate := c.whole(); !math.IsNaN(rate) {
		values[wholeRate] = rate
	}
	if len(c.samples.throughputs) > 0 {
		values[podsPerSecond] = c.samples.average()
		for _, p := range percentiles {
			values[percentile(p)] = report.Quantile(c.samples.throughputs, float64(p)/100)
		}
	}
	cpu := (c.after.scheduler.CPU - c.before.scheduler.CPU).Seconds()
	hasProcess := c.after.scheduler.PeakRSS > 0
	if hasProcess {
		values[schedulerCPU] = cpu
		values[schedulerRSS] = float64(c.after.scheduler.PeakRSS) / (1 << 20)
	}
	if n > 0 {
		values[apiCPU] = (c.after.api - c.before.api).Seconds() * 1000 / n
		if hasProcess {
			values[cpuPerPod] = cpu * 1000 / n
		}
	}
	return values
}

// record replaces the rows of a turn.
func (b *bench) record(t *turn, o outcome) error {
	b.report.Rows = slices.DeleteFunc(b.report.Rows, t.isOf)
	labels := map[string]string{
		labelWorkload: t.name(), labelTopic: t.of.topic, labelContender: t.contender, labelStatus: o.status,
		labelSettings: b.settings[t.contender],
	}
	for label, text := range map[string]string{labelNote: o.note, labelReduced: strings.Join(t.reduced, ", ")} {
		if text != "" {
			labels[label] = text
		}
	}
	if o.status == statusTimeout {
		labels[labelLimit] = b.limit.String()
	}
	common := map[string]float64{}
	if o.total > 0 {
		common[totalSeconds] = o.total.Seconds()
	}
	if threshold := t.throughputThreshold(); threshold > 0 {
		common[thresholdValue] = threshold
	}
	if slices.Contains(b.liveschedArgs, verify) && t.contender == livesched && o.status != statusSkipped {
		common[differing] = o.differences
	}
	if len(o.collections) == 0 {
		return b.report.Add(labels, common)
	}
	for i, c := range o.collections {
		if len(o.collections) > 1 {
			labels[labelCollection] = fmt.Sprintf("%d %s", i+1, c.name)
		}
		values := c.values()
		for name, value := range common {
			values[name] = value
		}
		if err := b.report.Add(labels, values); err != nil {
			return err
		}
	}
	return nil
}

// verify is the flag of livesched with which it makes each decision on both paths.
const verify = "--fast-path=verify"

// isOf reports whether a row is of the turn.
func (t *turn) isOf(row report.Row) bool {
	return row.Labels[labelWorkload] == t.name() && row.Labels[labelContender] == t.contender
}

// measured reports whether the report has a result of the turn that holds with the settings of this
// run. What failed is tried again, and what took too long is if the limit is another one.
func (b *bench) measured(t *turn) bool {
	return slices.ContainsFunc(b.report.Rows, func(row report.Row) bool {
		if !t.isOf(row) || row.Labels[labelSettings] != b.settings[t.contender] {
			return false
		}
		switch row.Labels[labelStatus] {
		case statusOK:
			return true
		case statusTimeout:
			return row.Labels[labelLimit] == b.limit.String()
		}
		return false
	})
}

// settingsOf returns what the figures of each contender depend on.
func (o *options) settingsOf(version string) (map[string]string, error) {
	digest, err := digestOf(o.livesched)
	if err != nil && slices.Contains(o.contenders, livesched) {
		return nil, err
	}
	common := fmt.Sprintf("kubernetes %s, max-nodes %d, max-pods %d", version, o.within.nodes, o.within.pods)
	own := common + ", livesched " + digest
	if len(o.liveschedArgs) > 0 {
		own += " " + strings.Join(o.liveschedArgs, " ")
	}
	return map[string]string{ceiling: common, kubeScheduler: common, livesched: own}, nil
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}
