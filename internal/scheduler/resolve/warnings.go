// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Valid values beyond these get a warning.
const (
	// longBackoff is how long a pod waits by default for an event before it is retried without one,
	// and thirty times the default cap on its backoff.
	longBackoff = 5 * time.Minute
	// lowPercentage is the least that kube-scheduler ever chooses by itself.
	lowPercentage = 5
	// shortUnschedulable is how often the queue looks for pods that have been unschedulable for too
	// long.
	shortUnschedulable = 30 * time.Second
)

// warn adds a warning. It has no reason, as it sets no condition.
func (p *problems) warn(path *field.Path, format string, args ...any) {
	p.add("", path, format, args...)
}

// policyWarnings returns the warnings about the spec of a policy without problems.
func policyWarnings(spec *v1alpha1.SchedulingPolicySpec) problems {
	var found problems
	path := field.NewPath("spec")
	if spec.PercentageOfNodesToScore != nil {
		warnPercentage(*spec.PercentageOfNodesToScore, path.Child("percentageOfNodesToScore"), &found)
	}
	if d := spec.PodMaxBackoff; d != nil && d.Duration > longBackoff {
		found.warn(path.Child("podMaxBackoff"), "a pod that failed several times waits up to %v before it is "+
			"retried, even if it could be scheduled long before", d.Duration)
	}
	if d := spec.PodMaxInUnschedulablePods; d != nil && d.Duration < shortUnschedulable {
		found.warn(path.Child("podMaxInUnschedulablePods"),
			"every unschedulable pod is retried every %v, even if nothing changed, which delays the other pods",
			shortUnschedulable)
	}
	for i := range spec.Extenders {
		extenderWarnings(&spec.Extenders[i], path.Child("extenders").Index(i), &found)
	}
	return found
}

func extenderWarnings(spec *v1alpha1.Extender, path *field.Path, found *problems) {
	if spec.FilterVerb == "" && spec.PrioritizeVerb == "" && spec.PreemptVerb == "" && spec.BindVerb == "" {
		found.warn(path, "the extender has no verb: it is never called")
	}
	if spec.Weight != 0 && spec.PrioritizeVerb == "" {
		found.warn(path.Child("weight"), "has no effect without a prioritizeVerb")
	}
	prefix, err := url.Parse(spec.URLPrefix)
	if err != nil {
		return
	}
	switch {
	case prefix.Scheme == "http" && !local(prefix.Hostname()):
		found.warn(path.Child("urlPrefix"), "requests to the extender and its responses are neither encrypted nor "+
			"authenticated: use https:// with tlsConfig")
	case prefix.Scheme == "https" && spec.TLSConfig != nil && spec.TLSConfig.Insecure:
		found.warn(path.Child("tlsConfig", "insecure"),
			"the certificate of the extender is not verified: anyone on the network path can answer in its place")
	case prefix.Scheme == "https" && spec.TLSConfig == nil && spec.EnableHTTPS:
		found.warn(path.Child("enableHTTPS"), "without tlsConfig the certificate of the extender is not verified, as "+
			"in kube-scheduler: set tlsConfig, or leave enableHTTPS out")
	}
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func warnPercentage(value int32, path *field.Path, found *problems) {
	if value > 0 && value < lowPercentage {
		found.warn(path, "the search for nodes ends at %d%% of the nodes or at 100 nodes, whichever is more: in a "+
			"large cluster most nodes are never compared; 0 compares all nodes", value)
	}
}

// profileWarnings returns the warnings about the spec of a profile without problems. merged is its
// plugin set, merged over its policy's.
func (r *resolver) profileWarnings(objectName string, spec *v1alpha1.SchedulerProfileSpec, b *base,
	merged *schedconfig.Plugins) problems {
	var found problems
	path := field.NewPath("spec")
	if !isShadow(spec) && schedulerName(objectName, spec) == corev1.DefaultSchedulerName {
		found.warn(schedulerNamePath(spec), "kube-scheduler schedules pods with this name, too, unless it was "+
			"stopped or has another name: two schedulers with one name may assign the same capacity twice")
	}
	if spec.PercentageOfNodesToScore != nil {
		warnPercentage(*spec.PercentageOfNodesToScore, path.Child("percentageOfNodesToScore"), &found)
	}
	warnRollout(spec, path.Child("rollout"), &found)
	if spec.Plugins != nil {
		warnWeights(spec.Plugins, path.Child("plugins"), &found)
		warnNeverCalled(spec.Plugins, path.Child("plugins"), &found)
		warnDisabled(spec.Plugins, b.plugins, path.Child("plugins"), &found)
	}
	w := missing{spec: spec.Plugins, before: b.plugins, merged: merged, found: &found}
	w.warnMissing()
	w.warnNoScore(b.Extenders)
	w.warnDependents(r.defaults.Profiles[0].Plugins)
	warnArgs(spec.PluginConfig, b, merged, path.Child("pluginConfig"), &found)
	return found
}

// warnWeights reports weights without an effect.
func warnWeights(plugins *v1alpha1.Plugins, path *field.Path, found *problems) {
	for _, point := range points {
		set, path := point.api(plugins), path.Child(point.name)
		for i, plugin := range set.Enabled {
			if plugin.Weight == nil || *plugin.Weight == 0 {
				continue
			}
			path := path.Child("enabled").Index(i).Child("weight")
			switch {
			case !point.weighted:
				found.warn(path, "has no effect at %s: weights count at score and multiPoint", point.name)
			case point.name == "multiPoint" && neverScores(plugin.Name):
				found.warn(path, "has no effect: plugin %q does not score", plugin.Name)
			}
		}
		for i, plugin := range set.Disabled {
			if plugin.Weight != nil && *plugin.Weight != 0 {
				found.warn(path.Child("disabled").Index(i).Child("weight"),
					"has no effect on a plugin that is disabled")
			}
		}
	}
}

func neverScores(plugin string) bool {
	nodes, known := extends(plugin, "score")
	placements, _ := extends(plugin, "placementScore")
	return known && !nodes && !placements
}

// warnNeverCalled reports plugins that are enabled and never called.
func warnNeverCalled(plugins *v1alpha1.Plugins, path *field.Path, found *problems) {
	for _, point := range points {
		set, path := point.api(plugins), path.Child(point.name, "enabled")
		for i, plugin := range set.Enabled {
			switch {
			case point.name == "placementGenerate" || point.name == "placementScore":
				found.warn(path.Index(i),
					"has no effect: livesched places groups of pods by itself and calls no plugin at %s", point.name)
			case gated.Has(plugin.Name):
				found.warn(path.Index(i),
					"has no effect: livesched schedules groups of pods by itself and does not call plugin %q",
					plugin.Name)
			}
		}
	}
}

// warnDisabled reports plugins that are disabled where they would not run in any case: most likely
// another name or another extension point was meant. "*" is never reported.
func warnDisabled(plugins *v1alpha1.Plugins, before *schedconfig.Plugins, path *field.Path, found *problems) {
	custom := internalPlugins(plugins)
	for _, point := range points {
		set, path := point.api(plugins), path.Child(point.name, "disabled")
		for i, plugin := range set.Disabled {
			if plugin.Name == allPlugins || named(point.internal(custom).Enabled, plugin.Name) {
				continue
			}
			if point.name == "multiPoint" {
				if !named(before.MultiPoint.Enabled, plugin.Name) {
					found.warn(path.Index(i),
						"has no effect: the profile builds on a set in which plugin %q is not enabled at multiPoint",
						plugin.Name)
				}
				continue
			}
			added := named(custom.MultiPoint.Enabled, plugin.Name) && mayExtend(plugin.Name, point.name)
			if !added && runsAt(before, point, plugin.Name) == absent {
				found.warn(path.Index(i), "has no effect: plugin %q would not run at %s in any case", plugin.Name,
					point.name)
			}
		}
	}
}

func mayExtend(plugin, point string) bool {
	does, known := extends(plugin, point)
	return does || !known
}

// warnArgs reports arguments of plugins that are not enabled.
func warnArgs(configs []v1alpha1.PluginConfig, b *base, merged *schedconfig.Plugins, path *field.Path,
	found *problems) {
	enabled := enabledNames(merged)
	for i, config := range configs {
		if !enabled.Has(config.Name) {
			found.warn(path.Index(i), "has no effect: plugin %q is not enabled", config.Name)
			continue
		}
		if config.Name == names.NodeResourcesFit && len(b.ignoredResources) > 0 && ignoresResources(config.Args.Raw) {
			found.warn(path.Index(i).Child("args", "ignoredResources"),
				"has no effect: the resources that extenders of the policy manage with ignoredByScheduler take its "+
					"place, as in kube-scheduler")
		}
	}
}

// ignoresResources reports whether valid arguments of NodeResourcesFit name resources to ignore.
func ignoresResources(raw []byte) bool {
	var args struct {
		IgnoredResources []string `json:"ignoredResources"`
	}
	return json.Unmarshal(raw, &args) == nil && len(args.IgnoredResources) > 0
}

// missing reports the consequences of removing plugins from the set that a profile builds on.
type missing struct {
	spec           *v1alpha1.Plugins
	before, merged *schedconfig.Plugins
	found          *problems
}

// consequences lists what happens if a plugin does not run at an extension point. NodeName is
// missing: a pod with spec.nodeName is bound, and no profile sees it. The worst come first, because
// a message names only some of many warnings. Profiles get no warning about plugins that their
// policy lacks already.
var consequences = []struct{ plugin, point, consequence string }{
	{names.SchedulingGates, "preEnqueue",
		"livesched tries to schedule pods with scheduling gates, and the API server refuses to bind them"},
	{names.NodeResourcesFit, "filter",
		"pods are bound to nodes that have no room for them, whose kubelets refuse them"},
	{names.NodeAffinity, "filter", "the nodeSelector and the required node affinity of pods are ignored: pods are " +
		"bound to nodes whose kubelets refuse them"},
	{names.NodePorts, "filter",
		"pods are bound to nodes on which their host ports are taken, whose kubelets refuse them"},
	{names.TaintToleration, "filter", "taints are ignored: pods are bound to nodes that are reserved or failing, and " +
		"pods that do not tolerate NoExecute are evicted"},
	{names.NodeUnschedulable, "filter", "pods are bound to nodes that are cordoned"},
	{names.PodTopologySpread, "filter",
		"topology spread constraints with whenUnsatisfiable: DoNotSchedule are ignored"},
	{names.InterPodAffinity, "filter", "the required affinity and anti-affinity between pods are ignored"},
	{names.VolumeBinding, "filter", "pods are bound to nodes that their volumes cannot be reached from, and claims " +
		"that wait for their first pod are never bound"},
	{names.DynamicResources, "filter", "devices that pods claim are not allocated: such pods do not start"},
	{names.VolumeRestrictions, "filter",
		"pods are bound although another pod has their volume for itself (ReadWriteOncePod): they do not start"},
	{names.NodeVolumeLimits, "filter",
		"pods are bound to nodes to which no more volumes can be attached, where they do not start"},
	{names.VolumeZone, "filter", "pods are bound to nodes outside the zones of their volumes, where they do not start"},
	{names.NodeDeclaredFeatures, "filter",
		"pods are bound to nodes that lack features that they need, whose kubelets refuse them"},
}

func (m *missing) warnMissing() {
	for _, c := range consequences {
		at := pointNamed(c.point)
		if runsAt(m.before, at, c.plugin) == present && runsAt(m.merged, at, c.plugin) == absent {
			m.found.warn(m.culprit(at, c.plugin), "without %s at %s, %s", c.plugin, c.point, c.consequence)
		}
	}
	preempts := pointNamed("postFilter")
	if runsAt(m.before, preempts, names.DefaultPreemption) == present && onlyDevices(m.merged, preempts) {
		m.found.warn(m.culprit(preempts, names.DefaultPreemption),
			"without %s at postFilter, pods of higher priority wait for room instead of preempting others",
			names.DefaultPreemption)
	}
}

// onlyDevices reports whether no plugin runs at postFilter, except possibly DynamicResources, which
// frees devices and evicts no pod.
func onlyDevices(merged *schedconfig.Plugins, postFilter point) bool {
	for name := range enabledNames(merged) {
		if name != names.DynamicResources && runsAt(merged, postFilter, name) != absent {
			return false
		}
	}
	return true
}

// warnNoScore reports a profile without a plugin or extender that scores nodes.
func (m *missing) warnNoScore(extenders []Extender) {
	score := pointNamed("score")
	if anyAt(m.before, score) == absent || anyAt(m.merged, score) != absent {
		return
	}
	for i := range extenders {
		if extenders[i].PrioritizeVerb != "" {
			return
		}
	}
	m.found.warn(m.culprit(score, allPlugins),
		"no plugin scores nodes: a pod is bound to an arbitrary one of the nodes that it fits")
}

// dependents are plugins that fail at later extension points if they were not called at an earlier
// one.
var dependents = []struct {
	plugin, needed string
	by             []string
}{
	{names.NodeResourcesFit, "preFilter", []string{"filter"}},
	{names.NodePorts, "preFilter", []string{"filter"}},
	{names.VolumeRestrictions, "preFilter", []string{"filter"}},
	{names.VolumeBinding, "preFilter", []string{"filter", "reserve", "preBind"}},
	{names.PodTopologySpread, "preFilter", []string{"filter"}},
	{names.InterPodAffinity, "preFilter", []string{"filter"}},
	{names.DynamicResources, "preFilter", []string{"filter"}},
	{names.NodeDeclaredFeatures, "preFilter", []string{"filter"}},
	{names.TaintToleration, "preScore", []string{"score"}},
	{names.PodTopologySpread, "preScore", []string{"score"}},
	{names.InterPodAffinity, "preScore", []string{"score"}},
}

// warnDependents reports plugins that fail every pod since they are disabled at a point that they
// depend on. defaults has those whose feature gates are on: others do nothing at either point.
func (m *missing) warnDependents(defaults *schedconfig.Plugins) {
	for _, h := range dependents {
		needed := pointNamed(h.needed)
		if !named(defaults.MultiPoint.Enabled, h.plugin) || runsAt(m.merged, needed, h.plugin) == present {
			continue
		}
		for _, by := range h.by {
			if runsAt(m.merged, pointNamed(by), h.plugin) == present && runsAt(m.before, needed, h.plugin) == present {
				m.found.warn(m.culprit(needed, h.plugin),
					"%s at %s needs what it computes at %s, which is disabled: every pod fails", h.plugin, by, h.needed)
				break
			}
		}
	}
}

// culprit returns the field that keeps a plugin from running at an extension point.
func (m *missing) culprit(at point, plugin string) *field.Path {
	path := field.NewPath("spec", "plugins")
	if m.spec == nil {
		return field.NewPath("spec", "policyRef", "name")
	}
	for _, list := range []struct {
		disabled []v1alpha1.Plugin
		path     *field.Path
	}{
		{at.api(m.spec).Disabled, path.Child(at.name, "disabled")},
		{m.spec.MultiPoint.Disabled, path.Child("multiPoint", "disabled")},
	} {
		for i, disabled := range list.disabled {
			if disabled.Name == plugin || disabled.Name == allPlugins {
				return list.path.Index(i)
			}
		}
	}
	return path.Child(at.name)
}

// withWarnings returns the message of an accepted spec.
func withWarnings(message string, warnings problems) string {
	if len(warnings) == 0 {
		return message
	}
	return fmt.Sprintf("%s. Warnings: %s", message, warnings.message())
}
