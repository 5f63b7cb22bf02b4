// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// useNamedGroup makes a request count groups like the PodGroup that its pod names, if the scheduler
// would place the pods of that one together. It returns how it uses the PodGroup, or nil if the pod
// names none. The error is an *InvalidError, or the error of building the profile.
func (r *CountRequest) useNamedGroup(ctx context.Context, k *fork.Fork,
	cfg *resolve.Profile) (*v1alpha1.NamedPodGroup, error) {
	key := podgroup.KeyOf(r.Pod)
	if key == (podgroup.Key{}) {
		return nil, nil
	}
	instance, err := k.Instance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	group, _, known := k.Groups().Get(key)
	named := &v1alpha1.NamedPodGroup{Name: key.Name, APIVersion: podgroup.Kind.GroupVersion().String()}
	if key.Source == podgroup.Kubernetes {
		named.APIVersion = cmp.Or(group.APIVersion, schedulingv1beta1.SchemeGroupVersion.String())
	}
	switch {
	case !k.Groups().Applies(key):
		named.Use = v1alpha1.PodGroupNotServed
	case instance.Queue.IgnorePodGroups && key.Source == podgroup.SchedulerPlugins:
		named.Use = v1alpha1.PodGroupLeftToPlugin
	case !known:
		named.Use = v1alpha1.PodGroupNotFound
	case group.Problem != "":
		return nil, invalidGroup(key, group.Problem)
	case group.OneByOne:
		named.Use = v1alpha1.PodGroupOneByOne
	case group.MinMember > r.Limit:
		return nil, invalidGroup(key,
			fmt.Sprintf("%d pods must be placed together, but spec.limit is %d", group.MinMember, r.Limit))
	default:
		named.Use, named.MinMember = v1alpha1.PodGroupTogether, int32(group.MinMember)
		// Another group like it: its own pods have nodes already, or wait for them.
		r.Group = &podgroup.Group{Key: key, MinMember: group.MinMember, Topology: group.Topology}
	}
	return named, nil
}

func invalidGroup(key podgroup.Key, problem string) error {
	return &InvalidError{field.ErrorList{field.Invalid(specPath.Child("pod"), "PodGroup "+key.String(), problem)}}
}
