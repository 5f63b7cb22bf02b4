// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestAWatchThatBeginsAgainKnowsNothingOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: lease.KubeScheduler.Namespace, Name: lease.KubeScheduler.Name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"),
				RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))},
		})
		readable := make(chan struct{}) // a list waits until the test sends
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-readable
			return false, nil, nil
		})
		r := &ProfileReconciler{Config: Config{Kubernetes: client}}
		look := func(schedulerName string) lease.Sighting {
			p := &pass{resolution: &resolve.Resolution{Profiles: map[string]*resolve.Profile{schedulerName: {}}}}
			r.lookForKubeScheduler(ctx, p)
			return p.kubeScheduler
		}
		for range 3 {
			if seen := look(corev1.DefaultSchedulerName); seen.Known {
				t.Errorf("before the Lease was read, the sighting is %+v", seen)
			}
			readable <- struct{}{}
			synctest.Wait()
			if seen := look(corev1.DefaultSchedulerName); seen != (lease.Sighting{Holder: "a", Known: true}) {
				t.Errorf("after the Lease was read, the sighting is %+v", seen)
			}
			if seen := look("mine"); seen != (lease.Sighting{Known: true}) {
				t.Errorf("without a watch, the sighting is %+v", seen)
			}
		}
		r.OwnLease = lease.KubeScheduler
		if seen := look(corev1.DefaultSchedulerName); seen != (lease.Sighting{Known: true}) {
			t.Errorf("with the Lease of kube-scheduler, the sighting is %+v", seen)
		}
		end()
	})
}

func TestASchedulerNameIsReserved(t *testing.T) {
	const name = corev1.DefaultSchedulerName
	runs, gone, unknown := lease.Sighting{Holder: "a", Known: true}, lease.Sighting{Known: true}, lease.Sighting{}
	active := &v1alpha1.ActiveProfile{Generation: 1}
	stored := resolve.LastGood{Profiles: map[string][]resolve.GoodProfile{"standard": {{UID: "1"}}}}
	for _, test := range []struct {
		name              string
		seen              lease.Sighting
		schedulerName     string
		off               bool
		status            *v1alpha1.ActiveProfile
		shadow            bool // that status is one of a shadow
		uid               types.UID
		last              last
		reserved, unclear string
	}{
		{name: "while kube-scheduler runs", seen: runs, reserved: name},
		{name: "not after it", seen: gone},
		{name: "as long as that is not known", seen: unknown, unclear: name},
		{name: "not if another scheduler name is", seen: runs, schedulerName: "other"},
		{name: "not if the flag is off", seen: runs, off: true},
		{name: "not for a profile that was active", seen: runs, status: active},
		{name: "not for a profile that was, before it is known", seen: unknown, status: active},
		{name: "for a profile that was a shadow", seen: runs, status: active, shadow: true, reserved: name},
		{name: "not for a profile with a revision", seen: runs, last: last{good: stored}},
		{name: "for a profile that took the name of one with a revision", seen: runs, uid: "2",
			last: last{good: stored}, reserved: name},
		{name: "not if this replica schedules with it", seen: runs,
			last: last{scheduled: true, active: activeWith(name)}},
		{name: "if this replica followed with it", seen: runs, last: last{active: activeWith(name)}, reserved: name},
		{name: "if this replica schedules with others", seen: runs,
			last: last{scheduled: true, active: activeWith("other")}, reserved: name},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.uid == "" {
				test.uid = "1"
			}
			if test.schedulerName == "" {
				test.schedulerName = name
			}
			object := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "standard", UID: test.uid}}
			object.Status.Active = test.status
			if !test.shadow {
				object.Status.SchedulerName = test.schedulerName
			}
			cfg := &resolve.Profile{Name: "standard", UID: test.uid, SchedulerName: test.schedulerName}
			r := &ProfileReconciler{Config: Config{YieldToKubeScheduler: !test.off}, last: test.last}
			reserved, unclear := r.reserved(&pass{
				objects:       objects{profiles: []v1alpha1.SchedulerProfile{object}},
				resolution:    &resolve.Resolution{Profiles: map[string]*resolve.Profile{test.schedulerName: cfg}},
				kubeScheduler: test.seen,
			})
			if reserved != test.reserved || unclear != test.unclear {
				t.Errorf("reserved is %q and unclear %q, want %q and %q", reserved, unclear, test.reserved,
					test.unclear)
			}
		})
	}
}

func activeWith(schedulerName string) active {
	return active{profiles: map[string]*resolve.Profile{schedulerName: {SchedulerName: schedulerName}}}
}
