// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the API types of livesched: SchedulerProfile, which configures the
// scheduling of the pods that select it by name, and SchedulingPolicy, which holds settings that
// profiles share. Both are cluster-scoped. PodExplanation, DecisionList, Simulation and Capacity
// are answers of livesched, which it computes for each request. They are not stored.
//
// The package has types, validation markers and constants, and no behaviour. The API server checks
// what a schema can express when an object is applied. livesched checks what needs the plugin
// registry, and reports the result in the object's conditions.
//
// Comments of types and fields wrap at 76 characters, because kubectl explain keeps their line
// breaks. They are the API reference: docs/reference/api.md is generated from them.
//
// +kubebuilder:object:generate=true
// +groupName=livesched.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of the types in this package.
	GroupVersion = schema.GroupVersion{Group: "livesched.io", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add this package's types to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SchedulerProfile{},
		&SchedulerProfileList{},
		&SchedulingPolicy{},
		&SchedulingPolicyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
