// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

func TestTheClaimOfAPodIsNotedOnNoOtherPodOfItsName(t *testing.T) {
	api := clientfake.NewClientset()
	var patches []string
	api.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patches = append(patches, string(action.(clienttesting.PatchAction).GetPatch()))
		return true, &corev1.Pod{}, nil
	})
	client := claimClient{Interface: api}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "mine", UID: "uid"}}
	after := &corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "claim"}}
	for _, key := range [][2]string{{"here", "mine"}, {"here", "another"}, {"there", "mine"}} {
		err := schedutil.PatchPodStatus(framework.WithPod(t.Context(), pod), client, key[1], key[0], &pod.Status, after)
		if err != nil {
			t.Fatal(err)
		}
	}
	const status = `"status":{"extendedResourceClaimStatus":{"requestMappings":null,"resourceClaimName":"claim"}}}`
	if !slices.Equal(patches, []string{`{"metadata":{"uid":"uid"},` + status, `{` + status, `{` + status}) {
		t.Errorf("got %v", patches)
	}
}
