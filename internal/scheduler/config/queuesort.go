// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

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

// QueueSort is how a profile wants the scheduling queue to be ordered. Two are the same order if
// they are equal.
type QueueSort struct {
	// Name of the plugin.
	Name string
	// Args of the plugin as canonical JSON, empty where there are none.
	Args string
}

func (q QueueSort) String() string {
	if q.Args == "" {
		return q.Name
	}
	return q.Name + " with args " + q.Args
}

// applyQueueSort puts the queue sort of a policy in the place of the default one, unless the
// profile enables one of its own. custom may be nil.
func applyQueueSort(base, custom *schedconfig.Plugins, sort *queueSort) *schedconfig.Plugins {
	if sort == nil || custom != nil && len(custom.QueueSort.Enabled) > 0 {
		return custom
	}
	if sort.name == names.PrioritySort && sortsByDefault(merge(base, custom)) {
		return custom // to say so is no change: the revision must not depend on it
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

// sortsByDefault says whether multiPoint adds PrioritySort at queueSort.
func sortsByDefault(merged *schedconfig.Plugins) bool {
	disabled := sets.New(pluginNames(merged.QueueSort.Disabled)...)
	return !disabled.HasAny(allPlugins, names.PrioritySort) && sets.New(pluginNames(merged.MultiPoint.Enabled)...).Has(names.PrioritySort)
}

// findQueueSort tells from names alone which plugin of a merged set sorts the queue, since profiles
// have to agree on it before any of them is built. Hence the rule that an out-of-tree queue sort is
// named at queueSort, not in multiPoint alone.
func findQueueSort(merged *schedconfig.Plugins, found *problems) string {
	path := field.NewPath("spec", "plugins", "queueSort")
	byDefault := sortsByDefault(merged)
	switch enabled := pluginNames(merged.QueueSort.Enabled); {
	case len(enabled) > 1:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled"), "only one plugin can sort the queue; enabled are %s", strings.Join(enabled, ", "))
	case len(enabled) == 0 && !byDefault:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled"), "no plugin is left that sorts the queue: enable %s or another one", names.PrioritySort)
	case len(enabled) == 0:
		return names.PrioritySort
	case byDefault && enabled[0] != names.PrioritySort:
		found.add(v1alpha1.ReasonInvalid, path.Child("disabled"), `only one plugin can sort the queue: to enable %s, disable %s or "*"`, enabled[0], names.PrioritySort)
	case inTree().Has(enabled[0]) && enabled[0] != names.PrioritySort:
		found.add(v1alpha1.ReasonInvalid, path.Child("enabled").Index(0).Child("name"), "plugin %q does not sort queues", enabled[0])
	default:
		return enabled[0]
	}
	return ""
}

// checkBind reports a merged set in which no plugin can be left that binds pods. It is silent when
// an out-of-tree plugin might.
func checkBind(merged *schedconfig.Plugins, found *problems) {
	path := field.NewPath("spec", "plugins", "bind")
	disabled := sets.New(pluginNames(merged.Bind.Disabled)...)
	candidates := sets.New(pluginNames(merged.Bind.Enabled)...)
	if !disabled.Has(allPlugins) {
		candidates.Insert(sets.New(pluginNames(merged.MultiPoint.Enabled)...).Difference(disabled).UnsortedList()...)
	}
	if candidates.Has(names.DefaultBinder) || candidates.Difference(inTree()).Len() > 0 {
		return
	}
	found.add(v1alpha1.ReasonInvalid, path, "no plugin is left that binds pods: enable %s or another one", names.DefaultBinder)
}
