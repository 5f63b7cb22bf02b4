// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup holds the groups of pods that are scheduled all or nothing: at least MinMember
// of a group's pods get a node together, or none does.
//
//	PodGroup objects  --- SetGroup, DeleteGroup --> Registry --- Needed --> queue: when a group may
//	pods with a node  --- SetAssigned, Forget   -->                         be tried
//	scheduling loop   --- SetAssumed            -->
//
// A group is one of these objects, where the API server serves them:
//
//	Source            API                           pods name it in
//	SchedulerPlugins  scheduling.x-k8s.io/v1alpha1  a label; Kubeflow Trainer, JobSet and
//	                  of scheduler-plugins          KubeRay write it
//	Kubernetes        scheduling.k8s.io/v1beta1     spec.schedulingGroup; v1alpha2 in 1.36
//
// Groups of Kubernetes may belong to a composite group, which may belong to another one. All groups
// of such a Tree are tried together.
package podgroup
