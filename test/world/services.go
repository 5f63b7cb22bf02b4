// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const servicePrefix = "/registry/services/specs/"

// changeServices creates, changes or deletes a Service. By default, the pods of a Service prefer
// nodes and zones with few of them.
func (w *World) changeServices(r *rand.Rand) {
	// Headless, because the address of another one is random.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: fmt.Sprintf("service-%d", r.IntN(3))}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	known := w.cluster.services[servicePrefix+service.Namespace+"/"+service.Name]
	if known != nil && r.IntN(3) == 0 {
		w.log.add("delete service %s", service.Name)
		w.must(w.cluster.objects.Delete(w.ctx, service))
		return
	}
	if known != nil {
		service = known.DeepCopy()
	}
	service.Spec.Selector = map[string]string{"app": one(r, []string{"a", "b", "c"})}
	w.log.add("service %s selects %v", service.Name, service.Spec.Selector)
	if known != nil {
		w.must(w.cluster.objects.Update(w.ctx, service))
		return
	}
	w.must(w.cluster.objects.Create(w.ctx, service))
}
