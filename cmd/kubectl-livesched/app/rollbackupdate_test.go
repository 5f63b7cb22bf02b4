// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livesched/livesched/api/v1alpha1"
)

// withConcurrentChange returns a rollback whose first update conflicts with a change, and the
// object to update.
func withConcurrentChange(t *testing.T,
	changes func(*v1alpha1.SchedulerProfile)) (*rollback, *v1alpha1.SchedulerProfile) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Generation: 1}}
	changed := false
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if changed {
				return c.Update(ctx, o, options...)
			}
			changed = true
			var theirs v1alpha1.SchedulerProfile
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), &theirs); err != nil {
				return err
			}
			changes(&theirs)
			if err := c.Update(ctx, &theirs); err != nil {
				return err
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "schedulerprofiles"}, o.GetName(), nil)
		},
	}).Build()
	mine := &v1alpha1.SchedulerProfile{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, mine); err != nil {
		t.Fatal(err)
	}
	return &rollback{rollbackOptions: &rollbackOptions{dryRun: dryRunNone}, client: c}, mine
}

func TestUpdateFailsIfTheSpecHasChanged(t *testing.T) {
	r, mine := withConcurrentChange(t, func(theirs *v1alpha1.SchedulerProfile) {
		theirs.Generation = 2
		theirs.Spec.PolicyRef.Name = "theirs"
	})
	err := r.update(t.Context(), mine, func() { mine.Spec.PolicyRef.Name = "mine" })
	if err == nil || !strings.Contains(err.Error(), "has changed in the meantime") {
		t.Fatalf("got error %v", err)
	}
	var stored v1alpha1.SchedulerProfile
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "a"}, &stored); err != nil ||
		stored.Spec.PolicyRef.Name != "theirs" {
		t.Errorf("%v; the spec is %+v", err, stored.Spec)
	}
}

func TestUpdateKeepsConcurrentChangesOutsideTheSpec(t *testing.T) {
	r, mine := withConcurrentChange(t, func(theirs *v1alpha1.SchedulerProfile) {
		theirs.Status.SchedulerName = "by livesched"
		theirs.Labels = map[string]string{"by": "somebody"}
	})
	if err := r.update(t.Context(), mine, func() { mine.Spec.PolicyRef.Name = "mine" }); err != nil {
		t.Fatal(err)
	}
	var stored v1alpha1.SchedulerProfile
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "a"}, &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Spec.PolicyRef.Name != "mine" || stored.Labels["by"] != "somebody" ||
		stored.Status.SchedulerName != "by livesched" {
		t.Errorf("stored %+v", stored)
	}
}
