// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// With returns the input as it would be if objects were applied: each replaces the spec of the one
// of its name, or is added as the youngest.
func (i Input) With(profiles []v1alpha1.SchedulerProfile, policies []v1alpha1.SchedulingPolicy, now time.Time) Input {
	i.Profiles = applied(i.Profiles, profiles, now,
		func(p *v1alpha1.SchedulerProfile) *metav1.ObjectMeta { return &p.ObjectMeta })
	i.Policies = applied(i.Policies, policies, now,
		func(p *v1alpha1.SchedulingPolicy) *metav1.ObjectMeta { return &p.ObjectMeta })
	return i
}

func applied[T any](current, changed []T, now time.Time, metaOf func(*T) *metav1.ObjectMeta) []T {
	next := append([]T(nil), current...)
	index := map[string]int{}
	for i := range next {
		index[metaOf(&next[i]).Name] = i
	}
	for i := range changed {
		object := changed[i]
		meta := metaOf(&object)
		at, exists := index[meta.Name]
		if !exists {
			*meta = metav1.ObjectMeta{Name: meta.Name, Labels: meta.Labels, Generation: 1,
				CreationTimestamp: metav1.NewTime(now)}
			index[meta.Name] = len(next)
			next = append(next, object)
			continue
		}
		*meta = *metaOf(&next[at])
		meta.Generation++
		next[at] = object
	}
	return next
}
