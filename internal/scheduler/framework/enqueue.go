// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// EnqueueExtensions returns, for every plugin that can refuse a pod, what says
// which cluster events may help that pod: the plugin itself, or
// DefaultEnqueueExtensions under its name. Plugins that implement none of
// PreEnqueue, PreFilter, Filter, Reserve and Permit are left out, even if they
// name events.
//
// A profile with extenders needs one entry more, which is not a plugin's:
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

// DefaultEnqueueExtensions stands in for something that refuses pods and does
// not say what would help them: every kind of event on every resource, listed
// one by one rather than as a wildcard, because event handlers are made from
// the list.
func DefaultEnqueueExtensions(name string) fwk.EnqueueExtensions {
	return defaultEnqueueExtensions(name)
}

type defaultEnqueueExtensions string

func (d defaultEnqueueExtensions) Name() string { return string(d) }

func (d defaultEnqueueExtensions) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return schedframework.UnrollWildCardResource(), nil
}
