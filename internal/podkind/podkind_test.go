// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podkind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/podkind"
	"github.com/livesched/livesched/test/objects"
)

func owned(kind, name, hash string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		if hash != "" {
			pod.Labels = map[string]string{"pod-template-hash": hash}
		}
	}
}

func TestKeys(t *testing.T) {
	of := func(name string, changes ...func(*corev1.Pod)) string {
		return podkind.Key(objects.PodOf("mine", name, changes...))
	}
	job := owned("Job", "train", "")
	key := of("a", job)
	for name, test := range map[string]struct {
		other string
		same  bool
	}{
		"another pod of the same Job":     {of("b", job), true},
		"other requests":                  {of("b", job, objects.CPU("7")), false},
		"another selector":                {of("b", job, objects.Selecting("a", "b")), false},
		"another Job":                     {of("b", owned("Job", "serve", "")), false},
		"no owner":                        {of("b"), false},
		"a label, which is no constraint": {of("b", job, objects.Labelled("a", "b")), true},
	} {
		if got := key == test.other; got != test.same {
			t.Errorf("%s: the same kind is %v", name, got)
		}
	}
	if of("a") != of("b") {
		t.Error("pods without an owner that are alike are of two kinds")
	}
	daemon := owned("DaemonSet", "logs", "")
	if of("a", daemon, objects.Selecting("n", "1")) != of("b", daemon, objects.Selecting("n", "2")) {
		t.Error("pods of a DaemonSet, each for its node, are of two kinds")
	}
}

func TestOwners(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod){
		"deployment/web":       owned("ReplicaSet", "web-5d9c", "5d9c"),
		"replicaset/web-5d9c":  owned("ReplicaSet", "web-5d9c", "other"),
		"replicaset/plain":     owned("ReplicaSet", "plain", ""),
		"job/train":            owned("Job", "train", ""),
		"pod/debug":            func(*corev1.Pod) {},
		"sparkapplication/etl": owned("SparkApplication", "etl", ""),
	} {
		if got := podkind.Owner(objects.PodOf("mine", "debug", change)); got != want {
			t.Errorf("owner %q, want %q", got, want)
		}
	}
}
