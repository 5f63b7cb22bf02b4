// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// schedulerConfiguration converts a KubeSchedulerConfiguration. Its settings for all profiles
// become one policy, which all profiles build on.
func (c *converter) schedulerConfiguration(f *fields, v version) {
	f.text("apiVersion")
	f.text("kind")
	f.object("metadata") // not a field, but common, and meaningless

	policy := &v1alpha1.SchedulingPolicy{}
	spec := &policy.Spec
	spec.Parallelism = f.integer32("parallelism")
	spec.PercentageOfNodesToScore = c.percentage(f, true)
	spec.PodInitialBackoff = seconds(f.integer("podInitialBackoffSeconds"))
	spec.PodMaxBackoff = seconds(f.integer("podMaxBackoffSeconds"))
	spec.Extenders = c.extenders(f)
	reference := c.addPolicy(policy)

	profiles, _ := f.objects("profiles")
	if len(profiles) == 0 { // kube-scheduler then has one default profile
		profiles = []*fields{c.fields(f.at("profiles"), nil, false)}
	}
	for _, profile := range profiles {
		c.profile(profile, v, reference)
	}
	c.flags(f)
	f.unknown()
}

// seconds converts a number of seconds. It is nil for nil.
func seconds(value *int64) *metav1.Duration {
	if value == nil {
		return nil
	}
	const most = int64(1<<63-1) / int64(time.Second)
	return &metav1.Duration{Duration: time.Duration(min(max(*value, -most), most)) * time.Second}
}

// unsetPercentage is the remark on percentageOfNodesToScore without a value.
const unsetPercentage = "unset means a percentage that decreases with the size of the cluster in kube-scheduler, but " +
	"every node in livesched"

// percentage reads percentageOfNodesToScore. 0 or unset means a percentage that decreases with the
// size of the cluster in kube-scheduler, and every node in livesched. global distinguishes the
// field of the configuration from the field of a profile.
func (c *converter) percentage(f *fields, global bool) *int32 {
	value := f.integer32("percentageOfNodesToScore")
	switch {
	case value != nil && *value == 0:
		c.remark(Note, f.at("percentageOfNodesToScore"), "0 means a percentage that decreases with the size of the "+
			"cluster in kube-scheduler, but every node in livesched")
		if global {
			return nil
		}
	case value == nil && global:
		c.remark(Note, f.at("percentageOfNodesToScore"), unsetPercentage)
	}
	return value
}

func (c *converter) profile(f *fields, v version, policy v1alpha1.PolicyReference) {
	profile := &v1alpha1.SchedulerProfile{}
	profile.Spec.PolicyRef = policy
	name := cmp.Or(f.text("schedulerName"), DefaultSchedulerName)
	profile.Spec.PercentageOfNodesToScore = c.percentage(f, false)
	p := c.plugins(f, v)
	profile.Spec.Plugins, profile.Spec.PluginConfig = p.build()
	f.unknown()
	c.addProfile(f.path, name, profile)
}
