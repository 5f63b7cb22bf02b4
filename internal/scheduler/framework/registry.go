// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Registry holds the plugin factories by plugin name. It is kube-scheduler's type, so factories of
// its in-tree and of out-of-tree plugins go in unchanged; its Merge refuses a name that both
// registries have.
type Registry = frameworkruntime.Registry

// PluginFactory builds one plugin from its arguments and the profile's handle.
type PluginFactory = frameworkruntime.PluginFactory
