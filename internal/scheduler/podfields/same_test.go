// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSameClaims(t *testing.T) {
	claim := func(name string) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	token := corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	for name, test := range map[string]struct {
		a, b []corev1.Volume
		same bool
	}{
		"no volumes":               {nil, nil, true},
		"a token that was dropped": {[]corev1.Volume{token}, nil, true},
		"a token that was dropped from among claims": {[]corev1.Volume{claim("a"), token, claim("b")},
			[]corev1.Volume{claim("a"), claim("b")}, true},
		"another claim":     {[]corev1.Volume{token, claim("a")}, []corev1.Volume{claim("b")}, false},
		"one claim more":    {[]corev1.Volume{claim("a"), token}, []corev1.Volume{claim("a"), claim("b")}, false},
		"no claim any more": {[]corev1.Volume{claim("a")}, []corev1.Volume{token}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Equal(claimNames(test.a), claimNames(test.b)) != test.same {
				t.Errorf("same: %v, want %v", !test.same, test.same)
			}
		})
	}
}
