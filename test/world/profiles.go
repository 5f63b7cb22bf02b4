// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"

	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

// profileSpecs are specs of profiles that accept the same pods.
var profileSpecs = []string{
	`{}`,
	`percentageOfNodesToScore: 50`,
	`plugins: {score: {disabled: [{name: "*"}]}}`,
	`plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 10}]}}`,
	`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy:
  {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]`,
}

func (w *World) newProfile(r *rand.Rand) (spec v1alpha1.SchedulerProfileSpec) {
	if err := yaml.Unmarshal([]byte(one(r, profileSpecs)), &spec); err != nil {
		panic(err)
	}
	return spec
}
