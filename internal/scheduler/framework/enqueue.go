// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// EnqueueExtensions returns, for every plugin that can refuse a pod, the EnqueueExtensions that
// register the events that may help the pod: the plugin itself, or DefaultEnqueueExtensions with
// its name. Plugins that implement none of PreEnqueue, PreFilter, Filter, Reserve and Permit are
// left out, even if they register events.
//
// A profile with extenders needs one more entry, which is not for a plugin:
// DefaultEnqueueExtensions(schedframework.ExtenderName).
func (p *Plugins) EnqueueExtensions() []fwk.EnqueueExtensions {
	var out []fwk.EnqueueExtensions
	for _, pl := range p.All {
		if !canRefuse(pl) {
			continue
		}
		if ext, ok := pl.(fwk.EnqueueExtensions); ok {
			out = append(out, ext)
		} else {
			out = append(out, DefaultEnqueueExtensions(pl.Name()))
		}
	}
	return out
}

func canRefuse(pl fwk.Plugin) bool {
	switch pl.(type) {
	case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
		return true
	}
	return false
}

// DefaultEnqueueExtensions is for a plugin or extender, by its name, that refuses pods and
// registers no events.
// It registers every kind of event on every resource, one by one and not as a wildcard, because
// event handlers are created from the list.
type DefaultEnqueueExtensions string

// Name implements fwk.Plugin.
func (d DefaultEnqueueExtensions) Name() string { return string(d) }

// EventsToRegister implements fwk.EnqueueExtensions.
func (d DefaultEnqueueExtensions) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return schedframework.UnrollWildCardResource(), nil
}
