// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// actors change the cluster from time to time, each with random numbers of its own.
var actors = map[string]func(*World, *rand.Rand){
	"workloads":    (*World).changeWorkloads,
	"nodes":        (*World).changeNodes,
	"profiles":     (*World).changeProfiles,
	"policies":     (*World).changePolicy,
	"kills":        (*World).killReplica,
	"replacements": (*World).replaceReplica,
	"stalls":       (*World).stallReplica,
	"outages":      (*World).endConnections,
	"restores":     (*World).restoreEtcd,
	"compact":      (*World).compact,
}

var actorNames = slices.Sorted(maps.Keys(actors))

// startActors lets actors act until the end, each so many seconds after the last time on average.
func (w *World) startActors(seconds map[string]int, end time.Time) {
	for _, name := range slices.Sorted(maps.Keys(seconds)) {
		act, random, mean := actors[name], w.actorStream(name), seconds[name]
		var next func()
		next = func() {
			if !time.Now().Before(end) {
				return
			}
			w.counts["actor: "+name]++
			act(w, random)
			w.after(time.Duration(random.ExpFloat64()*float64(mean)*float64(time.Second)), next)
		}
		w.after(time.Duration(random.IntN(mean*1000))*time.Millisecond, next)
	}
}

// must records an error of the API server that an actor does not expect.
func (w *World) must(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.fail("an actor: %v", err)
	}
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// sorted returns the objects of a map in the order of their keys.
func sorted[T any](m map[string]T) []T {
	var all []T
	for _, key := range slices.SortedFunc(maps.Keys(m), cmp.Compare[string]) {
		all = append(all, m[key])
	}
	return all
}

// changeWorkloads creates pods that are alike, or deletes some.
func (w *World) changeWorkloads(r *rand.Rand) {
	pods := sorted(w.cluster.pods)
	if len(pods) > 60 || len(pods) > 0 && r.IntN(3) == 0 {
		for range 1 + r.IntN(len(pods)) {
			pod := one(r, pods)
			w.log.add("delete pod %s", pod.Name)
			w.must(w.cluster.objects.Delete(w.ctx, pod))
		}
		return
	}
	template := w.newPod(r)
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
		pod.Spec.NodeSelector = map[string]string{"zone": one(r, []string{"z0", "z1", "z2"})}
	case 3:
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 4:
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	case 5:
		pod.Spec.Priority = ptr.To[int32](int32(r.IntN(3)))
	}
	return pod
}

// addNode adds a node. A node may come again under the name of another one.
func (w *World) addNode(r *rand.Rand) {
	name := fmt.Sprintf("node-%d", r.IntN(10))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, "zone": fmt.Sprintf("z%d", r.IntN(3))}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(one(r, []string{"2", "4", "8"})),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("12")}},
	}
	if err := w.cluster.objects.Create(w.ctx, node); !apierrors.IsAlreadyExists(err) {
		w.log.add("create node %s", name)
		w.must(err)
	}
}

// changeNodes adds or removes a node, or changes its taints or labels.
func (w *World) changeNodes(r *rand.Rand) {
	nodes := sorted(w.cluster.nodes)
	kind := r.IntN(5)
	if len(nodes) < 2 || kind < 2 {
		w.addNode(r)
		return
	}
	node := one(r, nodes).DeepCopy()
	switch kind {
	case 2:
		w.log.add("delete node %s", node.Name)
		w.must(w.cluster.objects.Delete(w.ctx, node))
		for _, pod := range sorted(w.cluster.pods) { // as the garbage collector of pods does
			if pod.Spec.NodeName == node.Name {
				w.must(w.cluster.objects.Delete(w.ctx, pod, client.GracePeriodSeconds(0)))
			}
		}
		return
	case 3:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	case 4:
		node.Labels["zone"] = fmt.Sprintf("z%d", r.IntN(3))
	}
	w.log.add("change node %s", node.Name)
	w.must(w.cluster.objects.Update(w.ctx, node))
}
