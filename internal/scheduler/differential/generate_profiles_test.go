// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// scorers are the plugins of the default profile that score.
var scorers = []string{
	"TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "NodeResourcesFit",
	"NodeResourcesBalancedAllocation", "ImageLocality", "VolumeBinding",
}

// filters are the plugins that can be left out without an error.
var filters = []string{
	"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
	"NodeVolumeLimits", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures",
}

// configuration makes the default profile, or one that differs from it in some respects.
func (g *generator) configuration() *sidebyside.Configuration {
	c := &sidebyside.Configuration{Parallelism: oneOf[int32](g, 1, 1, 4, 16)}
	p := &c.Profile
	p.SchedulerName = ptr.To(schedulerName)
	p.Plugins = &configv1.Plugins{}
	p.Plugins.PreScore.Enabled = []configv1.Plugin{{Name: spyName}}
	g.nodeNames = true
	if g.chance(30) {
		return c // the default profile
	}
	if g.chance(25) {
		p.PluginConfig = append(p.PluginConfig, args("DefaultPreemption", &configv1.DefaultPreemptionArgs{
			MinCandidateNodesPercentage: ptr.To(int32(g.IntN(101))),
			MinCandidateNodesAbsolute:   ptr.To(int32(1 + g.IntN(8))),
		}))
	}
	if g.chance(50) {
		p.PluginConfig = append(p.PluginConfig, args("NodeResourcesFit", g.fit()))
	}
	if g.chance(20) {
		p.PluginConfig = append(p.PluginConfig,
			args("NodeResourcesBalancedAllocation", &configv1.NodeResourcesBalancedAllocationArgs{
				Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: gpu, Weight: 1}},
			}))
	}
	if g.chance(35) {
		p.PluginConfig = append(p.PluginConfig, args("InterPodAffinity", &configv1.InterPodAffinityArgs{
			HardPodAffinityWeight: ptr.To(int32(g.IntN(101))), IgnorePreferredTermsOfExistingPods: g.chance(40),
		}))
	}
	if g.chance(35) {
		p.PluginConfig = append(p.PluginConfig, args("PodTopologySpread", g.defaultConstraints()))
	}
	if g.chance(25) {
		p.PluginConfig = append(p.PluginConfig, args("NodeAffinity", g.addedAffinity()))
	}
	g.plugins(c)
	if c.Parallelism == 1 && g.chance(25) {
		// With several workers kube-scheduler's own samples differ from run to run.
		p.PercentageOfNodesToScore = ptr.To(int32(1 + g.IntN(99)))
		g.sampled = true
		g.nodeNames = false // kube-scheduler takes named nodes in no order
	}
	return c
}

// plugins changes weights and removes plugins.
func (g *generator) plugins(c *sidebyside.Configuration) {
	p := c.Profile.Plugins
	switch {
	case g.chance(8):
		// Here the first node that fits is chosen. With several workers, or with named nodes, which
		// kube-scheduler takes in no order, that can be any node.
		p.Score.Disabled = []configv1.Plugin{{Name: "*"}}
		c.Parallelism, g.nodeNames = 1, false
	case g.chance(15):
		p.Score.Disabled = []configv1.Plugin{{Name: "*"}}
		for range 1 + g.IntN(4) {
			g.weigh(&p.Score)
		}
	default:
		for range g.IntN(4) {
			g.weigh(&p.Score)
		}
		for range g.IntN(3) {
			leaveOut(&p.Score, pick(g, scorers))
		}
	}
	for range g.IntN(3) {
		if g.chance(50) {
			leaveOut(&p.Filter, pick(g, filters))
		}
	}
	if g.chance(12) {
		p.MultiPoint.Disabled = append(p.MultiPoint.Disabled, configv1.Plugin{Name: "DefaultPreemption"})
	}
	if g.chance(5) {
		leaveOut(&p.PostFilter, "DefaultPreemption")
	}
}

func (g *generator) weigh(set *configv1.PluginSet) {
	name := pick(g, scorers)
	for _, known := range set.Enabled {
		if known.Name == name {
			return
		}
	}
	set.Enabled = append(set.Enabled, configv1.Plugin{Name: name, Weight: ptr.To(int32(g.IntN(20)))})
}

func leaveOut(set *configv1.PluginSet, name string) {
	for _, known := range append(set.Enabled, set.Disabled...) {
		if known.Name == name {
			return
		}
	}
	set.Disabled = append(set.Disabled, configv1.Plugin{Name: name})
}

func (g *generator) fit() *configv1.NodeResourcesFitArgs {
	resources := []configv1.ResourceSpec{{Name: "cpu", Weight: int64(1 + g.IntN(5))},
		{Name: "memory", Weight: int64(1 + g.IntN(5))}}
	if g.chance(40) {
		resources = append(resources, configv1.ResourceSpec{Name: gpu, Weight: int64(1 + g.IntN(9))})
	}
	strategy := &configv1.ScoringStrategy{Type: oneOf(g, configv1.LeastAllocated, configv1.MostAllocated,
		configv1.RequestedToCapacityRatio), Resources: resources}
	if strategy.Type == configv1.RequestedToCapacityRatio {
		strategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{
			Shape: []configv1.UtilizationShapePoint{
				{Utilization: 0, Score: int32(g.IntN(11))},
				{Utilization: int32(10 + g.IntN(80)), Score: int32(g.IntN(11))},
				{Utilization: 100, Score: int32(g.IntN(11))},
			}}
	}
	fit := &configv1.NodeResourcesFitArgs{ScoringStrategy: strategy}
	if g.chance(30) {
		fit.IgnoredResources = []string{gpu}
	} else if g.chance(20) {
		fit.IgnoredResourceGroups = []string{"example.com"}
	}
	return fit
}

func (g *generator) defaultConstraints() *configv1.PodTopologySpreadArgs {
	spread := &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	for _, key := range []string{zone, hostname} {
		if g.chance(60) {
			spread.DefaultConstraints = append(spread.DefaultConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: int32(1 + g.IntN(4)), TopologyKey: key,
				WhenUnsatisfiable: oneOf(g, corev1.ScheduleAnyway, corev1.DoNotSchedule),
			})
		}
	}
	return spread
}

func (g *generator) addedAffinity() *configv1.NodeAffinityArgs {
	added := &corev1.NodeAffinity{}
	if g.chance(50) {
		added.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpNotIn,
					Values: []string{"zone-1"}}},
			}}}
	}
	added.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: int32(1 + g.IntN(100)), Preference: g.nodeTerm()}}
	return &configv1.NodeAffinityArgs{AddedAffinity: added}
}

// args are a plugin's arguments as users write them, without kind and version.
func args(plugin string, value any) configv1.PluginConfig {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("arguments of the test: %v", err))
	}
	return configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Raw: text}}
}
