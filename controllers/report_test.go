// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// TestAStatusThatCannotBeWrittenHoldsUpNothing writes the status of three profiles, the first two
// of which the API server may refuse.
func TestAStatusThatCannotBeWrittenHoldsUpNothing(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "schedulerprofiles"}, "one", errors.New("changed"))
	denied := apierrors.NewBadRequest("denied by a webhook")
	for name, test := range map[string]struct {
		refusals map[string]error
		written  []string
		stale    bool
		// retries are the waits after one pass and after a second one.
		retries [2]time.Duration
	}{
		"all are written":                {nil, []string{"one", "two", "three"}, false, [2]time.Duration{}},
		"a conflict needs fresh objects": {map[string]error{"one": conflict}, []string{"two", "three"}, true, [2]time.Duration{}},
		"a refusal is retried less and less often": {map[string]error{"one": denied}, []string{"two", "three"}, false,
			[2]time.Duration{firstRetry, 2 * firstRetry}},
		"both": {map[string]error{"one": denied, "two": conflict}, []string{"three"}, true, [2]time.Duration{firstRetry, 2 * firstRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			p := &pass{leading: true, plan: &plan{}, resolution: &config.Resolution{ProfileResults: map[string]config.Result{}}}
			builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.SchedulerProfile{})
			for _, name := range []string{"one", "two", "three"} {
				object := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1"}}
				p.objects.profiles = append(p.objects.profiles, object)
				p.resolution.ProfileResults[name] = unknown
				builder.WithObjects(&object)
			}
			builder.WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
			) error {
				if err := test.refusals[object.GetName()]; err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			}})
			r := New(Config{Client: builder.Build(), Clock: clocktesting.NewFakeClock(now), Recorder: events.NewFakeRecorder(100)})
			defer r.end()

			r.reportStatus(t.Context(), p)
			if p.stale != test.stale || p.statusRetry != test.retries[0] {
				t.Errorf("stale is %v and the retry due in %v, want %v and %v", p.stale, p.statusRetry, test.stale, test.retries[0])
			}
			var written []string
			for i := range p.objects.profiles {
				object := &p.objects.profiles[i]
				if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
					t.Fatal(err)
				}
				if object.Status.ObservedGeneration == 1 {
					written = append(written, object.Name)
				}
			}
			if diff := cmp.Diff(test.written, written); diff != "" {
				t.Errorf("written: %s", diff)
			}

			r.reportStatus(t.Context(), p)
			if p.statusRetry != test.retries[1] {
				t.Errorf("after the second pass the retry is due in %v, want %v", p.statusRetry, test.retries[1])
			}
		})
	}
}

func TestRetriesBecomeLessAndLessFrequent(t *testing.T) {
	var r retries
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := r.after(true); got != want*time.Second {
			t.Errorf("after %d failures: %v", i+1, got)
		}
	}
	if got := r.after(false); got != 0 {
		t.Errorf("nothing has failed, and is tried again after %v", got)
	}
	if got := r.after(true); got != time.Second {
		t.Errorf("after another failure: %v", got)
	}
}
