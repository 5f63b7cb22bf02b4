// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"slices"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// WithoutUnseenArgs returns a resolved profile without the default arguments of plugins that run as
// podGroupPostFilter only, if kube-scheduler has none for them in the same profile: it does not
// look at that extension point when it adds them (pluginsNames in
// pkg/scheduler/apis/config/v1/defaults.go), and uses the defaults when it builds the plugin.
func WithoutUnseenArgs(resolved, kubeScheduler *schedconfig.KubeSchedulerProfile) *schedconfig.KubeSchedulerProfile {
	seen := *resolved
	seen.PluginConfig = slices.DeleteFunc(slices.Clone(seen.PluginConfig), func(c schedconfig.PluginConfig) bool {
		return slices.ContainsFunc(seen.Plugins.PodGroupPostFilter.Enabled,
			func(p schedconfig.Plugin) bool { return p.Name == c.Name }) &&
			!slices.ContainsFunc(kubeScheduler.PluginConfig,
				func(k schedconfig.PluginConfig) bool { return k.Name == c.Name })
	})
	return &seen
}
