// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The entries have the names of kube-scheduler's own cases, in
// test/integration/scheduler/preemption/podgrouppreemption_test.go of Kubernetes 1.36, and in
// podgroup/podgroup_test.go beside it.
var _ = Describe("A PodGroup of Kubernetes that preempts", Ordered, func() {
	inGroups()

	DescribeTable("does so as with kube-scheduler", func(ctx context.Context, steps ...step) { play(ctx, steps...) },
		Entry("Full PodGroup Preemption",
			sized("n", "3"), of(10).single("1", "low-1", "low-2", "low-3"),
			of(100).group("pg1", 3).pods("1", "high-1", "high-2", "high-3"),
			bound("high-1", "high-2", "high-3"), gone("low-1", "low-2", "low-3"),
			condition("pg1", metav1.ConditionTrue, "Scheduled")),
		Entry("Full PodGroup Preemption for basic policy",
			sized("n", "3"), of(10).single("1", "low-1", "low-2", "low-3"),
			of(100).group("pg1", 0).pods("1", "high-1", "high-2", "high-3"),
			bound("high-1", "high-2", "high-3"), gone("low-1", "low-2", "low-3")),
		Entry("Partial Preemption",
			sized("n1", "2"), sized("n2", "2"), of(10).on("n1", "2", "low-1"), of(10).on("n2", "1", "low-2"),
			of(100).group("pg1", 3).pods("1", "high-1", "high-2", "high-3"),
			bound("high-1", "high-2", "high-3"), gone("low-1"), bound("low-2")),
		Entry("Partial Preemption with basic policy",
			sized("n1", "2"), sized("n2", "2"), of(10).on("n1", "1", "low-1"), of(5).on("n2", "2", "very-low-1"),
			of(100).group("pg1", 0).pods("1", "high-1", "high-2", "high-3"),
			bound("high-1", "high-2", "high-3"), gone("very-low-1"), bound("low-1")),
		Entry("PDB Violation Handling (Reprieve)",
			sized("n", "3"), protected("foo"), of(10).single("1", "foo-1", "foo-2", "low-3"),
			of(100).group("pg1", 2).pods("500m", "high-1", "high-2"),
			bound("high-1", "high-2"), gone("low-3"), bound("foo-1", "foo-2")),
		Entry("Multi-node Preemption",
			sized("n1", "2"), sized("n2", "2"), of(10).on("n1", "1", "low-1", "low-2"),
			of(10).on("n2", "1", "low-3", "low-4"),
			of(100).group("pg1", 4).pods("1", "high-1", "high-2", "high-3", "high-4"),
			bound("high-1", "high-2", "high-3", "high-4"), gone("low-1", "low-2", "low-3", "low-4")),
		Entry("Insufficient Resources (No Preemption)",
			sized("n", "3"), of(500).single("1", "mid-1"), of(10).single("1", "low-1", "low-2"),
			of(100).group("pg1", 3).pods("1", "high-1", "high-2", "high-3"),
			unschedulable("high-1", "high-2", "high-3"), bound("mid-1", "low-1", "low-2")),
		Entry("Priority-based Victim Selection",
			sized("n", "3"), of(50).single("1", "mid-1"), of(10).single("1", "low-1", "low-2"),
			of(100).group("pg1", 2).pods("1", "high-1", "high-2"),
			bound("high-1", "high-2"), gone("low-1", "low-2"), bound("mid-1")),
		Entry("Preempt the whole PodGroup even if preempting a single Pod would suffice",
			sized("n", "3"), of(10).wholeGroup("pg2", 3).pods("1", "low-1", "low-2", "low-3"),
			bound("low-1", "low-2", "low-3"),
			of(100).group("pg1", 1).pods("1", "high-1"),
			bound("high-1"), gone("low-1", "low-2", "low-3")),
		Entry("Preempt the whole basic PodGroup with a PodGroup disruption mode",
			sized("n", "3"), of(10).wholeGroup("pg2", 0).pods("1", "low-1", "low-2", "low-3"),
			bound("low-1", "low-2", "low-3"),
			of(100).group("pg1", 1).pods("1", "high-1"),
			bound("high-1"), gone("low-1", "low-2", "low-3")),
		Entry("Priority divergence in PodGroups - preemptor PodGroup has higher priority than the victim candidate "+
			"PodGroup", differs(otherPriority),
			sized("n", "3"), of(10).wholeGroup("pg2", 3).podsOf(100, "1", "high-1", "high-2", "high-3"),
			bound("high-1", "high-2", "high-3"),
			of(100).group("pg1", 1).podsOf(10, "1", "low-1"),
			bound("low-1"), gone("high-1", "high-2", "high-3")),
		Entry("Priority divergence in PodGroups - preemptor PodGroup has too low priority", differs(otherPriority),
			sized("n", "3"), of(100).wholeGroup("pg2", 3).podsOf(10, "1", "low-1", "low-2", "low-3"),
			bound("low-1", "low-2", "low-3"),
			of(10).group("pg1", 1).podsOf(100, "1", "high-1"),
			unschedulable("high-1"), bound("low-1", "low-2", "low-3")),
		// kube-scheduler 1.36 evicts single pods here, 1.37 the whole group.
		Entry("Preemptor Pod without PodGroupName and the PodGroup disruption mode",
			sized("n1", "1"), sized("n2", "1"), of(10).wholeGroup("pg1", 2).pods("1", "low-1", "low-2"),
			bound("low-1", "low-2"),
			of(100).single("1", "high-1"), gone("low-1", "low-2")),
		Entry("Preemptor Pod without PodGroupName and a PodGroup of a higher priority than its pods",
			differs(otherPriority),
			sized("n1", "1"), sized("n2", "1"), of(100).wholeGroup("pg1", 2).podsOf(10, "1", "low-1", "low-2"),
			bound("low-1", "low-2"),
			of(50).pending("1", "mid-1"), unschedulable("mid-1"), bound("low-1", "low-2")),
		Entry("gang schedules with preemption",
			sized("n", "4"), of(1).single("4", "low-priority-blocker"),
			of(100).group("pg1", 3).pods("1", "p1", "p2", "p3", "p4"),
			bound("p1", "p2", "p3", "p4"), gone("low-priority-blocker"),
			condition("pg1", metav1.ConditionTrue, "Scheduled")),
		Entry("gang schedules with workload-aware preemption",
			sized("n", "4"), of(10).single("1", "low-p1", "low-p2", "low-p3", "low-p4"),
			of(100).group("pg1", 4).pods("1", "p1", "p2", "p3", "p4"),
			bound("p1", "p2", "p3", "p4"), gone("low-p1", "low-p2", "low-p3", "low-p4")),
		Entry("gang schedules with partial workload-aware preemption",
			sized("n", "4"), of(1).single("1", "very-low-p1", "very-low-p2"), of(10).single("1", "low-p1", "low-p2"),
			of(50).group("mid", 2).pods("1", "mid-p1", "mid-p2"),
			bound("mid-p1", "mid-p2"), gone("very-low-p1", "very-low-p2"), bound("low-p1", "low-p2")),
		// Here a gang preempts also if it has a topology constraint. kube-scheduler's case "tas
		// gang with constraint does not use workload preemption" has the same steps.
		Entry("tas gang with constraint does not use pod by pod preemption",
			sized("n", "4"), of(1).single("1", "very-low-p1", "very-low-p2"), of(10).single("1", "low-p1", "low-p2"),
			of(50).group("mid", 2).within(corev1.LabelTopologyZone).pods("1", "mid-p1", "mid-p2"),
			bound("mid-p1", "mid-p2"), gone("very-low-p1", "very-low-p2"), bound("low-p1", "low-p2")),
	)
})

const otherPriority = "1.37 refuses pods whose priority is not that of their group"

// sized creates a node with a number of CPUs.
func sized(name, cpus string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		Create(ctx, Node(name, cpus, "8Gi", map[string]string{corev1.LabelTopologyZone: "zone1"}))
	}
}

// protected creates a disruption budget that allows no disruption of the pods with this label app.
func protected(app string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: app},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(2)),
				Selector:     metav1.SetAsLabelSelector(map[string]string{"app": app}),
			},
		}
		CreateFor(ctx, b)
		ExpectCached(ctx, b)
	}
}

// of makes objects with a priority.
type of int32

// class returns the name of the PriorityClass, which it creates if there is none.
func (p of) class(ctx context.Context) string {
	GinkgoHelper()
	class := PriorityClass(fmt.Sprintf("priority-%d", p), int32(p))
	if apierrors.IsNotFound(K8s.Get(ctx, client.ObjectKeyFromObject(class), class)) {
		CreateClasses(ctx, class)
	}
	return class.Name
}

// create creates pods. Their label app is the part of the name before the hyphen.
func (p of) create(cpu string, names []string, change func(*stage) func(*corev1.Pod),
	changes ...func(*corev1.Pod)) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		prioritized := Prioritized(p.class(ctx))
		for _, name := range names {
			pod := []func(*corev1.Pod){CPU(cpu), prioritized, change(s)}
			if app, _, of := strings.Cut(name, "-"); of {
				pod = append(pod, Labelled("app", app))
			}
			s.pods[name] = CreatePod(ctx, "mine", name, append(pod, changes...)...)
		}
	}
}

// pending creates pods without a group.
func (p of) pending(cpu string, names ...string) step {
	return p.create(cpu, names, func(*stage) func(*corev1.Pod) { return func(*corev1.Pod) {} })
}

// single is pending, and waits until the pods are bound.
func (p of) single(cpu string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		p.pending(cpu, names...)(ctx, s)
		bound(names...)(ctx, s)
	}
}

// on creates pods that are on a node already.
func (p of) on(node, cpu string, names ...string) step {
	return p.create(cpu, names, func(*stage) func(*corev1.Pod) { return OnNode(node) })
}

// member creates pods of a group, which may be created later.
func (p of) member(group, cpu string, names ...string) step {
	return p.create(cpu, names, func(s *stage) func(*corev1.Pod) { return InGroup(group + s.suffix) })
}

// changed is member for one pod that is changed before it is created.
func (p of) changed(group, cpu, name string, changes ...func(*corev1.Pod)) step {
	return p.create(cpu, []string{name}, func(s *stage) func(*corev1.Pod) { return InGroup(group + s.suffix) },
		changes...)
}

// memberOn is member for pods with a CPU each that are on a node already.
func (p of) memberOn(group, node string, names ...string) step {
	return p.create("1", names, func(s *stage) func(*corev1.Pod) { return InGroup(group + s.suffix) }, OnNode(node))
}

// selecting is pending for one pod that selects a node.
func (p of) selecting(node, cpu, name string) step {
	return p.create(cpu, []string{name}, func(*stage) func(*corev1.Pod) { return onlyOn(node) })
}

// changedOn is on for one pod that is changed before it is created.
func (p of) changedOn(node, cpu, name string, changes ...func(*corev1.Pod)) step {
	return p.create(cpu, []string{name}, func(*stage) func(*corev1.Pod) { return OnNode(node) }, changes...)
}

// group is a PodGroup of minCount pods, or with the basic policy if that is 0.
func (p of) group(name string, minCount int32) *prioritizedGroup {
	return &prioritizedGroup{name: name, minCount: minCount, priority: p}
}

// wholeGroup is group for a PodGroup that is evicted as a whole.
func (p of) wholeGroup(name string, minCount int32) *prioritizedGroup {
	g := p.group(name, minCount)
	g.mode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	return g
}

// within gives the group a topology constraint.
func (g *prioritizedGroup) within(key string) *prioritizedGroup {
	g.key = key
	return g
}

type prioritizedGroup struct {
	name     string
	key      string
	minCount int32
	priority of
	mode     *schedulingv1beta1.DisruptionMode
}

// alone creates the group without pods.
func (g *prioritizedGroup) alone() step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		object := KubernetesPodGroup(g.name+s.suffix, g.minCount, g.key)
		object.Spec.PriorityClassName = g.priority.class(ctx)
		object.Spec.DisruptionMode = g.mode
		Create(ctx, object)
		Expect(object.Spec.Priority).To(HaveValue(Equal(int32(g.priority))))
	}
}

// pods creates the group and its pods, with the priority of the group.
func (g *prioritizedGroup) pods(cpu string, names ...string) step {
	return g.podsOf(g.priority, cpu, names...)
}

// podsOf is pods with another priority than that of the group.
func (g *prioritizedGroup) podsOf(priority of, cpu string, names ...string) step {
	return func(ctx context.Context, s *stage) {
		GinkgoHelper()
		g.alone()(ctx, s)
		priority.member(g.name, cpu, names...)(ctx, s)
	}
}
