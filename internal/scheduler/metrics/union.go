// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// union gathers all families of first, and the families of second that first does not have.
// prometheus.Gatherers would report every family that both have as an inconsistency.
type union struct {
	first, second prometheus.Gatherer
}

var _ prometheus.Gatherer = union{}

// Gather implements prometheus.Gatherer: families are sorted by name, and the families that could
// be gathered are returned together with the errors of both.
func (u union) Gather() ([]*dto.MetricFamily, error) {
	families, firstErr := u.first.Gather()
	more, secondErr := u.second.Gather()

	known := make(map[string]bool, len(families))
	for _, family := range families {
		known[family.GetName()] = true
	}
	for _, family := range more {
		if !known[family.GetName()] {
			families = append(families, family)
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, errors.Join(firstErr, secondErr)
}
