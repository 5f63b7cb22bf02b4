// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/component-base/metrics/legacyregistry"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Counted returns the sum over the series of one of livesched's counters or gauges that have a
// label.
func Counted(name, label, value string) float64 {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			found := label == ""
			for _, l := range metric.GetLabel() {
				found = found || l.GetName() == label && l.GetValue() == value
			}
			if found {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return total
}

// ProfileSeries returns the number of metric series of scheduler names with a given prefix.
func ProfileSeries(prefix string) int {
	GinkgoHelper()
	return len(ProfileValues(prefix))
}

// ProfileValues returns the values of the metrics of profiles whose names begin with a prefix. The
// value of a histogram is its count.
func ProfileValues(prefix string) map[string]float64 {
	GinkgoHelper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "profile" && strings.HasPrefix(label.GetValue(), prefix) {
					values[fmt.Sprint(family.GetName(), metric.GetLabel())] = metric.GetCounter().GetValue() +
						metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return values
}
