// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API types of livesched: SchedulerProfile, one set of scheduling rules that pods
// choose by name, and SchedulingPolicy, what profiles build on and share. Both are cluster-scoped.
//
// The package has types, validation markers and constants, and no behaviour. What a schema can check is checked
// when an object is applied; what needs the plugin registry is checked by livesched and reported in the object's
// conditions.
//
// Comments of types and fields are wrapped at 76 characters, for kubectl explain
// shows their lines as they are.
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
