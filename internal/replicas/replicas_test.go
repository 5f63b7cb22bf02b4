// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"cmp"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/servingcert"
)

const namespace = "livesched-system"

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{"app.kubernetes.io/name": "livesched"}}
}

// running returns a pod that runs, with an address.
func running(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}}
	change(pod)
	return pod
}

func TestTheReplicasThatRunAreFound(t *testing.T) {
	self := &servingcert.SelfSigned{Names: []string{"livesched-0"}, Clock: clock.RealClock{}}
	held, err := self.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: held.Leaf.Raw}))
	objects := []runtime.Object{
		running("livesched-0", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https-metrics", ContainerPort: 7}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}),
		running("on-the-network-of-its-node", func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Spec.NodeName = true, "node-1"
		}),
		running("has-a-host-name", func(p *corev1.Pod) { p.Spec.Hostname = "host" }),
		running("ends", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"a/b"}
		}),
		running("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		running("another", func(p *corev1.Pod) { p.Labels = nil }),
		&coordinationv1.Lease{ObjectMeta: meta("livesched"),
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("node-1_2c1f")}},
		&corev1.ConfigMap{ObjectMeta: meta(servingcert.PublishedConfigMap),
			Data: map[string]string{"livesched-0": text, "host": "broken"}},
	}
	found, err := Find(t.Context(), fake.NewClientset(objects...), namespace, "livesched")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b Replica) int { return cmp.Compare(a.Pod, b.Pod) })
	type summary struct {
		pod, host     string
		port          int32
		leader, ready bool
		verified      bool
	}
	var got []summary
	for _, r := range found {
		got = append(got, summary{r.Pod, r.Host, r.Port, r.Leader, r.Ready, r.Certificate.Equal(held.Leaf)})
		if (r.Certificate == nil) != (r.Unverified != nil) || r.IP != "10.0.0.1" {
			t.Errorf("%s at %s is verified by %v, or not: %v", r.Pod, r.IP, r.Certificate, r.Unverified)
		}
	}
	want := []summary{{"has-a-host-name", "host", 10259, false, false, false},
		{"livesched-0", "livesched-0", 7, false, true, true},
		{"on-the-network-of-its-node", "node-1", 10259, true, false, false}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWithoutTheConfigMapNoReplicaIsVerified(t *testing.T) {
	pod := running("livesched-0", func(*corev1.Pod) {})
	found, err := Find(t.Context(), fake.NewClientset(pod), namespace, "livesched")
	if err != nil || len(found) != 1 || found[0].Certificate != nil || found[0].Leader ||
		!strings.Contains(found[0].Unverified.Error(), "apply config/rbac") {
		t.Errorf("got %+v, %v", found, err)
	}
}
