// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	// schedulerPrefix begins the names of the metrics of the scheduler, and of plugins that follow
	// its naming.
	schedulerPrefix = "scheduler_"
	// LabelProfile is the label with the scheduler name, in these metrics and in livesched's own.
	LabelProfile = "profile"
)

// Series are the series of one profile: see [FindSeries].
type Series []series

// series is one series of a vector.
type series struct {
	remove func(labels map[string]string) bool
	labels map[string]string
}

// Delete deletes the series. A later measurement creates them again, and a gauge starts at zero.
func (s Series) Delete() {
	for _, one := range s {
		one.remove(one.labels)
	}
}

// FindSeries returns, by scheduler name, every series of a scheduler_* metric, of [SlowCycles] and
// of [PodGroupScheduling] whose label "profile" is one of the given scheduler names: about 41
// series per profile with the default plugins.
// Nothing but Delete removes them. Metrics of out-of-tree plugins are included if they follow the
// same naming and are registered with legacyregistry.
//
// It reads all metrics, which takes long with many profiles. So look for many profiles in one call.
//
// It is for profiles that were removed and have drained: the last pod must have left the queue and
// asynchronous recorders must be flushed before the call.
//
// The error names the metrics whose series cannot be deleted; the series of other metrics are
// returned.
func FindSeries(schedulerNames sets.Set[string]) (map[string]Series, error) {
	found, err := findSeries(legacyregistry.DefaultGatherer, legacyregistry.Registerer(), schedulerNames)
	for name := range schedulerNames {
		remove := func(labels map[string]string) bool {
			return SlowCycles.DeletePartialMatch(labels)+PodGroupScheduling.DeletePartialMatch(labels) > 0
		}
		found[name] = append(found[name], series{remove, map[string]string{LabelProfile: name}})
	}
	return found, err
}

func findSeries(gatherer prometheus.Gatherer, registerer prometheus.Registerer,
	schedulerNames sets.Set[string]) (map[string]Series, error) {
	// Use the gathered families even if some collector failed: they show which metrics have series
	// to delete.
	families, err := gatherer.Gather()
	errs := []error{err}
	found := map[string]Series{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), schedulerPrefix) {
			continue
		}
		var remove func(map[string]string) bool
		for _, metric := range family.GetMetric() {
			labels := labelsOf(metric)
			name, ok := labels[LabelProfile]
			if !ok || !schedulerNames.Has(name) {
				continue
			}
			if remove == nil {
				if remove, err = remover(registerer, family); err != nil {
					errs = append(errs,
						fmt.Errorf("deleting series of profiles from metric %s: %w", family.GetName(), err))
					break
				}
			}
			found[name] = append(found[name], series{remove, labels})
		}
	}
	return found, errors.Join(errs...)
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := make(map[string]string, len(metric.GetLabel()))
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// remover returns the function that deletes one series of a gathered family. Half of the
// scheduler's vectors with a profile label are unexported variables, so it asks the registry for
// the collector: registering one that describes the same metric fails with an error that contains
// the registered one. The registration succeeds only if the family comes from a collector that
// describes nothing, and is reverted then.
func remover(registerer prometheus.Registerer, family *dto.MetricFamily) (func(labels map[string]string) bool, error) {
	probe := probeOf(family)
	err := registerer.Register(probe)
	if err == nil {
		registerer.Unregister(probe)
		return nil, errors.New("its collector does not describe it")
	}
	var registered prometheus.AlreadyRegisteredError
	if !errors.As(err, &registered) {
		return nil, fmt.Errorf("looking up its collector: %w", err)
	}
	switch vec := registered.ExistingCollector.(type) {
	case interface{ Delete(map[string]string) bool }: // component-base's vectors
		return vec.Delete, nil
	case interface{ Delete(prometheus.Labels) bool }: // prometheus.MetricVec and what embeds it
		return func(labels map[string]string) bool { return vec.Delete(labels) }, nil
	default:
		return nil, fmt.Errorf("its collector is a %T, which cannot delete series", vec)
	}
}

// probeOf returns a collector that has the description of a family of a vector without constant
// labels.
func probeOf(family *dto.MetricFamily) prometheus.Collector {
	var labels []string
	for _, label := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, label.GetName())
	}
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: family.GetName(), Help: family.GetHelp()}, labels)
}
