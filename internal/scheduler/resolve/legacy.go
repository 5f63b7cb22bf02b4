// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// legacyPolicy is the state of resolving a legacy policy: what its predicates and priorities
// require so far.
type legacyPolicy struct {
	r     *resolver
	found *problems

	// predicates are the table entries of the policy's predicates.
	predicates sets.Set[*LegacyName]
	// weights are the weights of the plugins of the priorities; from holds the priority that each
	// comes from.
	weights map[string]int64
	from    map[string]*field.Path
	// Arguments that several predicates and priorities add to. labels holds the fields of the
	// labels in nodeLabel.
	nodeLabel       nodelabel.Args
	labels          map[labelUse]*field.Path
	serviceAffinity serviceaffinity.Args
	// ownArgs are the arguments of livesched's own plugins.
	ownArgs map[string]runtime.Object
}

// labelUse is the use of a label in the arguments of NodeLabel, which accepts one use of each
// label.
type labelUse struct {
	label    string
	required bool
	presence bool
}

// resolveLegacy resolves a legacy policy. policy must not be nil.
func (r *resolver) resolveLegacy(policy *v1alpha1.LegacyPolicy, path *field.Path, found *problems) algorithm {
	l := &legacyPolicy{
		r: r, found: found,
		predicates: sets.New[*LegacyName](),
		weights:    map[string]int64{}, from: map[string]*field.Path{},
		labels: map[labelUse]*field.Path{}, ownArgs: map[string]runtime.Object{},
	}
	for i := range policy.Predicates {
		l.addPredicate(&policy.Predicates[i], path.Child("predicates").Index(i))
	}
	for i := range policy.Priorities {
		l.addPriority(&policy.Priorities[i], path.Child("priorities").Index(i))
	}
	l.finishArgs()
	weight := policy.HardPodAffinitySymmetricWeight
	if weight != nil && (*weight < 1 || *weight > 100) {
		found.add(v1alpha1.ReasonInvalid, path.Child("hardPodAffinitySymmetricWeight"), "must be from 1 to 100, is %d",
			*weight)
	}
	_, spreads := l.weights[names.PodTopologySpread]
	return algorithm{
		plugins:         l.plugins(policy),
		provideArgs:     legacyArgs(weight, spreads),
		ownArgs:         l.ownArgs,
		checkAllFilters: policy.AlwaysCheckAllPredicates,
	}
}

// legacyArgs returns a function that sets fields of the arguments of kube-scheduler's plugins, if
// they are unset: the weight of the symmetry of required affinity; and list defaulting, so that
// EvenPodsSpreadPriority does not spread pods without topology spread constraints, which is left to
// SelectorSpreadPriority.
func legacyArgs(weight *int32, spreads bool) func(string, runtime.Object) {
	return func(plugin string, args runtime.Object) {
		switch args := args.(type) {
		case *configv1.InterPodAffinityArgs:
			if plugin == names.InterPodAffinity && args.HardPodAffinityWeight == nil && weight != nil {
				args.HardPodAffinityWeight = copied(weight)
			}
		case *configv1.PodTopologySpreadArgs:
			if plugin == names.PodTopologySpread && args.DefaultingType == "" && spreads {
				args.DefaultingType = configv1.ListDefaulting
			}
		}
	}
}

// addPredicate enables the plugins of one predicate.
func (l *legacyPolicy) addPredicate(predicate *v1alpha1.PredicatePolicy, path *field.Path) {
	var arguments map[string]bool
	if a := predicate.Argument; a != nil {
		arguments = map[string]bool{argServiceAffinity: a.ServiceAffinity != nil,
			argLabelsPresence: a.LabelsPresence != nil}
	}
	entry, argument := l.find(legacyPredicates, "predicate", predicate.Name, arguments, path)
	if entry == nil {
		return
	}
	l.predicates.Insert(entry)
	switch argument {
	case argServiceAffinity:
		labels := predicate.Argument.ServiceAffinity.Labels
		l.checkLabels(labels, path.Child("argument", argument, "labels"))
		l.serviceAffinity.AffinityLabels = append(l.serviceAffinity.AffinityLabels, labels...)
	case argLabelsPresence:
		a, path := predicate.Argument.LabelsPresence, path.Child("argument", argument, "labels")
		l.checkLabels(a.Labels, path)
		for i, label := range a.Labels {
			l.useLabel(labelUse{label, true, a.Presence}, path.Index(i))
		}
		if a.Presence {
			l.nodeLabel.PresentLabels = append(l.nodeLabel.PresentLabels, a.Labels...)
		} else {
			l.nodeLabel.AbsentLabels = append(l.nodeLabel.AbsentLabels, a.Labels...)
		}
	}
}

// addPriority enables the plugins of one priority, with its weight.
func (l *legacyPolicy) addPriority(priority *v1alpha1.PriorityPolicy, path *field.Path) {
	if priority.Weight < 1 {
		l.found.add(v1alpha1.ReasonInvalid, path.Child("weight"), "must be 1 or more, is %d", priority.Weight)
		return
	}
	var arguments map[string]bool
	if a := priority.Argument; a != nil {
		arguments = map[string]bool{
			argServiceAntiAffinity: a.ServiceAntiAffinity != nil,
			argLabelPreference:     a.LabelPreference != nil,
			argRequestedToCapacity: a.RequestedToCapacityRatioArguments != nil,
		}
	}
	entry, argument := l.find(legacyPriorities, "priority", priority.Name, arguments, path)
	if entry == nil {
		return
	}
	switch {
	case argument == argServiceAntiAffinity:
		l.addAntiAffinity(priority, path)
	case argument == argLabelPreference:
		l.addPreference(priority, path)
	case argument == argRequestedToCapacity || entry.Name == requestedToCapacityRatioPriority:
		l.addRatio(priority, path)
	default:
		for _, plugin := range entry.Plugins {
			l.weigh(plugin, priority.Weight, path)
		}
	}
}

// addAntiAffinity adds a label to those that ServiceAffinity spreads over. Each brings its weight:
// the plugin takes the mean over the labels.
func (l *legacyPolicy) addAntiAffinity(priority *v1alpha1.PriorityPolicy, path *field.Path) {
	label := priority.Argument.ServiceAntiAffinity.Label
	l.checkLabel(label, path.Child("argument", argServiceAntiAffinity, "label"))
	l.accumulate(serviceaffinity.Name, argServiceAntiAffinity, priority.Weight,
		len(l.serviceAffinity.AntiAffinityLabelsPreference), path)
	l.serviceAffinity.AntiAffinityLabelsPreference = append(l.serviceAffinity.AntiAffinityLabelsPreference, label)
}

// addPreference adds a label to those that NodeLabel prefers, in the same way.
func (l *legacyPolicy) addPreference(priority *v1alpha1.PriorityPolicy, path *field.Path) {
	a, at := priority.Argument.LabelPreference, path.Child("argument", argLabelPreference, "label")
	l.checkLabel(a.Label, at)
	l.useLabel(labelUse{a.Label, false, a.Presence}, at)
	l.accumulate(nodelabel.Name, argLabelPreference, priority.Weight, len(l.nodeLabel.PresentLabelsPreference)+
		len(l.nodeLabel.AbsentLabelsPreference), path)
	if a.Presence {
		l.nodeLabel.PresentLabelsPreference = append(l.nodeLabel.PresentLabelsPreference, a.Label)
	} else {
		l.nodeLabel.AbsentLabelsPreference = append(l.nodeLabel.AbsentLabelsPreference, a.Label)
	}
}

// addRatio sets the function of RequestedToCapacityRatio. A policy can have only one. Without an
// argument it falls from the empty to the full node, as in kube-scheduler up to 1.17.
func (l *legacyPolicy) addRatio(priority *v1alpha1.PriorityPolicy, path *field.Path) {
	const name = noderesources.RequestedToCapacityRatioName
	if first, ok := l.from[name]; ok {
		l.found.add(v1alpha1.ReasonInvalid, path, "a policy can have one priority with %s, and %s is one already",
			argRequestedToCapacity, first)
		return
	}
	at := path.Child("name")
	args := noderesources.Args{Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10},
		{Utilization: 100, Score: 0}}}
	if priority.Argument != nil {
		a := priority.Argument.RequestedToCapacityRatioArguments
		at, args = path.Child("argument", argRequestedToCapacity), noderesources.Args{}
		for _, point := range a.Shape {
			args.Shape = append(args.Shape,
				configv1.UtilizationShapePoint{Utilization: point.Utilization, Score: point.Score})
		}
		for _, resource := range a.Resources {
			args.Resources = append(args.Resources, configv1.ResourceSpec{Name: resource.Name, Weight: resource.Weight})
		}
	}
	l.weigh(name, priority.Weight, path)
	l.setArgs(name, args)
	if err := checkOwnArgs[name](l.ownArgs[name]); err != nil {
		l.found.addArgs(v1alpha1.ReasonInvalid, at, err)
	}
}

// weigh sets the weight of a plugin to the weight of a priority. Two priorities of one plugin must
// agree.
func (l *legacyPolicy) weigh(plugin string, weight int32, path *field.Path) {
	if first, ok := l.from[plugin]; ok {
		if l.weights[plugin] != int64(weight) {
			l.found.add(v1alpha1.ReasonInvalid, path.Child("weight"),
				"must be %d, like the weight of %s: both are plugin %s, which runs once", l.weights[plugin], first,
				plugin)
		}
		return
	}
	l.from[plugin], l.weights[plugin] = path, int64(weight)
}

// accumulate adds the weight of a priority to the weight of a plugin, which is the sum over the
// priorities of the same kind. All must have the same weight, as in kube-scheduler
// (validateCustomPriorities in pkg/scheduler/apis/config/validation there).
func (l *legacyPolicy) accumulate(plugin, argument string, weight int32, others int, path *field.Path) {
	if others == 0 {
		l.from[plugin] = path
	} else if one := l.weights[plugin] / int64(others); one != int64(weight) {
		l.found.add(v1alpha1.ReasonInvalid, path.Child("weight"),
			"must be %d, like the weight of %s: all priorities with a %s must have the same weight", one,
			l.from[plugin], argument)
		weight = int32(one)
	}
	l.weights[plugin] += int64(weight)
	if l.weights[plugin] > math.MaxInt32 {
		l.found.add(v1alpha1.ReasonInvalid, path.Child("weight"),
			"the weights of all priorities with a %s must add up to %d at most", argument, math.MaxInt32)
	}
}

// useLabel records the use of a label, and refuses one that is wanted both present and absent.
func (l *legacyPolicy) useLabel(use labelUse, path *field.Path) {
	opposite := use
	opposite.presence = !use.presence
	if other, ok := l.labels[opposite]; ok {
		l.found.add(v1alpha1.ReasonInvalid, path,
			"label %q cannot be wanted both present and absent; %s wants the opposite", use.label, other)
		return
	}
	l.labels[use] = path
}

// finishArgs sets the arguments that several predicates and priorities add to.
func (l *legacyPolicy) finishArgs() {
	used := sets.KeySet(l.weights)
	for entry := range l.predicates {
		used.Insert(entry.Plugins...)
	}
	if used.Has(nodelabel.Name) {
		l.setArgs(nodelabel.Name, l.nodeLabel)
	}
	if used.Has(serviceaffinity.Name) {
		l.setArgs(serviceaffinity.Name, l.serviceAffinity)
	}
}

func (l *legacyPolicy) setArgs(plugin string, args any) {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("args of plugin %s: %v", plugin, err)) // strings and numbers
	}
	l.ownArgs[plugin] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
}

// find returns the entry of a predicate or priority in the table, and the name of its argument, ""
// if it has none. arguments holds the possible arguments, and whether they are set; nil if there is
// no argument. It returns nil if there are problems.
func (l *legacyPolicy) find(table []LegacyName, kind, name string, arguments map[string]bool,
	path *field.Path) (entry *LegacyName, argument string) {
	if arguments != nil {
		set := sets.New[string]()
		for name, isSet := range arguments {
			if isSet {
				set.Insert(name)
			}
		}
		if set.Len() != 1 {
			l.found.add(v1alpha1.ReasonInvalid, path.Child("argument"), "exactly one of %s must be set",
				strings.Join(sets.List(sets.KeySet(arguments)), ", "))
			return nil, ""
		}
		argument, _ = set.PopAny()
	}
	if entry = l.lookUp(table, kind, name, argument, path); entry == nil {
		return nil, ""
	}
	for _, plugin := range entry.Plugins {
		if !l.r.checkRegistered(plugin, path.Child("name"), l.found) {
			return nil, ""
		}
	}
	return entry, argument
}

// lookUp finds a predicate or priority in the table. Entries with a name match by name and accept
// only their own argument; any other name needs an argument, which decides.
func (l *legacyPolicy) lookUp(table []LegacyName, kind, name, argument string, path *field.Path) *LegacyName {
	named := slices.IndexFunc(table, func(entry LegacyName) bool { return entry.Name != "" && entry.Name == name })
	if named >= 0 {
		entry := &table[named]
		if argument != "" && argument != entry.Argument {
			allowed := "takes no argument"
			if entry.Argument != "" {
				allowed = "takes only the argument " + entry.Argument
			}
			l.found.add(v1alpha1.ReasonInvalid, path.Child("argument", argument), "%s %s %s: choose another name", kind,
				name, allowed)
			return nil
		}
		return entry
	}
	if argument != "" {
		return &table[slices.IndexFunc(table,
			func(entry LegacyName) bool { return entry.Name == "" && entry.Argument == argument })]
	}
	known := slices.Sorted(slices.Values(namesIn(table)))
	l.found.add(v1alpha1.ReasonInvalid, path.Child("name"),
		"unknown %s %q; without an argument the name must be one of %s", kind, name, strings.Join(known, ", "))
	return nil
}

func (l *legacyPolicy) checkLabels(labels []string, path *field.Path) {
	if len(labels) == 0 {
		l.found.add(v1alpha1.ReasonInvalid, path, "must have at least one label")
	}
	for i, label := range labels {
		l.checkLabel(label, path.Index(i))
	}
}

func (l *legacyPolicy) checkLabel(label string, path *field.Path) {
	if label == "" {
		l.found.add(v1alpha1.ReasonInvalid, path, "a label must not be empty")
	}
}
