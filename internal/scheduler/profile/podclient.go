// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// CoreV1 implements [clientset.Interface].
func (c claimClient) CoreV1() corev1client.CoreV1Interface { return claimCoreV1{c.Interface.CoreV1()} }

type claimCoreV1 struct{ corev1client.CoreV1Interface }

func (c claimCoreV1) Pods(namespace string) corev1client.PodInterface {
	return podsIn{c.CoreV1Interface.Pods(namespace), namespace}
}

// podsIn writes the name of the claim for extended resources into the status of its pod.
type podsIn struct {
	corev1client.PodInterface
	namespace string
}

// Patch patches the pod whose PreBind plugins run, and no other pod: the plugin names the pod only,
// which may be gone, and another one may have the name since.
func (p podsIn) Patch(ctx context.Context, name string, of types.PatchType, data []byte, o metav1.PatchOptions,
	subresources ...string) (*corev1.Pod, error) {
	if pod := framework.PodOf(ctx); pod != nil && pod.Namespace == p.namespace && pod.Name == name {
		var err error
		if data, err = onlyFor(pod, data); err != nil {
			return nil, err
		}
	}
	return p.PodInterface.Patch(ctx, name, of, data, o, subresources...)
}

// onlyFor returns a patch of a status with the UID of a pod. The API server compares it.
func onlyFor(pod *corev1.Pod, data []byte) ([]byte, error) {
	patch := map[string]json.RawMessage{}
	err := json.Unmarshal(data, &patch)
	if err == nil {
		patch["metadata"], err = json.Marshal(map[string]types.UID{"uid": pod.UID})
	}
	if err != nil {
		return nil, fmt.Errorf("the patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return json.Marshal(patch)
}
