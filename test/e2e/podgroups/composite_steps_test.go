// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// inTrees makes steps run with livesched and the feature gate CompositePodGroup.
func inTrees() {
	set := func(on bool) {
		GinkgoHelper()
		Expect(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
			string(features.GenericWorkload):                 on,
			string(features.TopologyAwareWorkloadScheduling): on,
			string(features.CompositePodGroup):               on,
		})).To(Succeed())
	}
	BeforeAll(func() {
		NeedsServer("1.37", "it has no CompositePodGroups")
		set(true)
		DeferCleanup(set, false)
	})
	inGroups()
	AfterEach(func(ctx context.Context) {
		if ServerAtLeast("1.37") {
			Expect(K8s.DeleteAllOf(ctx, &schedulingv1alpha3.CompositePodGroup{},
				client.InNamespace(corev1.NamespaceDefault))).To(Succeed())
		}
	})
}

// hosts creates nodes with two CPUs each. Their labels are values of "zone", "block" and "rack"
// with the key before the hyphen: "zone-1 rack-2".
func hosts(labels string, names ...string) step { return hostsWith(labels, names, nil) }

// taintedHosts is hosts with the taint that tolerating tolerates.
func taintedHosts(labels string, names ...string) step {
	return hostsWith(labels, names, []corev1.Taint{{Key: "taint", Effect: corev1.TaintEffectNoSchedule}})
}

func hostsWith(labels string, names []string, taints []corev1.Taint) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		byKey := map[string]string{}
		for value := range strings.FieldsSeq(labels) {
			key, _, _ := strings.Cut(value, "-")
			byKey[key] = value
		}
		for _, name := range names {
			node := Node(name, "2", "8Gi", byKey)
			node.Spec.Taints = taints
			Create(ctx, node)
		}
	}
}

// composite creates a CompositePodGroup of minGroups groups, or with the basic policy if that is 0.
// Its pods get nodes with the same value of a label, unless key is "". parent may be "".
func composite(name, parent string, minGroups int32, key string, changes ...func(*schedulingv1alpha3.CompositePodGroup),
) step {
	return of(100).composite(name, parent, minGroups, key, changes...)
}

// composite is composite with a priority.
func (p of) composite(
	name, parent string, minGroups int32, key string, changes ...func(*schedulingv1alpha3.CompositePodGroup),
) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		object := CompositePodGroup(name+s.suffix, minGroups, key)
		if parent != "" {
			object.Spec.ParentCompositePodGroupName = new(parent + s.suffix)
		}
		object.Spec.PriorityClassName = p.class(ctx)
		for _, change := range changes {
			change(object)
		}
		Create(ctx, object)
	}
}

// evictedWhole makes preemption evict all pods of a CompositePodGroup, or none.
func evictedWhole(object *schedulingv1alpha3.CompositePodGroup) {
	object.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{
		All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
}

// child creates a PodGroup as gang does, with a parent.
func child(name, parent string, minCount int32, key string) step {
	return of(100).child(name, parent, minCount, key)
}

// child is child with a priority.
func (p of) child(name, parent string, minCount int32, key string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		object := KubernetesPodGroup(name+s.suffix, minCount, key)
		object.Spec.ParentCompositePodGroupName = new(parent + s.suffix)
		object.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: "workload", TemplateName: "pods"}
		object.Spec.PriorityClassName = p.class(ctx)
		Create(ctx, object)
	}
}

// placed creates pods of a group, with a CPU each, that are on a node already.
func placed(group, node string, names ...string) step { return of(100).memberOn(group, node, names...) }

// tolerating creates pods of a group, with a CPU each, that tolerate the taint of taintedHosts.
func tolerating(group string, names ...string) step {
	return of(100).create("1", names, func(s *stage) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			InGroup(group + s.suffix)(pod)
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "taint"})
		}
	})
}

// preferring creates pods of a group, with a CPU each, that prefer a node.
func preferring(node, group string, names ...string) step {
	term := corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}
	return of(100).create("1", names, func(s *stage) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			InGroup(group + s.suffix)(pod)
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term}}}
		}
	})
}

// boundOn waits until pods are bound to some of the nodes.
func boundOn(nodes []string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			Expect(ExpectBound(ctx, s.pods[name])).To(BeElementOf(nodes), "of pod %s", name)
		}
	}
}
