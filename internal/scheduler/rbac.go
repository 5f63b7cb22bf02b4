// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// The API access of the scheduler and the in-tree plugins. config/rbac/role.yaml is generated from
// it. Upstream's roles system:kube-scheduler and system:volume-scheduler
// (plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go) grant more: verbs that informers and
// the plugins of this version do not use. A test of cmd/livesched/app fails if a right is unused.
//
// What pods, nodes and their Events need. The leader's election and the tracker of resource slices
// write core Events:
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/binding,verbs=create
// +kubebuilder:rbac:groups="",resources=nodes;namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// What selects pods, and protects them from preemption:
// +kubebuilder:rbac:groups="",resources=services;replicationcontrollers,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=replicasets;statefulsets,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch
//
// What groups of pods need, in all versions of the APIs:
// +kubebuilder:rbac:groups=scheduling.x-k8s.io,resources=podgroups,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups;compositepodgroups,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.x-k8s.io,resources=podgroups/status,verbs=patch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups/status,verbs=patch
//
// What volumes need:
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=list;watch;update
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csinodes;csidrivers;csistoragecapacities;volumeattachments,verbs=list;watch
//
// What dynamic resource allocation needs. devicetaintrules is for the feature gate
// DRADeviceTaintRules, which is on by default. The API server checks the last two rights besides
// others: to allocate a claim, and to create a claim that a pod owns if it enforces permissions for
// owner references:
// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses;devicetaintrules;resourceslices,verbs=list;watch
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get;list;watch;create;delete;update
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims/status,verbs=patch;update
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims/binding,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=pods/finalizers,verbs=update
