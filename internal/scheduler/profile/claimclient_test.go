// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// claimAPI is an API server that has one claim, and records the writes.
type claimAPI struct {
	fwk.ResourceClaimTracker
	// known is the claim as the scheduler knows it, and stored as the API server has it.
	known, stored *resourcev1.ResourceClaim

	mu           sync.Mutex // guards the fields below
	writes       []string
	active, most int
}

func (a *claimAPI) Get(string, string) (*resourcev1.ResourceClaim, error) {
	if a.known == nil {
		return nil, errors.New("not found")
	}
	return a.known, nil
}

func (a *claimAPI) write(what string) (*resourcev1.ResourceClaim, error) {
	a.mu.Lock()
	a.writes = append(a.writes, what)
	a.active++
	a.most = max(a.most, a.active)
	a.mu.Unlock()
	time.Sleep(time.Second) //nolint:forbidigo // of the bubble
	a.mu.Lock()
	a.active--
	a.mu.Unlock()
	return a.stored, nil
}

// claimWrites are the methods of the interface that write.
type claimWrites struct {
	resourcev1client.ResourceClaimInterface
	api *claimAPI
}

func (w claimWrites) Create(_ context.Context, claim *resourcev1.ResourceClaim,
	_ metav1.CreateOptions) (*resourcev1.ResourceClaim, error) {
	return w.api.write(strings.Join(append([]string{"create"}, claim.Finalizers...), " "))
}

func (w claimWrites) Update(context.Context, *resourcev1.ResourceClaim,
	metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return w.api.write("update")
}

func (w claimWrites) UpdateStatus(context.Context, *resourcev1.ResourceClaim,
	metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return w.api.write("update of the status")
}

func (w claimWrites) Patch(_ context.Context, name string, of types.PatchType, data []byte, _ metav1.PatchOptions,
	subresources ...string) (*resourcev1.ResourceClaim, error) {
	return w.api.write(string(of) + " of " + name + "/" + subresources[0] + ": " + string(data))
}

func allocatedClaim(device string, users ...string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "uid"}}
	if device != "" {
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Device: device}}}}
	}
	for _, user := range users {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: user, UID: types.UID(user)})
	}
	return claim
}

func (a *claimAPI) client() resourcev1client.ResourceClaimInterface {
	return claimsOf{claimWrites{api: a}, claimClient{known: a, calls: newClaimCalls()}}
}

func TestAUserOfAClaimIsAddedByAPatch(t *testing.T) {
	const patch = `application/strategic-merge-patch+json of claim/status: {"metadata":{"uid":"uid"},` +
		`"status":{"reservedFor":[{"resource":"pods","name":"second","uid":"second"}]}}`
	const (
		update  = "update of the status"
		removal = `, application/strategic-merge-patch+json of claim/status: {"metadata":{"uid":"uid"},` +
			`"status":{"reservedFor":[{"$patch":"delete","uid":"second"}]}}`
	)
	other := allocatedClaim("gpu-0", "first")
	other.UID = "successor"
	ready := allocatedClaim("gpu-0", "first")
	ready.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Device: "gpu-0"}}
	dated := allocatedClaim("gpu-0", "first", "second")
	dated.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		known, stored, sent *resourcev1.ResourceClaim
		want                string
		fails               bool
	}{
		"if it has its devices":                     {known: allocatedClaim("gpu-0", "first"), want: patch},
		"also if it had more users in the meantime": {known: allocatedClaim("gpu-0", "first", "third"), want: patch},
		"without the time of the allocation": {known: allocatedClaim("gpu-0", "first"), sent: dated,
			stored: allocatedClaim("gpu-0", "first", "second"), want: patch},
		"and removed if it has no devices any more": {known: allocatedClaim("gpu-0", "first"),
			stored: allocatedClaim("", "second"), want: patch + removal, fails: true},
		"and removed if it got other devices": {known: allocatedClaim("gpu-0", "first"),
			stored: allocatedClaim("gpu-1", "first", "second"), want: patch + removal, fails: true},

		"but the devices of a new allocation are written": {known: allocatedClaim(""), want: update},
		"also if they replace others":                     {known: allocatedClaim("gpu-1"), want: update},
		"also those of another claim":                     {known: other, want: update},
		"also the status of devices":                      {known: ready, want: update},
		"also those of an unknown claim":                  {want: update},
		"and no devices are written": {known: allocatedClaim("gpu-0", "first"), sent: allocatedClaim("", "second"),
			want: update},
		"and no users": {known: allocatedClaim("gpu-0", "first"), sent: allocatedClaim("gpu-0"),
			want: update},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := test.sent
				if sent == nil {
					sent = allocatedClaim("gpu-0", "first", "second")
				}
				api := &claimAPI{known: test.known, stored: test.stored}
				if api.stored == nil {
					api.stored = sent
				}
				_, err := api.client().UpdateStatus(t.Context(), sent, metav1.UpdateOptions{})
				if got := strings.Join(api.writes, ", "); got != test.want || (err != nil) != test.fails {
					t.Errorf("got %q (%v), want %q", got, err, test.want)
				}
			})
		})
	}
}

func TestClaimsForExtendedResourcesHaveTheFinalizerFromTheStart(t *testing.T) {
	for name, test := range map[string]struct{ annotation, finalizer, want string }{
		"other claims":           {want: "create"},
		"another value":          {annotation: "false", want: "create"},
		"for extended resources": {annotation: "true", want: "create resource.kubernetes.io/delete-protection"},
		"with the finalizer": {annotation: "true", finalizer: resourcev1.Finalizer,
			want: "create resource.kubernetes.io/delete-protection"},
		"with another": {annotation: "true", finalizer: "mine",
			want: "create mine resource.kubernetes.io/delete-protection"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, claim := &claimAPI{}, allocatedClaim("")
				if test.annotation != "" {
					claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: test.annotation}
				}
				if test.finalizer != "" {
					claim.Finalizers = []string{test.finalizer}
				}
				before := claim.DeepCopy()
				_, err := api.client().Create(t.Context(), claim, metav1.CreateOptions{})
				if got := strings.Join(api.writes, ", "); err != nil || got != test.want {
					t.Errorf("got %q (%v), want %q", got, err, test.want)
				}
				if !equality.Semantic.DeepEqual(claim, before) {
					t.Errorf("the plugin's claim has changed: %v", claim)
				}
			})
		})
	}
}

func TestWritesOfClaimsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &claimAPI{known: allocatedClaim("gpu-0"), stored: allocatedClaim("gpu-0")}
		client := api.client()
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex // guards failed
		failed := 0
		for range maxClaimCalls {
			for _, write := range []func() (*resourcev1.ResourceClaim, error){
				func() (*resourcev1.ResourceClaim, error) {
					return client.Create(ctx, allocatedClaim(""), metav1.CreateOptions{})
				},
				func() (*resourcev1.ResourceClaim, error) {
					return client.Update(ctx, allocatedClaim(""), metav1.UpdateOptions{})
				},
				func() (*resourcev1.ResourceClaim, error) {
					return client.UpdateStatus(ctx, allocatedClaim("gpu-0", "user"), metav1.UpdateOptions{})
				},
				func() (*resourcev1.ResourceClaim, error) {
					return client.UpdateStatus(ctx, allocatedClaim("gpu-1", "user"), metav1.UpdateOptions{})
				},
			} {
				all.Go(func() {
					if _, err := write(); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failed++
					}
				})
			}
		}
		synctest.Wait()
		// The scheduling loop takes devices away from a claim, and deletes one that was created for
		// extended resources, while all places are taken.
		if _, err := client.UpdateStatus(ctx, allocatedClaim(""), metav1.UpdateOptions{}); err != nil ||
			ctx.Err() != nil {
			t.Errorf("a deallocation has to wait: %v", err)
		}
		extended := allocatedClaim("")
		extended.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		if _, err := client.Update(t.Context(), extended, metav1.UpdateOptions{}); err != nil || ctx.Err() != nil {
			t.Errorf("the removal of a finalizer has to wait: %v", err)
		}
		api.mu.Lock()
		api.most = 0
		api.mu.Unlock()
		all.Wait()
		if api.most != maxClaimCalls || failed != maxClaimCalls || api.active != 0 {
			t.Errorf("%d calls at one time, %d failed, %d are active", api.most, failed, api.active)
		}
	})
}
