// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/plugins/nodepreferavoidpods"
)

func ownedBy(kind, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{Kind: kind, Name: "owner", UID: types.UID(uid), Controller: ptr.To(true)},
	}}}
}

func TestNodePreferAvoidPodsScore(t *testing.T) {
	const annotation = `{"preferAvoidPods": [
		{"podSignature": {}},
		{"podSignature": {"podController": {"kind": "ReplicaSet", "name": "owner", "uid": "one", "controller": true}}},
		{"podSignature": {"podController": {"kind": "StatefulSet", "name": "owner", "uid": "two", "controller": true}}}]}`
	for name, c := range map[string]struct {
		annotation string
		pod        *corev1.Pod
		want       int64
	}{
		"a node avoids the pods of the controllers that it names": {annotation, ownedBy("ReplicaSet", "one"), 0},
		"and those of no other":                                   {annotation, ownedBy("ReplicaSet", "three"), 100},
		"the kind counts": {annotation,
			ownedBy("ReplicationController", "one"), 100},
		"controllers of other kinds are not avoided":           {annotation, ownedBy("StatefulSet", "two"), 100},
		"a pod without a controller is not avoided":            {annotation, &corev1.Pod{}, 100},
		"a node without the annotation avoids no pod":          {"", ownedBy("ReplicaSet", "one"), 100},
		"a node whose annotation cannot be read avoids no pod": {"{", ownedBy("ReplicaSet", "one"), 100},
	} {
		t.Run(name, func(t *testing.T) {
			pl, err := nodepreferavoidpods.New(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			info := schedframework.NewNodeInfo()
			info.SetNode(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{corev1.PreferAvoidPodsAnnotationKey: c.annotation}}})
			got, status := pl.(nodepreferavoidpods.NodePreferAvoidPods).Score(t.Context(), nil, c.pod, info)
			if !status.IsSuccess() || got != c.want {
				t.Errorf("got %d, %v, want %d", got, status, c.want)
			}
		})
	}
}

func TestNodePreferAvoidPodsTakesNoArguments(t *testing.T) {
	if _, err := nodepreferavoidpods.New(t.Context(), &runtime.Unknown{Raw: []byte(`{"weight": 1}`)}, nil); err == nil {
		t.Error("an argument was accepted")
	}
}
