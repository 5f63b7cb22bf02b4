// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// shadowCases is the number of cases with shadows.
const shadowCases = 40

// TestAShadowOfTheSameSpecAgrees has a shadow of the profile, on the fast path, in cases that both
// schedulers play: it agrees with every decision, and changes none of them.
func TestAShadowOfTheSameSpecAgrees(t *testing.T) {
	p := playCases(t, shadowCases, func(c *contest) {
		if c.sampled || !c.ours.Profile.Framework.HasScorePlugins() {
			return // the profile does not look at all nodes, as its shadow does
		}
		id, err := c.ours.Follow(c.without(spyName))
		c.must(err)
		c.play()
		status := c.ours.Shadows.Status(id)
		if status == nil {
			return // the two schedulers had deliberately parted at the first pod
		}
		if status.Agreed != status.Decisions || status.FirstMismatch != "" || status.ScoreLoss != nil {
			c.fatalf("the shadow disagrees: %+v", *status)
		}
		c.count["shadowDecisions"] += int(status.Decisions)
		c.count["shadowSkipped"] += int(status.Skipped)
	})
	p.mustShow(t, "shadowDecisions")
}

// TestAShadowThatDisagreesChangesNothing has a shadow with other plugins and weights.
func TestAShadowThatDisagreesChangesNothing(t *testing.T) {
	p := playCases(t, shadowCases, func(c *contest) {
		other := c.without(spyName)
		other.Profile.PercentageOfNodesToScore = nil
		leaveOut(&other.Profile.Plugins.Filter, "NodeResourcesFit")
		leaveOut(&other.Profile.Plugins.Filter, "TaintToleration")
		other.Profile.Plugins.Score = configv1.PluginSet{
			Enabled:  []configv1.Plugin{{Name: "ImageLocality", Weight: ptr.To(int32(9))}},
			Disabled: []configv1.Plugin{{Name: "*"}},
		}
		id, err := c.ours.Follow(other)
		c.must(err)
		c.play()
		status := c.ours.Shadows.Status(id)
		if status == nil {
			return
		}
		c.count["scoredLower"] += int(status.NodeScoredLower)
		c.count["shadowOnly"] += int(status.ShadowOnlyFits)
		if status.ShadowOnlyFits > 0 && status.FirstMismatch == "" {
			c.fatalf("there is no first mismatch: %+v", *status)
		}
	})
	p.mustShow(t, "scoredLower", "shadowOnly")
}

// without returns the configuration of both sides without a plugin of PreScore.
func (c *contest) without(plugin string) *sidebyside.Configuration {
	copied := *c.profile
	copied.Profile = *c.profile.Profile.DeepCopy()
	enabled := &copied.Profile.Plugins.PreScore.Enabled
	for i := range *enabled {
		if (*enabled)[i].Name == plugin {
			*enabled = append((*enabled)[:i], (*enabled)[i+1:]...)
			break
		}
	}
	return &copied
}
