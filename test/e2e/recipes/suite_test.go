// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recipes applies each recipe of docs/recipes.md as it is on the page, and checks where
// livesched places its pods. There is no kube-controller-manager: the suite creates the pods that
// the Deployments and Jobs of a recipe would have.
package recipes

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestRecipes(t *testing.T) {
	framework.Run(t, "Recipes of the documentation, on a real API server")
}
