// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changeWorkloads creates pods that are alike, or deletes some.
func (w *World) changeWorkloads(r *rand.Rand) {
	pods := sorted(w.cluster.pods)
	if len(pods) > 60 || len(pods) > 0 && r.IntN(3) == 0 {
		for range 1 + r.IntN(one(r, []int{1, len(pods)})) {
			pod := one(r, pods)
			claims := len(pod.Spec.ResourceClaims) + len(pod.Spec.Volumes)
			w.cluster.again[pod.UID] = r.IntN(3) == 0 && groupOf(pod) == "" && claims == 0
			w.deletePod(pod)
		}
		return
	}
	template := w.newPod(r)
	if len(template.Spec.ResourceClaims) == 0 && r.IntN(4) == 0 && w.accepts(otherNamespace) {
		template.Namespace = otherNamespace
	}
	if affinity := template.Spec.Affinity; affinity != nil && r.IntN(3) == 0 {
		affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
			one(r, []*metav1.LabelSelector{{}, {MatchLabels: map[string]string{"tier": "other"}}})
	}
	w.addDetails(r, template)
	if w.plan.Actors["updates"] > 0 && r.IntN(6) == 0 {
		template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	}
	if r.IntN(2) == 0 { // the pods have an owner, which decides whether a canary gets them
		name := fmt.Sprintf("owner-%d", w.counts["actor: workloads"])
		template.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name,
			UID: types.UID(name), Controller: ptr.To(true)}}
	}
	for i := range 1 + r.IntN(8) {
		w.counts["pods"]++
		pod := template.DeepCopy()
		pod.Name = fmt.Sprintf("pod-%d-%d", w.counts["actor: workloads"], i)
		w.log.add("create pod %s", pod.Name)
		w.must(w.cluster.objects.Create(w.ctx, pod))
	}
}

func (w *World) newPod(r *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"app": one(r, []string{"a", "b", "c"})}},
		Spec: corev1.PodSpec{
			SchedulerName: one(r, []string{"one", "one", "two"}),
			Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse(one(r, []string{"100m", "500m", "1", "3"})),
					corev1.ResourceMemory: resource.MustParse(one(r, []string{"64Mi", "1Gi"})),
				}}}},
		},
	}
	own := &metav1.LabelSelector{MatchLabels: pod.Labels}
	switch r.IntN(8) {
	case 0:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	case 1:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: own}}}}
	case 2:
		pod.Spec.NodeSelector = map[string]string{"zone": one(r, zones)}
	case 3:
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 4:
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	if r.IntN(3) == 0 { // the world has no admission, which would read a PriorityClass
		pod.Spec.Priority = ptr.To(one(r, []int32{-10, 100, 1000}))
		if r.IntN(5) == 0 {
			pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		}
	}
	if w.plan.Actors["devices"] > 0 {
		switch r.IntN(8) {
		case 0, 1:
			useDevice(pod)
		case 2:
			requestDevice(r, pod)
		}
	}
	return pod
}

// addDetails adds to a pod what makes a difference to some actors.
func (w *World) addDetails(r *rand.Rand, pod *corev1.Pod) {
	if w.plan.Actors["images"] > 0 {
		pod.Spec.Containers[0].Image = imageName(r.IntN(maxImages))
	}
	if w.plan.Actors["updates"] > 0 {
		addFields(r, pod)
	}
}

// createAgain creates a pod like one that is gone, under its name, as the controller of a
// StatefulSet does.
func (w *World) createAgain(gone *corev1.Pod) {
	if !w.accepts(gone.Namespace) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: gone.Name, Labels: gone.Labels,
		OwnerReferences: gone.OwnerReferences},
		Spec: *gone.Spec.DeepCopy()}
	pod.Spec.NodeName = ""
	w.log.add("create pod %s again", pod.Name)
	if err := w.cluster.objects.Create(w.ctx, pod); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}

// deletePod deletes a pod for an actor.
func (w *World) deletePod(pod *corev1.Pod, options ...client.DeleteOption) {
	w.log.add("delete pod %s", pod.Name)
	w.cluster.preemptions.deleted[pod.UID] = true
	w.must(w.cluster.objects.Delete(w.ctx, pod, append(options, client.Preconditions{UID: &pod.UID})...))
}
