// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	// schedulerPrefix begins the names of the metrics of the scheduler, and of plugins that follow
	// its naming.
	schedulerPrefix = "scheduler_"
	// LabelProfile is the label with the scheduler name, in these metrics and in livesched's own.
	LabelProfile = "profile"
)

// ForgetProfile deletes every series of a scheduler_* metric whose label "profile" is the given
// scheduler name: about 41 series per profile with the default plugins. Nothing else removes them.
// Metrics of out-of-tree plugins are included if they follow the same naming and are registered
// with legacyregistry.
//
// It is for a profile that was removed and has drained. A later measurement creates its series
// again, and a gauge starts at zero. So the last pod must leave the queue and asynchronous
// recorders must be flushed before the call.
//
// The error names the metrics whose series could not be deleted; those of other metrics are
// deleted.
func ForgetProfile(schedulerName string) error {
	return forgetProfile(legacyregistry.DefaultGatherer, legacyregistry.Registerer(), schedulerName)
}

func forgetProfile(gatherer prometheus.Gatherer, registerer prometheus.Registerer, schedulerName string) error {
	// Use the gathered families even if some collector failed: they show which metrics have series
	// to delete.
	families, err := gatherer.Gather()
	errs := []error{err}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), schedulerPrefix) || !hasLabelValue(family, LabelProfile, schedulerName) {
			continue
		}
		vec, err := registeredVec(registerer, family)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting the series of profile %q from metric %s: %w", schedulerName, family.GetName(), err))
			continue
		}
		vec.DeletePartialMatch(prometheus.Labels{LabelProfile: schedulerName})
	}
	return errors.Join(errs...)
}

func hasLabelValue(family *dto.MetricFamily, name, value string) bool {
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == name && label.GetValue() == value {
				return true
			}
		}
	}
	return false
}

// partialDeleter is implemented by prometheus.MetricVec and all types that embed it, such as
// component-base's vectors.
type partialDeleter interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

// registeredVec returns the collector of a gathered family. Half of the scheduler's vectors with a
// profile label are unexported variables, so it asks the registry: registering a collector that
// describes the same metric fails with an error that contains the registered one. The registration
// succeeds only if the family comes from a collector that describes nothing, and is reverted then.
func registeredVec(registerer prometheus.Registerer, family *dto.MetricFamily) (partialDeleter, error) {
	probe := describer{describe(family)}
	err := registerer.Register(probe)
	if err == nil {
		registerer.Unregister(probe)
		return nil, errors.New("its collector does not describe it")
	}
	var registered prometheus.AlreadyRegisteredError
	if !errors.As(err, &registered) {
		return nil, fmt.Errorf("looking up its collector: %w", err)
	}
	vec, ok := registered.ExistingCollector.(partialDeleter)
	if !ok {
		return nil, fmt.Errorf("its collector is a %T, which cannot delete series", registered.ExistingCollector)
	}
	return vec, nil
}

// describe returns the description of a family of a vector without constant labels.
func describe(family *dto.MetricFamily) *prometheus.Desc {
	var labels []string
	for _, label := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, label.GetName())
	}
	return prometheus.NewDesc(family.GetName(), family.GetHelp(), labels, nil)
}

// describer is a collector that has one description and collects nothing.
type describer struct{ desc *prometheus.Desc }

var _ prometheus.Collector = describer{}

func (d describer) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

func (describer) Collect(chan<- prometheus.Metric) {}
