// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxSchedulerName is the longest scheduler name, since it is the reporting controller of Events,
// whose names are no longer (k8s.io/apimachinery/pkg/api/validate/content, IsQualifiedName).
const maxSchedulerName = 63

var schedulerNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// SchedulerName returns the name by which pods choose a profile: the spec's or, by default, the
// object's.
func SchedulerName(profile *v1alpha1.SchedulerProfile) string {
	return schedulerName(profile.Name, &profile.Spec)
}

func schedulerName(objectName string, spec *v1alpha1.SchedulerProfileSpec) string {
	return cmp.Or(spec.SchedulerName, objectName)
}

// policyName returns the name of the policy that a profile builds on.
func policyName(spec *v1alpha1.SchedulerProfileSpec) string {
	return cmp.Or(spec.PolicyRef.Name, DefaultPolicyName)
}

// resolveProfile checks the spec of a profile and merges it over its policy. The profile is nil if
// problems were found.
func (r *resolver) resolveProfile(objectName string, spec *v1alpha1.SchedulerProfileSpec,
	b *base) (*Profile, problems) {
	path, name := field.NewPath("spec"), schedulerName(objectName, spec)
	found := r.checkFields(objectName, spec)
	shadow, followed := r.followed(spec, &found)
	if shadow != nil {
		name = followed
	}

	custom := applyQueueSort(b.plugins, internalPlugins(spec.Plugins), b.queueSort)
	merged := merge(b.plugins, custom)
	args := r.resolveArgs(spec.PluginConfig, b, merged, path.Child("pluginConfig"), &found)
	if len(found) > 0 {
		return nil, found // consequences of wrong names would only confuse
	}
	sortedBy := findQueueSort(merged, &found)
	checkBind(merged, &found)
	if len(found) > 0 {
		return nil, found
	}

	p := &Profile{
		Name:          objectName,
		SchedulerName: name,
		Shadow:        shadow,
		PolicyName:    policyName(spec),
		Config: &schedconfig.KubeSchedulerProfile{
			SchedulerName:            name,
			PercentageOfNodesToScore: copied(spec.PercentageOfNodesToScore),
			Plugins:                  merged,
			PluginConfig:             args,
		},
		Settings: b.Settings,
	}
	p.PercentageOfNodesToScore = ptr.Deref(spec.PercentageOfNodesToScore, b.PercentageOfNodesToScore)
	if err := p.identify(sortedBy); err != nil {
		found.add(v1alpha1.ReasonInvalidArgs, path.Child("pluginConfig"), "%v", err)
		return nil, found
	}
	return p, nil
}

// checkWithoutPolicy checks the part of a profile's spec that does not depend on its policy.
func (r *resolver) checkWithoutPolicy(objectName string, spec *v1alpha1.SchedulerProfileSpec) problems {
	found := r.checkFields(objectName, spec)
	r.followed(spec, &found)
	b := r.noPolicy.base
	r.resolveArgs(spec.PluginConfig, b, merge(b.plugins, internalPlugins(spec.Plugins)),
		field.NewPath("spec", "pluginConfig"), &found)
	return found
}

// checkFields checks the fields of a profile other than arguments, each by itself.
func (r *resolver) checkFields(objectName string, spec *v1alpha1.SchedulerProfileSpec) problems {
	var found problems
	path := field.NewPath("spec")
	checkSchedulerName(objectName, spec, &found)
	if spec.PercentageOfNodesToScore != nil {
		checkPercentage(*spec.PercentageOfNodesToScore, path.Child("percentageOfNodesToScore"), &found)
	}
	r.checkPlugins(spec.Plugins, path.Child("plugins"), &found)
	return found
}

func checkSchedulerName(objectName string, spec *v1alpha1.SchedulerProfileSpec, found *problems) {
	name, path := schedulerName(objectName, spec), schedulerNamePath(spec)
	if len(name) > maxSchedulerName {
		found.add(v1alpha1.ReasonInvalid, path, "a scheduler name must have at most %d characters, this one has %d",
			maxSchedulerName, len(name))
	} else if !schedulerNamePattern.MatchString(name) {
		found.add(v1alpha1.ReasonInvalid, path, "a scheduler name must consist of lower case letters, digits, '-' "+
			"and '.', and begin and end with a letter or digit; %q does not", name)
	}
}

// schedulerNamePath returns the field that the scheduler name comes from.
func schedulerNamePath(spec *v1alpha1.SchedulerProfileSpec) *field.Path {
	if spec.SchedulerName == "" {
		return field.NewPath("metadata", "name")
	}
	return field.NewPath("spec", "schedulerName")
}

// checkPlugins checks names and weights at every extension point. Weights have 32 bits, so that
// totals of scores (64 bits) cannot overflow.
func (r *resolver) checkPlugins(plugins *v1alpha1.Plugins, path *field.Path, found *problems) {
	if plugins == nil {
		return
	}
	for _, point := range points {
		set, path := point.api(plugins), path.Child(point.name)
		seen := sets.New[string]()
		for i, plugin := range set.Enabled {
			path := path.Child("enabled").Index(i)
			switch {
			case plugin.Name == allPlugins:
				found.add(v1alpha1.ReasonInvalid, path.Child("name"),
					"%q stands for all plugins: it can be disabled but not enabled", allPlugins)
			case seen.Has(plugin.Name):
				found.add(v1alpha1.ReasonInvalid, path.Child("name"), "plugin %q is enabled twice", plugin.Name)
			case r.checkRegistered(plugin.Name, path.Child("name"), found):
				checkExtends(plugin.Name, point.name, path.Child("name"), found)
			}
			if plugin.Weight != nil && *plugin.Weight < 0 {
				found.add(v1alpha1.ReasonInvalid, path.Child("weight"), "must be 0 (which means 1) or more, is %d",
					*plugin.Weight)
			}
			seen.Insert(plugin.Name)
		}
		seen = sets.New[string]()
		for i, plugin := range set.Disabled {
			path := path.Child("disabled").Index(i).Child("name")
			switch {
			case seen.Has(plugin.Name):
				found.add(v1alpha1.ReasonInvalid, path, "plugin %q is disabled twice", plugin.Name)
			case plugin.Name != allPlugins:
				r.checkRegistered(plugin.Name, path, found)
			}
			seen.Insert(plugin.Name)
		}
	}
}

// checkExtends reports one of kube-scheduler's own plugins at a point that it does not extend: the
// build of the profile would fail, as the start of kube-scheduler does. Other plugins are checked
// by the build, and queue sorts with the merged set.
func checkExtends(plugin, point string, path *field.Path, found *problems) {
	if point == "multiPoint" || point == "queueSort" {
		return
	}
	if does, known := extends(plugin, point); known && !does {
		found.add(v1alpha1.ReasonInvalid, path, "plugin %q does not extend %s; it extends %s", plugin, point,
			strings.Join(inTreePoints[plugin], ", "))
	}
}

// resolveArgs resolves the arguments of all plugins of a merged set: first the arguments in the
// profile, in its order, then the arguments of the policy's queue sort, then defaults for the other
// plugins.
func (r *resolver) resolveArgs(configs []v1alpha1.PluginConfig, b *base, merged *schedconfig.Plugins, path *field.Path,
	found *problems) []schedconfig.PluginConfig {
	var resolved []schedconfig.PluginConfig
	given := sets.New[string]()
	for i, config := range configs {
		path := path.Index(i)
		if given.Has(config.Name) {
			found.add(v1alpha1.ReasonInvalid, path.Child("name"), "plugin %q is configured twice", config.Name)
			continue
		}
		given.Insert(config.Name)
		if !r.checkRegistered(config.Name, path.Child("name"), found) {
			continue
		}
		before := len(*found)
		args := decodeArgs(config.Name, config.Args.Raw, path.Child("args"), found)
		if len(*found) > before {
			continue
		}
		resolved = append(resolved, r.complete(config.Name, args, b, path.Child("args"), found))
	}
	if q := b.queueSort; q != nil && q.args != nil && !given.Has(q.name) &&
		slices.Equal(pluginNames(merged.QueueSort.Enabled), []string{q.name}) {
		given.Insert(q.name)
		resolved = append(resolved,
			r.complete(q.name, q.args.DeepCopyObject(), b, field.NewPath("spec", "policyRef"), found))
	}
	for _, name := range sets.List(enabledNames(merged)) {
		if given.Has(name) {
			continue
		}
		args, err := newArgs(name)
		if own := b.ownArgs[name]; own != nil {
			args = own.DeepCopyObject()
		}
		if err != nil {
			found.add(v1alpha1.ReasonInvalidArgs, path, "making default args for plugin %q: %v", name, err)
		} else if args != nil {
			resolved = append(resolved, r.complete(name, args, b, path, found))
		}
	}
	return resolved
}

// complete sets the unset fields of versioned arguments, first from the algorithm source, then to
// kube-scheduler's defaults, and validates the result.
func (r *resolver) complete(plugin string, args runtime.Object, b *base, path *field.Path,
	found *problems) schedconfig.PluginConfig {
	b.provideArgs(plugin, args)
	internal, err := completeArgs(args)
	if err != nil {
		found.add(v1alpha1.ReasonInvalidArgs, path, "%v", err)
		return schedconfig.PluginConfig{Name: plugin}
	}
	found.addArgs(v1alpha1.ReasonInvalidArgs, path, validateArgs(r.defaults, plugin, internal)...)
	if fit, ok := internal.(*schedconfig.NodeResourcesFitArgs); ok && plugin == names.NodeResourcesFit &&
		len(b.ignoredResources) > 0 {
		// This replaces the profile's own, as in kube-scheduler (buildExtenders in
		// pkg/scheduler/scheduler.go).
		fit.IgnoredResources = slices.Clone(b.ignoredResources)
	}
	return schedconfig.PluginConfig{Name: plugin, Args: internal}
}

func copied[T any](value *T) *T {
	if value == nil {
		return nil
	}
	result := *value
	return &result
}

// identify sets the fields by which profiles are compared: the queue sort and the revision.
func (p *Profile) identify(sortedBy string) error {
	p.QueueSort.Name = sortedBy
	for _, config := range p.Config.PluginConfig {
		if config.Name != sortedBy {
			continue
		}
		args, err := canonicalArgs(config.Args)
		if err != nil {
			return fmt.Errorf("args of plugin %q: %w", sortedBy, err)
		}
		if string(args) != "{}" {
			p.QueueSort.Args = string(args)
		}
	}
	var err error
	p.Revision, err = revision(p)
	return err
}
