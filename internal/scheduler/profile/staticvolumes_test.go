// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
)

// reserved calls change when the scheduler has written the claim into the volume.
func (c *volumeBinding) reserved(change func(*corev1.PersistentVolume)) {
	volumes := c.client.CoreV1().PersistentVolumes()
	c.check(wait.PollUntilContextTimeout(c.Context(), time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			volume, err := volumes.Get(ctx, "volume", metav1.GetOptions{})
			if err != nil || volume.Spec.ClaimRef == nil {
				return false, err
			}
			change(volume)
			_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
			return true, err
		}))
}

// bindClaim changes the claim as the controller does.
func (c *volumeBinding) bindClaim(changes ...func(*corev1.PersistentVolumeClaim)) {
	claims := c.client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Get(c.Context(), "claim", metav1.GetOptions{})
	c.check(err)
	bound(claim)
	for _, change := range changes {
		change(claim)
	}
	_, err = claims.Update(c.Context(), claim, metav1.UpdateOptions{})
	c.check(err)
}

func TestVolumesThatExistAreSeenByTheirEvents(t *testing.T) {
	c := newVolumeBinding(t, volumeOn("n1"))
	c.upstream.hold = make(chan struct{})
	asked := *c.volumes.StaticBindings[0]
	controllers := make(chan struct{})
	go func() {
		defer close(controllers)
		c.reserved(func(*corev1.PersistentVolume) {})
		c.bindClaim()
	}()
	must(t, c.binder.BindPodVolumes(quiet(t), c.pod, c.volumes))
	<-controllers
	if len(c.binder.provisioner.changes.watching) > 0 {
		t.Errorf("still watching: %v", c.binder.provisioner.changes.watching)
	}
	if *c.volumes.StaticBindings[0] != asked {
		t.Error("upstream's binder has changed what the pod's cycle reads")
	}
	close(c.upstream.hold)
	if err := <-c.upstream.ended; err != nil {
		t.Errorf("upstream's binder, which was not waited for: %v", err)
	}
}

func TestVolumesThatExistAndCannotBeBound(t *testing.T) {
	for name, test := range map[string]struct {
		controllers func(*volumeBinding)
		timeout     time.Duration
		canceled    bool
		want        string
	}{
		"cannot be written": {controllers: func(c *volumeBinding) {
			c.client.PrependReactor("update", "persistentvolumes",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("conflict") })
		}, want: "conflict"},
		"are taken away": {controllers: func(c *volumeBinding) {
			go c.reserved(func(volume *corev1.PersistentVolume) { volume.Spec.ClaimRef.UID = "" })
		}, want: `binding volumes: ClaimRef got reset for pv "volume"`},
		"cannot be used on the node any more": {controllers: func(c *volumeBinding) {
			go c.reserved(func(volume *corev1.PersistentVolume) {
				volume.Spec.NodeAffinity = volumeOn("n2").Spec.NodeAffinity
			})
		}, want: `binding volumes: pv "volume" node affinity doesn't match node "n1": no matching NodeSelectorTerms`},
		"take too long":      {timeout: time.Millisecond, want: "binding volumes: context deadline exceeded"},
		"are not waited for": {canceled: true, want: "binding volumes: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newVolumeBinding(t, volumeOn("n1"))
			if test.timeout > 0 {
				c.binder.timeout = test.timeout
			}
			if test.controllers != nil {
				test.controllers(c)
			}
			ctx, cancel := context.WithCancel(quiet(t))
			defer cancel()
			if test.canceled {
				cancel()
			}
			err := c.binder.BindPodVolumes(ctx, c.pod, c.volumes)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err := <-c.upstream.ended; err == nil {
				t.Error("upstream's binder has not failed")
			}
		})
	}
}

// TestAClaimIsBoundToTheVolumeOfAnotherPod has a claim of several pods: a volume of another node
// was chosen for it, too, and the controller takes that one.
func TestAClaimIsBoundToTheVolumeOfAnotherPod(t *testing.T) {
	c := newVolumeBinding(t, volumeOn("n1"))
	other := volumeOn("n2")
	other.Name = "other"
	other.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "claim", UID: "uid"}
	_, err := c.client.CoreV1().PersistentVolumes().Create(c.Context(), other, metav1.CreateOptions{})
	must(t, err)
	go c.reserved(func(*corev1.PersistentVolume) {
		c.bindClaim(func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = other.Name })
	})
	const want = `binding volumes: a volume cannot be used on node "n1": node(s) didn't match PersistentVolume's node affinity`
	if err := c.binder.BindPodVolumes(quiet(t), c.pod, c.volumes); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
