// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
)

// queueSort is the queue sort of a policy, with versioned arguments.
type queueSort struct {
	name string
	args runtime.Object
}

// QueueSort is the order of the scheduling queue that a profile asks for. Equal values are the same
// order.
type QueueSort struct {
	// Name is the name of the plugin.
	Name string
	// Args are the arguments of the plugin as canonical JSON, empty if there are none.
	Args string
}

func (q QueueSort) String() string {
	if q.Args == "" {
		return q.Name
	}
	return q.Name + " with args " + q.Args
}

// applyQueueSort replaces the default queue sort by the queue sort of a policy, unless the profile
// enables its own. custom may be nil.
func applyQueueSort(base, custom *schedconfig.Plugins, sort *queueSort) *schedconfig.Plugins {
	if sort == nil || custom != nil && len(custom.QueueSort.Enabled) > 0 {
		return custom
	}
	if sort.name == names.PrioritySort && sortsByDefault(merge(base, custom)) {
		return custom // this is the default already: the revision must not depend on it
	}
	if custom == nil {
		custom = &schedconfig.Plugins{}
	}
	custom.QueueSort = schedconfig.PluginSet{
		Enabled:  []schedconfig.Plugin{{Name: sort.name}},
		Disabled: []schedconfig.Plugin{{Name: allPlugins}},
	}
	return custom
}

// sortsByDefault reports whether multiPoint adds PrioritySort at queueSort.
func sortsByDefault(merged *schedconfig.Plugins) bool {
	disabled := sets.New(pluginNames(merged.QueueSort.Disabled)...)
	return !disabled.HasAny(allPlugins, names.PrioritySort) && sets.New(pluginNames(merged.MultiPoint.Enabled)...).
		Has(names.PrioritySort)
}

// findQueueSort finds the plugin of a merged set that sorts the queue. It uses names only, since
// profiles have to agree on the queue sort before any of them is built. So an out-of-tree queue
// sort must be named at queueSort, not in multiPoint only.
func findQueueSort(merged *schedconfig.Plugins, found *problems) string {
	path := field.NewPath("spec", "plugins", "queueSort")
	byDefault := sortsByDefault(merged)
	switch enabled := pluginNames(merged.QueueSort.Enabled); {
	case len(enabled) > 1:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled"), "must have one plugin, has %s",
			strings.Join(enabled, ", "))
	case len(enabled) == 0 && !byDefault:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled"),
			"no plugin sorts the queue: enable %s or another queue sort plugin", names.PrioritySort)
	case len(enabled) == 0:
		return names.PrioritySort
	case byDefault && enabled[0] != names.PrioritySort:
		found.add(v1alpha1.ReasonInvalid, path.Child("disabled"),
			`only one plugin can sort the queue: to enable %s, disable %s or "*"`, enabled[0], names.PrioritySort)
	case inTree.Has(enabled[0]) && enabled[0] != names.PrioritySort:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled").Index(0).Child("name"),
			"plugin %q is not a queue sort plugin", enabled[0])
	default:
		return enabled[0]
	}
	return ""
}

// checkBind reports a merged set without a plugin that can bind pods. It reports nothing if an
// out-of-tree plugin might bind.
func checkBind(merged *schedconfig.Plugins, found *problems) {
	path := field.NewPath("spec", "plugins", "bind")
	disabled := sets.New(pluginNames(merged.Bind.Disabled)...)
	candidates := sets.New(pluginNames(merged.Bind.Enabled)...)
	if !disabled.Has(allPlugins) {
		candidates.Insert(sets.New(pluginNames(merged.MultiPoint.Enabled)...).Difference(disabled).UnsortedList()...)
	}
	if candidates.Has(names.DefaultBinder) || candidates.Difference(inTree).Len() > 0 {
		return
	}
	found.add(v1alpha1.ReasonInvalid, path, "no plugin binds pods: enable %s or another bind plugin",
		names.DefaultBinder)
}
