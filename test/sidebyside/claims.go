// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// RunClaims runs the informer of the claims that objects was made with until ctx ends. It returns
// once livesched knows the claims, and their devices as allocated, which happens afterwards.
func (l *Livesched) RunClaims(ctx context.Context, objects *Objects, claims []*resourcev1.ResourceClaim) error {
	go objects.Resource().V1().ResourceClaims().Informer().RunWithContext(ctx)
	devices := 0
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			devices += len(claim.Status.Allocation.Devices.Results)
		}
	}
	tracker := l.Devices.ResourceClaims()
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		known, err := tracker.List()
		if err != nil || len(known) != len(claims) {
			return false, err
		}
		allocated, err := tracker.GatherAllocatedState()
		return err == nil && len(allocated.AllocatedDevices)+len(allocated.AllocatedSharedDeviceIDs) == devices, err
	})
}
