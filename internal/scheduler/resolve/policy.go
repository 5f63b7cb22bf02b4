// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/suggest"
)

// DefaultPolicyName is the name of the policy of profiles that reference none. If there is no such
// object, the defaults below apply.
const DefaultPolicyName = "default"

// The defaults of a policy, the same as those in the API schema.
const (
	defaultPodInitialBackoff         = time.Second
	defaultPodMaxBackoff             = 10 * time.Second
	defaultPodMaxInUnschedulablePods = 5 * time.Minute
	defaultPercentageOfNodesToScore  = int32(0)
	defaultParallelism               = int32(16)
)

// minPodGroupReserveAfter is the least podGroupReserveAfter: the queue retries groups to the
// second.
const minPodGroupReserveAfter = time.Second

// algorithm is a resolved algorithm source.
type algorithm struct {
	// plugins are the ones that profiles are merged over. They are shared and must not be modified.
	plugins *schedconfig.Plugins
	// provideArgs changes the versioned arguments of a plugin before they are defaulted, as the
	// algorithm source requires.
	provideArgs func(plugin string, args runtime.Object)
	// ownArgs are the arguments that the source gives livesched's own plugins. Those of a profile
	// replace them.
	ownArgs map[string]runtime.Object
	// checkAllFilters means that all filters run even after one has refused a node.
	checkAllFilters bool
}

// base is a resolved policy that profiles build on.
type base struct {
	algorithm
	Settings
	// queueSort is nil if the policy has none.
	queueSort *queueSort
	// ignoredResources are left to extenders: NodeResourcesFit ignores them.
	ignoredResources []string
}

// resolvePolicy checks the spec of the named policy and resolves it, with the Secrets that the spec
// names. The base is usable only if no problems were found.
func (r *resolver) resolvePolicy(name string, spec *v1alpha1.SchedulingPolicySpec,
	secrets map[types.NamespacedName]Secret) (*base, problems) {
	var found problems
	path := field.NewPath("spec")
	b := &base{algorithm: r.resolveSource(spec.AlgorithmSource, path.Child("algorithmSource"), &found)}
	b.Settings = Settings{
		PodInitialBackoff: positive(spec.PodInitialBackoff, defaultPodInitialBackoff,
			path.Child("podInitialBackoff"), &found),
		PodMaxBackoff: positive(spec.PodMaxBackoff, defaultPodMaxBackoff, path.Child("podMaxBackoff"),
			&found),
		PodMaxInUnschedulablePods: positive(spec.PodMaxInUnschedulablePods, defaultPodMaxInUnschedulablePods,
			path.Child("podMaxInUnschedulablePods"), &found),
		PercentageOfNodesToScore: ptr.Deref(spec.PercentageOfNodesToScore, defaultPercentageOfNodesToScore),
		Parallelism:              ptr.Deref(spec.Parallelism, defaultParallelism),
		CheckAllFilters:          b.checkAllFilters,
	}
	if b.PodMaxBackoff < b.PodInitialBackoff {
		found.add(v1alpha1.ReasonInvalid, path.Child("podMaxBackoff"),
			"must not be shorter than podInitialBackoff (%v), is %v", b.PodInitialBackoff, b.PodMaxBackoff)
	}
	if spec.PodGroupReserveAfter != nil {
		b.PodGroupReserveAfter = spec.PodGroupReserveAfter.Duration
		if b.PodGroupReserveAfter < minPodGroupReserveAfter {
			found.add(v1alpha1.ReasonInvalid, path.Child("podGroupReserveAfter"), "must be %v or longer, is %v",
				minPodGroupReserveAfter, b.PodGroupReserveAfter)
		}
	}
	checkPercentage(b.PercentageOfNodesToScore, path.Child("percentageOfNodesToScore"), &found)
	if b.Parallelism < 1 {
		found.add(v1alpha1.ReasonInvalid, path.Child("parallelism"), "must be 1 or more, is %d", b.Parallelism)
	}
	b.Extenders, b.ignoredResources = r.resolveExtenders(name, spec.Extenders, secrets, path.Child("extenders"), &found)
	if spec.QueueSort != nil {
		b.queueSort = r.policyQueueSort(spec.QueueSort, path.Child("queueSort"), &found)
	}
	return b, found
}

// resolveSource resolves the algorithm source.
func (r *resolver) resolveSource(source *v1alpha1.AlgorithmSource, path *field.Path, found *problems) algorithm {
	provider := algorithm{plugins: r.defaults.Profiles[0].Plugins, provideArgs: func(string, runtime.Object) {}}
	switch {
	case source == nil:
		return provider
	case (source.Provider == nil) == (source.Policy == nil):
		found.add(v1alpha1.ReasonInvalid, path, "exactly one of provider and policy must be set")
		return provider
	case source.Policy != nil:
		return r.resolveLegacy(source.Policy, path.Child("policy"), found)
	}
	switch *source.Provider {
	case v1alpha1.DefaultProvider:
	case v1alpha1.ClusterAutoscalerProvider:
		provider.provideArgs = mostAllocated
	default:
		found.add(v1alpha1.ReasonInvalid, path.Child("provider"), "must be %s or %s, is %q", v1alpha1.DefaultProvider,
			v1alpha1.ClusterAutoscalerProvider, *source.Provider)
	}
	return provider
}

// mostAllocated is ClusterAutoscalerProvider: if the arguments of NodeResourcesFit set no scoring
// strategy, it is MostAllocated. Its resources are kube-scheduler's defaults.
func mostAllocated(plugin string, args runtime.Object) {
	if fit, ok := args.(*configv1.NodeResourcesFitArgs); ok && plugin == names.NodeResourcesFit &&
		fit.ScoringStrategy == nil {
		fit.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.MostAllocated}
	}
}

// policyQueueSort checks the queue sort of a policy.
func (r *resolver) policyQueueSort(spec *v1alpha1.QueueSort, path *field.Path, found *problems) *queueSort {
	if !r.checkRegistered(spec.Name, path.Child("name"), found) {
		return nil
	}
	if inTree.Has(spec.Name) && spec.Name != names.PrioritySort {
		found.add(v1alpha1.ReasonInvalid, path.Child("name"), "plugin %q is not a queue sort plugin", spec.Name)
		return nil
	}
	return &queueSort{name: spec.Name, args: decodeArgs(spec.Name, spec.Args.Raw, path.Child("args"), found)}
}

func positive(value *metav1.Duration, unset time.Duration, path *field.Path, found *problems) time.Duration {
	if value == nil {
		return unset
	}
	if value.Duration <= 0 {
		found.add(v1alpha1.ReasonInvalid, path, "must be longer than 0s, is %v", value.Duration)
	}
	return value.Duration
}

func checkPercentage(value int32, path *field.Path, found *problems) {
	if value < 0 || value > 100 {
		found.add(v1alpha1.ReasonInvalid, path, "must be from 0 to 100, is %d", value)
	}
}

// gated are kube-scheduler's plugins that only its feature gates enable. livesched places groups of
// pods, and makes room for deferred resizes, by itself.
var gated = sets.New(names.DeferredPodScheduling, names.GangScheduling, names.PodGroupPodsCount,
	names.TopologyPlacementGenerator)

// PluginNames returns the names of registered plugins that a profile may use, sorted: those that do
// not depend on a feature gate.
func PluginNames(registered sets.Set[string]) []string {
	return sets.List(registered.Difference(gated))
}

// checkRegistered reports whether a plugin is registered, and adds a problem if not.
func (r *resolver) checkRegistered(plugin string, path *field.Path, found *problems) bool {
	if r.input.Registered.Has(plugin) {
		return true
	}
	found.add(v1alpha1.ReasonUnknownPlugin, path, "unknown plugin %q%s", plugin,
		suggest.DidYouMean(plugin, PluginNames(r.input.Registered)))
	return false
}
