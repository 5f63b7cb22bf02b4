// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestTheEndOfAReservationWakesPodsWithClaimsOfItsKind(t *testing.T) {
	const plain, volume, ephemeral = "plain", "volume", "ephemeral"
	const device, extended, implicit = "device", "extended", "implicit"
	const implicitName = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")
	specs := map[string]corev1.PodSpec{
		plain: {Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
		volume: {Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}},
		ephemeral: {Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}},
		device: {ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}},
		extended: {Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
		}}}},
		implicit: {Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{implicitName: resource.MustParse("1")},
		}}}},
	}
	for _, tt := range []struct {
		reserved string
		woken    []string
	}{
		{reserved: plain},
		{reserved: volume, woken: []string{volume, ephemeral}},
		{reserved: ephemeral, woken: []string{volume, ephemeral}},
		{reserved: device, woken: []string{device, extended, implicit}},
		{reserved: extended, woken: []string{device, extended, implicit}},
		{reserved: implicit, woken: []string{device, extended, implicit}},
	} {
		t.Run(tt.reserved, func(t *testing.T) {
			f := newFixture(t)
			waiting := map[string]*corev1.Pod{}
			for kind, spec := range specs {
				pod := newPod(kind)
				spec.SchedulerName = pod.Spec.SchedulerName
				pod.Spec = spec
				f.Add(logger, pod)
				waiting[kind] = f.reject("A")
			}
			itself := newPod("itself")
			spec := specs[tt.reserved]
			spec.SchedulerName = itself.Spec.SchedulerName
			itself.Spec = spec
			f.Add(logger, itself)
			f.reject("A")

			f.ReservationEnded(logger, itself)
			f.Expect(f.place(itself)).To(Equal(Unschedulable), "the pod itself")
			for kind, pod := range waiting {
				want := Unschedulable
				for _, woken := range tt.woken {
					if kind == woken {
						want = Backoff
					}
				}
				f.Expect(f.place(pod)).To(Equal(want), kind)
			}
		})
	}
}
