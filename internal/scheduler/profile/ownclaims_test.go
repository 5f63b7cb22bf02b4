// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/devices"
)

// listed is a manager of devices that knows some claims.
type listed struct {
	oneClass
	fwk.ResourceClaimTracker
	claims []*resourcev1.ResourceClaim
}

func (l listed) ResourceClaims() fwk.ResourceClaimTracker     { return l }
func (l listed) List() ([]*resourcev1.ResourceClaim, error)   { return l.claims, nil }
func (l listed) DeviceClassResolver() fwk.DeviceClassResolver { return l.oneClass }

func TestOwnClaimsOfPodsAreDeleted(t *testing.T) {
	const gpu = "example.com/gpu"
	pod := func(name string, resources corev1.ResourceList) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name, UID: types.UID("uid-" + name)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: resources}}}}}
	}
	a, b := pod("a", corev1.ResourceList{gpu: resource.MustParse("1")}), pod("b", nil)
	claim := func(name string, of *corev1.Pod, annotation string, finalizers ...string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name,
			UID: types.UID("uid-" + name), Finalizers: finalizers,
			Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: annotation},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("Pod"))}}}
	}
	known := []*resourcev1.ResourceClaim{claim("protected", a, "true", "other", resourcev1.Finalizer),
		claim("bare", a, "true"),
		claim("template", a, ""), claim("gone", a, "true", resourcev1.Finalizer), claim("another", b, "true")}
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"of pods that request the resource": {[]*corev1.Pod{b, a}, []string{"delete bare", "delete protected",
			"update gone", "update protected", "update protected"}},
		"none of a pod without requests": {pods: []*corev1.Pod{b}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			for _, claim := range known {
				if claim.Name != "gone" {
					objects = append(objects, claim.DeepCopy())
				}
			}
			api := clientfake.NewClientset(objects...)
			var mu sync.Mutex // guards writes
			var writes []string
			api.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				switch action := action.(type) {
				case clienttesting.UpdateAction:
					written := action.GetObject().(*resourcev1.ResourceClaim)
					write := "update " + written.Name
					first := !slices.Contains(writes, write)
					writes = append(writes, write)
					if slices.Contains(written.Finalizers, resourcev1.Finalizer) {
						t.Errorf("%s has the finalizers %v", written.Name, written.Finalizers)
					}
					if written.Name == "protected" && first {
						return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), written.Name, nil)
					}
				case clienttesting.DeleteActionImpl:
					writes = append(writes, "delete "+action.GetName())
					uid := action.DeleteOptions.Preconditions.UID
					if want := types.UID("uid-" + action.GetName()); *uid != want {
						t.Errorf("the claim with the UID %s is deleted, not %s", *uid, want)
					}
				}
				return false, nil, nil
			})
			manager := listed{oneClass: oneClass{backs: gpu}, claims: known}
			env := &Environment{Dependencies: Dependencies{Client: api}, Devices: &devices.Managers{DRA: manager}}
			i := &Instance{handle: &Handle{env: env}}
			err := i.DeleteOwnClaims(t.Context(), test.pods)
			if slices.Sort(writes); err != nil || !slices.Equal(writes, test.want) {
				t.Errorf("writes %v (%v), want %v", writes, err, test.want)
			}
			for _, claim := range known {
				_, err := api.ResourceV1().ResourceClaims("here").Get(t.Context(), claim.Name, metav1.GetOptions{})
				if deleted := slices.Contains(test.want, "delete "+claim.Name); claim.Name != "gone" &&
					deleted != apierrors.IsNotFound(err) {
					t.Errorf("claim %s: %v", claim.Name, err)
				}
			}
		})
	}
}
