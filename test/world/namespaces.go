// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// otherNamespace is a namespace that some pods are in. It may be deleted.
const otherNamespace = "other"

// newNamespace returns a namespace, whose label affinity terms select.
func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": name}}}
}

// namespace returns a namespace, nil if it does not exist.
func (w *World) namespace(name string) *corev1.Namespace {
	return w.cluster.namespaces["/registry/namespaces/"+name]
}

// accepts reports whether new objects can be created in a namespace: the API server of the world
// does not check it.
func (w *World) accepts(name string) bool {
	namespace := w.namespace(name)
	return namespace != nil && namespace.DeletionTimestamp == nil
}

// endNamespace deletes the other namespace. It is created again some time after it is gone.
func (w *World) endNamespace(r *rand.Rand) {
	if !w.accepts(otherNamespace) {
		return
	}
	w.log.add("delete namespace %s", otherNamespace)
	w.must(w.cluster.objects.Delete(w.ctx, newNamespace(otherNamespace)))
	w.emptyNamespace(time.Duration(1+r.IntN(40)) * time.Second)
}

// emptyNamespace deletes what is in the other namespace, and then the namespace itself, as the
// namespace controller does.
func (w *World) emptyNamespace(gone time.Duration) {
	namespace := w.namespace(otherNamespace)
	if w.stopping || namespace == nil || namespace.DeletionTimestamp == nil {
		return // etcd was restored
	}
	empty := true
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Namespace != otherNamespace {
			continue
		}
		if empty = false; pod.DeletionTimestamp == nil {
			w.deletePod(pod)
		}
	}
	if !empty {
		w.after(time.Second, func() { w.emptyNamespace(gone) })
		return
	}
	namespace = namespace.DeepCopy()
	namespace.Spec.Finalizers = nil
	_, err := w.cluster.kube.CoreV1().Namespaces().Finalize(w.ctx, namespace, metav1.UpdateOptions{})
	w.must(err)
	w.after(gone, w.restoreNamespace)
}

// restoreNamespace creates the other namespace, unless it exists.
func (w *World) restoreNamespace() {
	w.log.add("create namespace %s", otherNamespace)
	if err := w.cluster.objects.Create(w.ctx, newNamespace(otherNamespace)); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}
