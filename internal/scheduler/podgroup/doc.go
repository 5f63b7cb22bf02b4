// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup holds the groups of pods that are scheduled all or nothing: at least MinMember
// of a group's pods get a node together, or none does.
//
//	PodGroup objects  --- SetGroup, DeleteGroup --> Registry --- Needed --> queue: when a group may
//	pods with a node  --- SetAssigned, Forget   -->                         be tried
//	scheduling loop   --- SetAssumed            -->
//
// A group is a PodGroup of the API group scheduling.x-k8s.io, which the project scheduler-plugins
// defines and Kubeflow Trainer, JobSet and KubeRay write. Its pods name it in a label.
package podgroup
