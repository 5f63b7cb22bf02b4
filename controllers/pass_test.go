// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestAnUpdateNeedsAPass(t *testing.T) {
	profile := func(change func(*v1alpha1.SchedulerProfile)) client.Object {
		p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "a", Generation: 5}}
		change(p)
		return p
	}
	policy := func(parallelism int32) client.Object {
		return &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 2},
			Spec: v1alpha1.SchedulingPolicySpec{Parallelism: &parallelism}}
	}
	before := profile(func(*v1alpha1.SchedulerProfile) {})
	for name, test := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"another generation": {before, profile(func(p *v1alpha1.SchedulerProfile) { p.Generation++ }), true},
		"created again":      {before, profile(func(p *v1alpha1.SchedulerProfile) { p.UID = "b" }), true},
		"another spec of the same generation, after a restore of etcd": {before,
			profile(func(p *v1alpha1.SchedulerProfile) { p.Spec.PercentageOfNodesToScore = ptr.To[int32](7) }), true},
		"a policy's other spec of the same generation": {policy(1), policy(2), true},
		"the same policy": {policy(1), policy(1), false},
		"a command": {before, profile(func(p *v1alpha1.SchedulerProfile) {
			p.Annotations = map[string]string{v1alpha1.AnnotationRollout: "abort"}
		}), true},
		"another step of a roll-out": {before, profile(func(p *v1alpha1.SchedulerProfile) {
			p.Status.Rollout = &v1alpha1.RolloutStatus{CurrentStepIndex: ptr.To[int32](1)}
		}), true},
		"conditions": {before, profile(func(p *v1alpha1.SchedulerProfile) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
		}), false},
		"labels": {before, profile(func(p *v1alpha1.SchedulerProfile) {
			p.Labels = map[string]string{"team": "a"}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsPass(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("it needs a pass: %v, want %v", got, test.want)
			}
		})
	}
}
