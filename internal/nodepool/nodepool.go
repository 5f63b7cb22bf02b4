// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodepool derives the pool of a node from its labels.
package nodepool

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// None is the pool of nodes without one.
const None = "-"

// poolLabels name the pool of a node, with the provider that sets them.
var poolLabels = []string{
	"cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
	"karpenter.sh/nodepool",
}

const roleLabel = "node-role.kubernetes.io/"

// Of returns the pool of a node: that of the provider, or else its roles, or else its instance
// type.
func Of(node *corev1.Node) string {
	for _, label := range poolLabels {
		if pool := node.Labels[label]; pool != "" {
			return pool
		}
	}
	var roles []string
	for label := range node.Labels {
		if role, ok := strings.CutPrefix(label, roleLabel); ok && role != "" {
			roles = append(roles, role)
		}
	}
	if len(roles) > 0 {
		slices.Sort(roles)
		return strings.Join(roles, ",")
	}
	return cmp.Or(node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType], None)
}
