// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	resourcev1defaults "k8s.io/kubernetes/pkg/apis/resource/v1"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

var specPath = field.NewPath("spec")

// Parse reads a simulation, except for its profiles and policies. The error is an *InvalidError.
func Parse(s *v1alpha1.Simulation) (Request, error) {
	var errs field.ErrorList
	path := specPath.Child("pods")
	spec := &s.Spec
	r := Request{Seed: uint64(spec.Seed), Pods: Selection{
		Type: cmp.Or(spec.Pods.Type, v1alpha1.PodsLast), Limit: int(cmp.Or(spec.Pods.Limit, DefaultPods)),
		Namespace:     s.Metadata.Namespace,
		SchedulerName: spec.SchedulerName, Of: spec.Pods.SchedulerName,
	}, NodeAllocations: spec.NodeAllocations}
	switch r.Pods.Type {
	case v1alpha1.PodsLast, v1alpha1.PodsPending, v1alpha1.PodsAll:
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), r.Pods.Type,
			[]v1alpha1.PodSelectionType{v1alpha1.PodsLast, v1alpha1.PodsPending, v1alpha1.PodsAll}))
	}
	errs = append(errs, checkLimit(path.Child("limit"), r.Pods.Limit)...)
	for i := range spec.Profiles {
		errs = append(errs, checkName(specPath.Child("profiles").Index(i), spec.Profiles[i].Name)...)
	}
	for i := range spec.Policies {
		errs = append(errs, checkName(specPath.Child("policies").Index(i), spec.Policies[i].Name)...)
	}
	errs = append(errs, parseNames(path.Child("names"), spec.Pods.Names, &r.Pods)...)
	r.Pods.Labels = parseSelector(path.Child("labelSelector"), spec.Pods.LabelSelector, &errs)
	r.Nodes = parseNodes(&spec.Nodes, &errs)
	return r, invalid(errs)
}

// parseNames reads the names of pods, which are unique in one namespace only.
func parseNames(path *field.Path, names []string, s *Selection) field.ErrorList {
	switch {
	case len(names) == 0:
		return nil
	case s.Namespace == "":
		return field.ErrorList{
			field.Forbidden(path, "a simulation in all namespaces does not select pods by their names")}
	case len(names) > MaxPods:
		return field.ErrorList{field.TooMany(path, len(names), MaxPods)}
	}
	s.Names = sets.New(names...)
	return nil
}

// ParseCapacity reads a question about capacity. The error is an *InvalidError.
func ParseCapacity(c *v1alpha1.Capacity) (CountRequest, error) {
	var errs field.ErrorList
	spec := &c.Spec
	r := CountRequest{Pod: spec.Pod.DeepCopy(), Limit: int(cmp.Or(spec.Limit, MaxPods)), Seed: uint64(spec.Seed)}
	corev1defaults.SetObjectDefaults_Pod(r.Pod)
	r.Pod.Namespace, r.Pod.Status = c.Metadata.Namespace, corev1.PodStatus{}
	r.Pod.Name = cmp.Or(r.Pod.Name, r.Pod.GenerateName, "pod")
	path := specPath.Child("pod", "spec")
	if r.Pod.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "the pod must not be on a node"))
	}
	if len(r.Pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("schedulingGates"), "a pod with gates is not scheduled"))
	}
	if len(r.Pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	errs = append(errs, checkLimit(specPath.Child("limit"), r.Limit)...)
	r.ClaimTemplates = parseClaimTemplates(spec.ResourceClaimTemplates, &errs)
	if spec.PodGroup != nil {
		r.Group = parseGroup(spec.PodGroup, r.Pod, r.Limit, &errs)
	}
	r.Nodes = parseNodes(&spec.Nodes, &errs)
	return r, invalid(errs)
}

// parseClaimTemplates returns the specs of claims, with the API server's defaults, by the names of
// their templates.
func parseClaimTemplates(templates []v1alpha1.CapacityClaimTemplate,
	errs *field.ErrorList) map[string]resourcev1.ResourceClaimSpec {
	path, specs := specPath.Child("resourceClaimTemplates"), map[string]resourcev1.ResourceClaimSpec{}
	for i := range templates {
		name := templates[i].Name
		switch _, twice := specs[name]; {
		case name == "":
			*errs = append(*errs, field.Required(path.Index(i).Child("name"), ""))
		case twice:
			*errs = append(*errs, field.Duplicate(path.Index(i).Child("name"), name))
		}
		claim := resourcev1.ResourceClaim{Spec: *templates[i].Spec.DeepCopy(),
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "claim"}}
		resourcev1defaults.SetObjectDefaults_ResourceClaim(&claim)
		for _, err := range validateClaim(&claim) {
			err.Field = path.Index(i).Child(err.Field).String()
			*errs = append(*errs, err)
		}
		specs[name] = claim.Spec
	}
	return specs
}

// validateClaim validates a claim as the API server does.
func validateClaim(claim *resourcev1.ResourceClaim) field.ErrorList {
	internal := &resourceapi.ResourceClaim{}
	if err := resourcev1defaults.Convert_v1_ResourceClaim_To_resource_ResourceClaim(claim, internal, nil); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	return resourcevalidation.ValidateResourceClaim(internal)
}

// parseGroup returns the group whose pods are counted together. It has the name of the pod.
func parseGroup(g *v1alpha1.CapacityPodGroup, pod *corev1.Pod, limit int, errs *field.ErrorList) *podgroup.Group {
	path := specPath.Child("podGroup")
	if size := int(g.MinMember); size < 1 || size > limit {
		*errs = append(*errs, field.Invalid(path.Child("minMember"), size,
			fmt.Sprintf("must be from 1 to the limit of pods, %d", limit)))
	}
	topology := podgroup.Topology{Required: g.RequiredTopology, Preferred: g.PreferredTopology}
	if topology.Required != "" {
		if err := podgroup.CheckKeys(topology.Required); err != nil {
			*errs = append(*errs, field.Invalid(path.Child("requiredTopology"), topology.Required, err.Error()))
		}
	}
	if err := podgroup.CheckKeys(topology.Preferred...); err != nil {
		*errs = append(*errs, field.Invalid(path.Child("preferredTopology"), topology.Preferred, err.Error()))
	}
	return &podgroup.Group{Key: podgroup.Key{Namespace: pod.Namespace, Name: pod.Name}, MinMember: int(g.MinMember),
		Topology: topology}
}

func invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return &InvalidError{errs}
}

func checkName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("metadata", "name"), "")}
	}
	return nil
}

func checkLimit(path *field.Path, limit int) field.ErrorList {
	if limit < 1 || limit > MaxPods {
		return field.ErrorList{field.Invalid(path, limit, "must be from 1 to 5000")}
	}
	return nil
}

func parseSelector(path *field.Path, text string, errs *field.ErrorList) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		*errs = append(*errs, field.Invalid(path, text, err.Error()))
		return labels.Nothing()
	}
	return selector
}

func parseNodes(n *v1alpha1.NodeChanges, errs *field.ErrorList) Nodes {
	path := specPath.Child("nodes")
	nodes, added := Nodes{Remove: n.Remove}, 0
	for i, addition := range n.Add {
		if addition.Count < 1 || addition.Count > MaxAddedNodes {
			*errs = append(*errs,
				field.Invalid(path.Child("add").Index(i).Child("count"), addition.Count, "must be from 1 to 5000"))
			continue
		}
		added += int(addition.Count)
		nodes.Add = append(nodes.Add, Addition{Like: addition.Like, Count: int(addition.Count)})
	}
	if added > MaxAddedNodes {
		*errs = append(*errs, field.TooMany(path.Child("add"), added, MaxAddedNodes))
	}
	if n.RemoveSelector != "" {
		nodes.RemoveLabels = parseSelector(path.Child("removeSelector"), n.RemoveSelector, errs)
	}
	return nodes
}
