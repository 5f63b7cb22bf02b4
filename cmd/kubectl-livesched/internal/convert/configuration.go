// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// schedulerConfiguration converts a KubeSchedulerConfiguration. What it has for all profiles
// becomes one policy, which all profiles build on.
func (c *converter) schedulerConfiguration(f *fields, v version) {
	f.text("apiVersion")
	f.text("kind")
	f.object("metadata") // not a field of it, but common, and without a meaning

	policy := &v1alpha1.SchedulingPolicy{}
	spec := &policy.Spec
	spec.Parallelism = f.integer32("parallelism")
	spec.PercentageOfNodesToScore = c.percentage(f, true)
	spec.PodInitialBackoff = seconds(f.integer("podInitialBackoffSeconds"))
	spec.PodMaxBackoff = seconds(f.integer("podMaxBackoffSeconds"))
	spec.Extenders = c.extenders(f)
	empty := spec.Parallelism == nil && spec.PercentageOfNodesToScore == nil && spec.PodInitialBackoff == nil && spec.PodMaxBackoff == nil && len(spec.Extenders) == 0
	reference := c.addPolicy(policy, empty)

	profiles, _ := f.objects("profiles")
	if len(profiles) == 0 { // kube-scheduler has one then
		profiles = []*fields{c.fields(f.at("profiles"), nil, false)}
	}
	for _, profile := range profiles {
		c.profile(profile, v, reference)
	}
	c.flags(f)
	f.unknown()
}

// seconds is nil for nil, and for what kube-scheduler refuses.
func seconds(value *int64) *metav1.Duration {
	if value == nil {
		return nil
	}
	const most = int64(1<<63-1) / int64(time.Second)
	return &metav1.Duration{Duration: time.Duration(min(max(*value, -most), most)) * time.Second}
}

// percentage reads percentageOfNodesToScore. In kube-scheduler, 0 or none is a share that falls as
// the cluster grows; here it is every node.
func (c *converter) percentage(f *fields, whole bool) *int32 {
	value := f.integer32("percentageOfNodesToScore")
	switch {
	case value != nil && *value == 0:
		c.remark(Note, f.at("percentageOfNodesToScore"), "0 is a share of the nodes that falls as the cluster grows in kube-scheduler, and every node in livesched")
		if whole {
			return nil
		}
	case value == nil && whole:
		c.remark(Note, f.at("percentageOfNodesToScore"), "unset is a share of the nodes that falls as the cluster grows in kube-scheduler, and every node in livesched")
	}
	return value
}

func (c *converter) profile(f *fields, v version, policy v1alpha1.PolicyReference) {
	profile := &v1alpha1.SchedulerProfile{}
	profile.Spec.PolicyRef = policy
	name := f.text("schedulerName")
	if name == "" {
		name = DefaultSchedulerName
	}
	profile.Spec.PercentageOfNodesToScore = c.percentage(f, false)
	p := c.plugins(f, v)
	profile.Spec.Plugins, profile.Spec.PluginConfig = p.build()
	f.unknown()
	c.addProfile(f.path, name, profile)
}
