// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// point describes an extension point for Expand: its part of the configuration, the plugins that
// can run there, and the field of Plugins that holds them.
type point struct {
	name string
	// min and max bound the number of plugins; max 0 is no bound.
	min, max int

	config  func(*schedconfig.Plugins) *schedconfig.PluginSet
	accepts func(fwk.Plugin) bool
	store   func(*Plugins, []fwk.Plugin)
	load    func(*Plugins) []fwk.Plugin
	// weights is nil where plugins carry no weight.
	weights func(*Plugins) *map[string]int64
}

// extensionPoints lists all extension points, in the order in which they run for a pod.
var extensionPoints = []point{
	newPoint("PreEnqueue",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PreEnqueue },
		func(p *Plugins) *[]fwk.PreEnqueuePlugin { return &p.PreEnqueue }),
	queueSortPoint(),
	newPoint("PreFilter",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PreFilter },
		func(p *Plugins) *[]fwk.PreFilterPlugin { return &p.PreFilter }),
	newPoint("Filter",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.Filter },
		func(p *Plugins) *[]fwk.FilterPlugin { return &p.Filter }),
	newPoint("PostFilter",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PostFilter },
		func(p *Plugins) *[]fwk.PostFilterPlugin { return &p.PostFilter }),
	newPoint("PreScore",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PreScore },
		func(p *Plugins) *[]fwk.PreScorePlugin { return &p.PreScore }),
	newPoint("Score",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.Score },
		func(p *Plugins) *[]fwk.ScorePlugin { return &p.Score },
	).weighted(func(p *Plugins) *map[string]int64 { return &p.ScoreWeights }),
	newPoint("Reserve",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.Reserve },
		func(p *Plugins) *[]fwk.ReservePlugin { return &p.Reserve }),
	newPoint("Permit",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.Permit },
		func(p *Plugins) *[]fwk.PermitPlugin { return &p.Permit }),
	newPoint("PreBind",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PreBind },
		func(p *Plugins) *[]fwk.PreBindPlugin { return &p.PreBind }),
	newPoint("Bind",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.Bind },
		func(p *Plugins) *[]fwk.BindPlugin { return &p.Bind },
	).bounded(1, 0),
	newPoint("PostBind",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PostBind },
		func(p *Plugins) *[]fwk.PostBindPlugin { return &p.PostBind }),
	newPoint("PlacementGenerate",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PlacementGenerate },
		func(p *Plugins) *[]fwk.PlacementGeneratePlugin { return &p.PlacementGenerate },
	).bounded(0, 1),
	newPoint("PlacementScore",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.PlacementScore },
		func(p *Plugins) *[]fwk.PlacementScorePlugin { return &p.PlacementScore },
	).weighted(func(p *Plugins) *map[string]int64 { return &p.PlacementScoreWeights }),
}

// newPoint describes an extension point whose plugins implement P.
func newPoint[P fwk.Plugin](
	name string,
	config func(*schedconfig.Plugins) *schedconfig.PluginSet,
	list func(*Plugins) *[]P,
) point {
	return point{
		name:   name,
		config: config,
		accepts: func(pl fwk.Plugin) bool {
			_, ok := pl.(P)
			return ok
		},
		store: func(to *Plugins, plugins []fwk.Plugin) {
			field := list(to)
			for _, pl := range plugins {
				*field = append(*field, pl.(P))
			}
		},
		load: func(from *Plugins) []fwk.Plugin {
			var plugins []fwk.Plugin
			for _, pl := range *list(from) {
				plugins = append(plugins, pl)
			}
			return plugins
		},
	}
}

// queueSortPoint differs from the others in that it is one plugin, not a list.
func queueSortPoint() point {
	pt := newPoint[fwk.QueueSortPlugin]("QueueSort",
		func(c *schedconfig.Plugins) *schedconfig.PluginSet { return &c.QueueSort }, nil)
	pt.store = func(to *Plugins, plugins []fwk.Plugin) {
		to.QueueSort = plugins[0].(fwk.QueueSortPlugin)
	}
	pt.load = func(from *Plugins) []fwk.Plugin {
		if from.QueueSort == nil {
			return nil
		}
		return []fwk.Plugin{from.QueueSort}
	}
	return pt.bounded(1, 1)
}

func (pt point) bounded(least, most int) point {
	pt.min, pt.max = least, most
	return pt
}

func (pt point) weighted(weights func(*Plugins) *map[string]int64) point {
	pt.weights = weights
	return pt
}
