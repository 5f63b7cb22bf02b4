// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// namespace is the namespace of the tour's Deployments.
const namespace = metav1.NamespaceDefault

// replicasFor keeps a workload smaller than the cluster, so that a spread workload has a node for
// each pod and the tour is short.
func replicasFor(nodes int) int32 { return int32(min(max(nodes*3/5, minNodes), 300)) }

func (w workload) labels() map[string]string { return map[string]string{"app": w.name} }

// deployment returns a Deployment that requests CPU and memory in the proportion of the nodes'
// capacity. Eight pods fill the smallest node.
func (w workload) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: namespace, Labels: w.labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(w.replicas),
			Selector: &metav1.LabelSelector{MatchLabels: w.labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: w.labels()},
				Spec: corev1.PodSpec{
					SchedulerName: w.schedulerName,
					Containers: []corev1.Container{{
						Name:  "main",
						Image: "registry.k8s.io/pause:3.10", // never pulled
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU:    resource.MustParse("500m"),
							corev1.ResourceMemory: resource.MustParse("2Gi"),
						}},
					}},
				},
			},
		},
	}
}

const greedyPodName = "greedy"

// greedyPod returns a pod for one node that requests all CPU of the node.
func greedyPod(node *corev1.Node) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: greedyPodName},
		Spec: corev1.PodSpec{
			SchedulerName: "binpack",
			NodeSelector:  map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]},
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: node.Status.Allocatable[corev1.ResourceCPU]}},
			}},
		},
	}
}
