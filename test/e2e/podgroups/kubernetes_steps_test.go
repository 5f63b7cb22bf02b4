// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// stage is a spec about the PodGroups of Kubernetes.
type stage struct {
	// suffix tells the groups of a spec from those of another one: when a spec begins, livesched
	// may not have seen yet that the groups of the last one are gone.
	suffix string
	pods   map[string]*corev1.Pod
}

// step is one step of a spec.
type step func(ctx context.Context, s *stage)

// stages counts the specs.
var stages int

// play runs the steps of a spec.
func play(ctx context.Context, steps ...step) {
	GinkgoHelper()
	stages++
	s := &stage{suffix: fmt.Sprintf("-%d", stages), pods: map[string]*corev1.Pod{}}
	for _, step := range steps {
		step(ctx, s)
	}
}

// differs skips a spec if kube-scheduler runs it, which has another outcome for the given reason.
func differs(why string) step {
	return func(context.Context, *stage) {
		if os.Getenv(Oracle) != "" {
			Skip("kube-scheduler " + why)
		}
	}
}

// inGroups makes steps run with livesched and two profiles: "mine" has the defaults, and "gangs"
// enables kube-scheduler's plugin for gangs.
func inGroups() {
	Stage(map[string]string{"mine": "", "gangs": "plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}"})
	BeforeAll(func(ctx context.Context) {
		NeedsServer("1.36", "it has no PodGroups")
		Create(ctx, QuickRetries())
	})
	AfterEach(func(ctx context.Context) {
		if !ServerAtLeast("1.36") {
			return
		}
		Expect(K8s.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(corev1.NamespaceDefault))).
			To(Succeed())
	})
}

// rack creates nodes of a rack in a zone, with two CPUs each.
func rack(zone, name string, nodes ...string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		for _, node := range nodes {
			Create(ctx, Node(node, "2", "8Gi", map[string]string{"rack": name, "zone": zone}))
		}
	}
}

// node creates a node with four CPUs.
func node(name string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		Create(ctx, Node(name, "4", "8Gi", map[string]string{corev1.LabelTopologyZone: "zone1"}))
	}
}

// gang creates a PodGroup of minCount pods, or with the basic policy if that is 0. The pods get
// nodes with the same value of a label, unless key is "".
func gang(name string, minCount int32, key string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		Create(ctx, KubernetesPodGroup(name+s.suffix, minCount, key))
	}
}

// minCount changes the minCount of a PodGroup.
func minCount(group string, n int) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(podgroup.KubernetesAPIs[1].Kind())
		object.SetNamespace(metav1.NamespaceDefault)
		object.SetName(group + s.suffix)
		Expect(K8s.Patch(ctx, object, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, n)))).To(Succeed())
	}
}

// withdrawn deletes a PodGroup and waits until it is gone: without kube-controller-manager, nobody
// else removes the finalizer that keeps a PodGroup while it has pods.
func withdrawn(group string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		withdraw(ctx, KubernetesPodGroup(group+s.suffix, 0, ""))
	}
}

func withdraw(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(K8s.Delete(ctx, object)).To(Succeed())
	Expect(client.IgnoreNotFound(K8s.Patch(ctx, object,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	ExpectGone(ctx, object)
}

// pods creates pods of a group, which request a number of CPUs each.
func pods(group, cpu string, names ...string) step { return podsOf("mine", group, cpu, names...) }

// podsOf is pods with a scheduler name.
func podsOf(schedulerName, group, cpu string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			s.pods[name] = CreatePod(ctx, schedulerName, name, InGroup(group+s.suffix), CPU(cpu))
		}
	}
}

// member creates a pod of a group.
func member(group, name, cpu string, changes ...func(*corev1.Pod)) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		s.pods[name] = CreatePod(ctx, "mine", name, append(changes, InGroup(group+s.suffix), CPU(cpu))...)
	}
}

// ungated removes the scheduling gates of pods.
func ungated(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			Update(ctx, s.pods[name], func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
		}
	}
}

// single creates a pod without a group.
func single(name, cpu string, changes ...func(*corev1.Pod)) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		s.pods[name] = CreatePod(ctx, "mine", name, append(changes, CPU(cpu))...)
	}
}

// taken creates a pod that is on a node already.
func taken(name, node, cpu string) step { return single(name, cpu, OnNode(node)) }

// deleted deletes pods.
func deleted(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			Expect(K8s.Delete(ctx, s.pods[name], client.GracePeriodSeconds(0))).To(Succeed())
		}
	}
}

// bound waits until pods are bound.
func bound(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			ExpectBound(ctx, s.pods[name])
		}
	}
}

// boundIn waits until pods are bound to nodes with a value of a label.
func boundIn(key, value string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			Expect(valueOf(ctx, key, ExpectBound(ctx, s.pods[name]))).To(Equal(value), "of pod %s", name)
		}
	}
}

// boundInOne waits until pods are bound to nodes with the same value of a label.
func boundInOne(key string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		boundIn(key, valueOf(ctx, key, ExpectBound(ctx, s.pods[names[0]])), names...)(ctx, s)
	}
}

// valueOf returns the value of a label of a node.
func valueOf(ctx context.Context, key, name string) string {
	GinkgoHelper()
	var node corev1.Node
	Expect(K8s.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
	return node.Labels[key]
}

// unbound checks that pods stay without a node.
func unbound(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		Consistently(func(g Gomega) {
			for _, name := range names {
				g.Expect(K8s.Get(ctx, clientKey(s.pods[name]), s.pods[name])).To(Succeed())
				g.Expect(s.pods[name].Spec.NodeName).To(BeEmpty(), "the node of pod %s", name)
			}
		}).WithContext(ctx).Should(Succeed())
	}
}

// gated checks that pods stay unbound, and that nothing was tried.
func gated(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		unbound(names...)(ctx, s)
		for _, name := range names {
			Expect(s.pods[name].Status.Conditions).To(BeEmpty())
		}
	}
}

// unschedulable waits until pods are.
func unschedulable(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			ExpectUnscheduled(ctx, s.pods[name], corev1.PodReasonUnschedulable, Not(BeEmpty()))
		}
	}
}

// someBound waits until a number of pods are bound, and the others unschedulable.
func someBound(n int, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			count := 0
			for _, name := range names {
				pod := s.pods[name]
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				if pod.Spec.NodeName != "" {
					count++
					continue
				}
				g.Expect(*pod).To(BeUnschedulable(Not(BeEmpty())))
			}
			g.Expect(count).To(Equal(n))
		}).WithContext(ctx).Should(Succeed())
	}
}

// condition waits until the condition of a group has a status and a reason.
func condition(group string, status metav1.ConditionStatus, reason string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		object := KubernetesPodGroup(group+s.suffix, 0, "")
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			g.Expect(object.Status.Conditions).To(ConsistOf(And(
				HaveField("Type", schedulingv1beta1.PodGroupInitiallyScheduled), HaveField("Status", status),
				HaveField("Reason", reason),
				HaveField("ObservedGeneration", object.Generation))))
		}).WithContext(ctx).Should(Succeed())
	}
}

// seen waits until livesched knows a number of nodes, and what has happened to pods until now.
func seen(nodes int) step { return func(ctx context.Context, _ *stage) { ExpectSeen(ctx, nodes) } }

// gone waits until pods are deleted.
func gone(names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		for _, name := range names {
			ExpectGone(ctx, s.pods[name])
		}
	}
}
