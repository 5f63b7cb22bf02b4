// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/utils/ptr"
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

// TestFeaturesOfNodes has pods that need a feature of their node: a pod that does not is another
// one, and what is kept of them needs the same.
func TestFeaturesOfNodes(t *testing.T) {
	required := func(pod *corev1.Pod) string {
		set, err := ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec},
			version.MustParse("1.37.0"))
		if err != nil {
			t.Fatal(err)
		}
		names, err := ndf.DefaultFramework.Unmap(set)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	mounts := []corev1.VolumeMount{{Name: "files"},
		{Name: "files", MountPath: "/f", BindMountOptions: []string{"noexec"}}}
	rules := []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	plain := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "files"}}}},
			InitContainers: []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "files"}}}}}}
	}
	none := required(plain())
	for name, edit := range map[string]func(*corev1.PodSpec){
		"mount options":                      func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = mounts },
		"mount options of an init container": func(s *corev1.PodSpec) { s.InitContainers[0].VolumeMounts = mounts },
		"a restart of all containers":        func(s *corev1.PodSpec) { s.Containers[0].RestartPolicyRules = rules },
		"a user namespace on the host's network": func(s *corev1.PodSpec) {
			s.HostNetwork, s.HostUsers = true, ptr.To(false)
		},
	} {
		pod := plain()
		edit(&pod.Spec)
		want := required(pod)
		if want == none {
			t.Errorf("%s: the pod needs no feature", name)
		}
		if SameConstraints(pod, plain()) || !SameConstraints(pod, pod.DeepCopy()) {
			t.Errorf("%s: the pod is like one without", name)
		}
		dropped := pod.DeepCopy()
		Drop(dropped)
		for what, got := range map[string]*corev1.Pod{"kept": Keep(pod), "left": dropped} {
			if required(got) != want {
				t.Errorf("%s: what is %s of the pod needs %s, want %s", name, what, required(got), want)
			}
		}
	}
}
