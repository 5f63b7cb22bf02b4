// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
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
	for _, name := range []string{"mine", "another"} {
		err := schedutil.PatchPodStatus(framework.WithPod(t.Context(), pod), client, name, "here", &pod.Status, after)
		if err != nil {
			t.Fatal(err)
		}
	}
	const status = `"status":{"extendedResourceClaimStatus":{"requestMappings":null,"resourceClaimName":"claim"}}}`
	if len(patches) != 2 || patches[0] != `{"metadata":{"uid":"uid"},`+status || patches[1] != `{`+status {
		t.Errorf("got %v", patches)
	}
}
