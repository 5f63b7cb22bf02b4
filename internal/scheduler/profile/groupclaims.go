// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	clientset "k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// handleFor returns the handle for a plugin of the instance. The plugin for devices gets a client
// of its own. With the feature gate DRAWorkloadResourceClaims, it also asks for PodGroups. No other
// plugin that livesched runs does, and they cost something.
func (a *assembly) handleFor(plugin string) fwk.Handle {
	if plugin != names.DynamicResources || a.env.Devices.DRA == nil {
		return a.instance.handle
	}
	h := deviceHandle{a.instance.handle,
		claimClient{a.env.Client, a.env.Devices.DRA.ResourceClaims(), a.env.claimCalls}}
	if features().EnableDRAWorkloadResourceClaims {
		return groupHandle{deviceHandle: h, groups: a.env.Groups}
	}
	return h
}

// deviceHandle is a Handle with the client for DynamicResources.
type deviceHandle struct {
	*Handle
	client claimClient
}

// ClientSet returns the client of the process, with other writes of claims.
func (h deviceHandle) ClientSet() clientset.Interface { return h.client }

// groupHandle is a Handle that knows the PodGroups of Kubernetes, as they are now. A nil Registry
// has none.
type groupHandle struct {
	deviceHandle
	groups *podgroup.Registry
}

// SnapshotSharedLister returns the snapshot of the scheduling loop with PodGroups.
func (h groupHandle) SnapshotSharedLister() fwk.SharedLister {
	return groupSnapshot{Snapshot: h.env.Snapshot, groups: podgroup.Lister{Registry: h.groups}}
}

// PodGroupManager returns a manager that tells how many pods of a group have a node.
func (h groupHandle) PodGroupManager() fwk.PodGroupManager {
	return groupManager{states: podgroup.StateLister{Registry: h.groups}}
}

// groupSnapshot is a snapshot with PodGroups.
type groupSnapshot struct {
	*cache.Snapshot
	groups podgroup.Lister
}

// PodGroups returns the lister of PodGroups.
func (s groupSnapshot) PodGroups() fwk.PodGroupLister { return s.groups }

// groupManager has the methods of a PodGroupManager that the plugin for devices calls.
type groupManager struct {
	fwk.PodGroupManager
	states podgroup.StateLister
}

// PodGroupStates returns the lister of states.
func (m groupManager) PodGroupStates() fwk.PodGroupStateLister { return m.states }

// GroupClaims returns the plugin that releases the devices of a pod group that fits nowhere, or nil
// if the profile does not enable it at PodGroupPostFilter.
func (i *Instance) GroupClaims() fwk.PodGroupPostFilterPlugin {
	for _, plugin := range i.plugins.PodGroupPostFilter {
		if pl, ok := plugin.(*dynamicresources.DynamicResources); ok {
			return pl
		}
	}
	return nil
}
