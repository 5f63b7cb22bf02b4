// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"context"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
)

// claimFor returns a claim that is reserved for pods.
func claimFor(uid types.UID, version string, pods ...types.UID) *resourcev1.ResourceClaim {
	claim := objects.DeviceClaim("c", "gpu")
	claim.UID, claim.ResourceVersion = uid, version
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(pod), UID: pod})
	}
	return claim
}

// inPreBind returns the cause for which the context of a pod that is in PreBind has ended since.
func inPreBind(t *testing.T, preBinding *framework.PodsInPreBind, pod types.UID) (cause func() error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	preBinding.Add(pod, cancel)
	t.Cleanup(func() { cancel(nil) })
	return func() error { return context.Cause(ctx) }
}

func TestTheLossOfAClaimEndsBindingCycles(t *testing.T) {
	before := claimFor("1", "2", "a", "b")
	for name, test := range map[string]struct {
		after any // nil: it is deleted
		// lost is whether the pods a and b have lost it.
		lost [2]bool
	}{
		"it is still reserved":           {claimFor("1", "3", "b", "other", "a"), [2]bool{}},
		"it is released":                 {claimFor("1", "3"), [2]bool{true, true}},
		"it is reserved for one of them": {claimFor("1", "3", "b"), [2]bool{true, false}},
		"it is deleted":                  {nil, [2]bool{true, true}},
		"another claim has its name":     {claimFor("2", "3", "a", "b"), [2]bool{true, true}},
		"an assumption is withdrawn":     {claimFor("1", "1"), [2]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			preBinding, told := framework.NewPodsInPreBind(), 0
			handler := endingBindings(toolscache.ResourceEventHandlerFuncs{
				UpdateFunc: func(any, any) { told++ }, DeleteFunc: func(any) { told++ },
			}, preBinding)
			other := inPreBind(t, preBinding, "c")
			causes := []func() error{inPreBind(t, preBinding, "a"), inPreBind(t, preBinding, "b")}
			if test.after == nil {
				handler.OnDelete(before)
			} else {
				handler.OnUpdate(before, test.after)
			}
			for i, cause := range causes {
				if err := cause(); (err != nil) != test.lost[i] ||
					err != nil && err.Error() != "claim default/c is no longer reserved for the pod" {
					t.Errorf("binding cycle %d has ended with %v", i, err)
				}
			}
			if err := other(); err != nil {
				t.Errorf("that of another pod has ended with %v", err)
			}
			if told != 1 {
				t.Errorf("the event was delivered %d times", told)
			}
		})
	}
}

func TestBindingCyclesFollowTheClaimsThatPluginsSee(t *testing.T) {
	source, err := fixed.NewSource([]client.Object{claimFor("1", "1", "a")})
	if err != nil {
		t.Fatal(err)
	}
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	managers, err := devices.NewManagers(t.Context(), fake.NewClientset(), scope)
	if err != nil {
		t.Fatal(err)
	}
	h := listening(t)
	cause := inPreBind(t, h.preBinding, "a")
	if err := NewSources(source, h.queue).ListenToDevices(managers, h.preBinding); err != nil {
		t.Fatal(err)
	}
	if err := scope.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cause(); err != nil {
		t.Fatalf("it has ended with %v", err)
	}
	if err := managers.AssumeClaim(claimFor("1", "2")); err != nil {
		t.Fatal(err)
	}
	if cause() == nil {
		t.Error("the binding cycle goes on")
	}
}
