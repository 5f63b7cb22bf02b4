// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Configuration is a profile as users write it. Both schedulers read it.
type Configuration struct {
	// Profile includes a scheduler name. Neither scheduler decides about pods with another one.
	Profile     configv1.KubeSchedulerProfile
	Parallelism int32
}

// name is the scheduler name of the profile.
func (c *Configuration) name() string { return *c.Profile.SchedulerName }

// kubeSchedulerProfile converts the profile like kube-scheduler reads its configuration file.
func (c *Configuration) kubeSchedulerProfile() (*schedconfig.KubeSchedulerProfile, error) {
	profile := c.Profile.DeepCopy()
	if ptr.Deref(profile.PercentageOfNodesToScore, 0) == 0 {
		// 0 means a sample to kube-scheduler and all nodes to livesched. The comparison needs all
		// nodes.
		profile.PercentageOfNodesToScore = ptr.To(int32(100))
	}
	versioned := configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{*profile}}
	if err := versioned.DecodeNestedObjects(configscheme.Codecs.UniversalDeserializer()); err != nil {
		return nil, err
	}
	configscheme.Scheme.Default(&versioned)
	var internal schedconfig.KubeSchedulerConfiguration
	if err := configscheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
		return nil, err
	}
	return &internal.Profiles[0], nil
}

// Objects returns a SchedulerProfile and a SchedulingPolicy with the configuration.
func (c *Configuration) Objects() (object v1alpha1.SchedulerProfile, policy v1alpha1.SchedulingPolicy, err error) {
	object.ObjectMeta = metav1.ObjectMeta{Name: c.name(), UID: "uid", Generation: 1}
	policy.ObjectMeta = metav1.ObjectMeta{Name: resolve.DefaultPolicyName, UID: "policy", Generation: 1}
	policy.Spec.Parallelism = &c.Parallelism
	text, err := json.Marshal(c.Profile)
	if err == nil {
		err = json.Unmarshal(text, &object.Spec)
	}
	return object, policy, err
}

// resolveShadow converts the profile like the SchedulerProfile "shadow", which follows the one with
// a name.
func (c *Configuration) resolveShadow(follows string, registered sets.Set[string]) (*resolve.Profile, error) {
	object, policy, err := c.Objects()
	if err != nil {
		return nil, err
	}
	followed := object.DeepCopy()
	followed.Name = follows
	object.Name, object.UID = "shadow", "shadow"
	object.Spec.Mode = v1alpha1.ProfileShadow
	object.Spec.Shadow = &v1alpha1.ShadowSpec{ProfileRef: v1alpha1.ProfileReference{Name: follows}}
	resolution := resolve.Objects(resolve.Input{
		Profiles: []v1alpha1.SchedulerProfile{*followed, object}, Policies: []v1alpha1.SchedulingPolicy{policy},
		Registered: registered,
	})
	result := resolution.ProfileResults[object.Name]
	if !result.Accepted {
		return nil, fmt.Errorf("the shadow is not accepted: %s", result.Message)
	}
	return resolution.ByID(result.ID()), nil
}

// resolve converts the profile like a SchedulerProfile with a SchedulingPolicy.
func (c *Configuration) resolve(registered sets.Set[string]) (*resolve.Profile, error) {
	object, policy, err := c.Objects()
	if err != nil {
		return nil, err
	}
	resolution := resolve.Objects(resolve.Input{
		Profiles: []v1alpha1.SchedulerProfile{object}, Policies: []v1alpha1.SchedulingPolicy{policy},
		Registered: registered,
	})
	if result := resolution.ProfileResults[c.name()]; !result.Accepted {
		return nil, fmt.Errorf("the profile is not accepted: %s", result.Message)
	}
	return resolution.Profiles[c.name()], nil
}
