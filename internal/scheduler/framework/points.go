// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// point is an extension point of a configuration and of the Plugins that run.
type point struct {
	name string
	// min and max bound the number of plugins; max 0 is no bound.
	min, max int
	set      *schedconfig.PluginSet
	plugins  list
	// weights is nil where plugins carry no weight.
	weights *map[string]int64
}

// list is the field of Plugins for an extension point.
type list interface {
	// accepts reports whether a plugin can run there.
	accepts(fwk.Plugin) bool
	add(fwk.Plugin)
	all() []fwk.Plugin
}

// pointsOf returns all extension points, in the order in which they run for a pod.
func pointsOf(c *schedconfig.Plugins, p *Plugins) []point {
	return []point{
		{name: "PreEnqueue", set: &c.PreEnqueue, plugins: listOf(&p.PreEnqueue)},
		{name: "QueueSort", set: &c.QueueSort, plugins: queueSort{p}, min: 1, max: 1},
		{name: "PreFilter", set: &c.PreFilter, plugins: listOf(&p.PreFilter)},
		{name: "Filter", set: &c.Filter, plugins: listOf(&p.Filter)},
		{name: "PostFilter", set: &c.PostFilter, plugins: listOf(&p.PostFilter)},
		{name: "PreScore", set: &c.PreScore, plugins: listOf(&p.PreScore)},
		{name: "Score", set: &c.Score, plugins: listOf(&p.Score), weights: &p.ScoreWeights},
		{name: "Reserve", set: &c.Reserve, plugins: listOf(&p.Reserve)},
		{name: "Permit", set: &c.Permit, plugins: listOf(&p.Permit)},
		{name: "PreBind", set: &c.PreBind, plugins: listOf(&p.PreBind)},
		{name: "Bind", set: &c.Bind, plugins: listOf(&p.Bind), min: 1},
		{name: "PostBind", set: &c.PostBind, plugins: listOf(&p.PostBind)},
		{name: "PlacementGenerate", set: &c.PlacementGenerate, plugins: listOf(&p.PlacementGenerate), max: 1},
		{name: "PlacementScore", set: &c.PlacementScore, plugins: listOf(&p.PlacementScore),
			weights: &p.PlacementScoreWeights},
		{name: "PodGroupPostFilter", set: &c.PodGroupPostFilter, plugins: listOf(&p.PodGroupPostFilter)},
	}
}

// setsOf returns the plugins of each extension point of a configuration.
func setsOf(c *schedconfig.Plugins) []point { return pointsOf(c, &Plugins{}) }

// plugins is a list of plugins of one kind.
type plugins[P fwk.Plugin] []P

func listOf[P fwk.Plugin](field *[]P) *plugins[P] { return (*plugins[P])(field) }

func (*plugins[P]) accepts(pl fwk.Plugin) bool {
	_, ok := pl.(P)
	return ok
}

func (l *plugins[P]) add(pl fwk.Plugin) { *l = append(*l, pl.(P)) }

func (l *plugins[P]) all() (all []fwk.Plugin) {
	for _, pl := range *l {
		all = append(all, pl)
	}
	return all
}

// queueSort is the field for the only QueueSort plugin.
type queueSort struct{ *Plugins }

func (queueSort) accepts(pl fwk.Plugin) bool {
	_, ok := pl.(fwk.QueueSortPlugin)
	return ok
}

func (q queueSort) add(pl fwk.Plugin) { q.QueueSort = pl.(fwk.QueueSortPlugin) }

func (q queueSort) all() []fwk.Plugin {
	if q.QueueSort == nil {
		return nil
	}
	return []fwk.Plugin{q.QueueSort}
}
