// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import "slices"

// LegacyPredicates lists the predicates of legacy policies, in the order in which they run.
func LegacyPredicates() []LegacyName { return slices.Clone(legacyPredicates) }

// LegacyPriorities lists the priorities of legacy policies.
func LegacyPriorities() []LegacyName { return slices.Clone(legacyPriorities) }
