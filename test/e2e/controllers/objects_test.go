// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

func read(ctx context.Context, object client.Object) error {
	return K8s.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// updateStatus changes the status of an object, which controllers and kwok write as well.
func updateStatus[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(testcluster.Patience, func() error {
		if err := read(ctx, object); err != nil {
			return err
		}
		change(object)
		return K8s.Status().Update(ctx, object)
	})).To(Succeed())
}

// addNodes creates nodes and waits until pods can run on them: kwok has made them ready, and
// kube-controller-manager has removed the taint of new nodes. kwok must also hold a new lease: if
// an earlier node had the same name, its lease is garbage-collected at some time, and pods that
// arrive before kwok holds another lease may never run.
func addNodes(ctx context.Context, nodes ...*corev1.Node) {
	GinkgoHelper()
	for _, node := range nodes {
		Create(ctx, node)
	}
	for _, node := range nodes {
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, node)).To(Succeed())
			g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", corev1.TaintNodeNotReady)))
			g.Expect(node.Status.Conditions).
				To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease,
				Name: node.Name}}
			g.Expect(read(ctx, lease)).To(Succeed())
			g.Expect(lease.OwnerReferences).To(Or(BeEmpty(), HaveEach(HaveField("UID", node.UID))))
		}).WithContext(ctx).Should(Succeed())
	}
}

// nodesOf returns nodes of the usual size, 4 CPUs and 8 GiB.
func nodesOf(names ...string) []*corev1.Node {
	var all []*corev1.Node
	for _, name := range names {
		all = append(all, NodeOf(name))
	}
	return all
}

type podChange = func(*corev1.Pod)

// podOf returns a small pod of the spec's namespace for the scheduler "mine". Its label app has the
// pod's name. kwok ends the pod when it is deleted.
func podOf(name string, changes ...podChange) *corev1.Pod {
	pod := Pod(namespace, name, mine, "100m", "100Mi")
	for _, change := range append([]podChange{Labelled("app", name)}, changes...) {
		change(pod)
	}
	return pod
}

// templateOf returns the template of pods that podOf describes, with the label app.
func templateOf(app string, changes ...podChange) corev1.PodTemplateSpec {
	pod := podOf(app, changes...)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
}

func createPod(ctx context.Context, name string, changes ...podChange) *corev1.Pod {
	GinkgoHelper()
	pod := podOf(name, changes...)
	Create(ctx, pod)
	return pod
}

// requestingExtended makes a pod request one unit of an extended resource.
func requestingExtended(name corev1.ResourceName) podChange {
	return func(pod *corev1.Pod) {
		resources, one := &pod.Spec.Containers[0].Resources, resource.MustParse("1")
		resources.Requests[name] = one
		resources.Limits = corev1.ResourceList{name: one} // extended resources are not overcommitted
	}
}

// preferringApart makes pods of an app prefer different nodes.
func preferringApart(app string) podChange {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 100, PodAffinityTerm: HostTerm("app", app)[0]},
				}}}
	}
}

// podsOf lists the pods of the spec with a label app, or all pods.
func podsOf(ctx context.Context, app ...string) []corev1.Pod {
	GinkgoHelper()
	var list corev1.PodList
	options := []client.ListOption{client.InNamespace(namespace)}
	for _, app := range app {
		options = append(options, client.MatchingLabels{"app": app})
	}
	Expect(K8s.List(ctx, &list, options...)).To(Succeed())
	return list.Items
}

// running counts the pods of an app that run and are not being deleted, by node.
func running(ctx context.Context, app string) map[string]int {
	GinkgoHelper()
	count := map[string]int{}
	for _, pod := range podsOf(ctx, app) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			count[pod.Spec.NodeName]++
		}
	}
	return count
}

// expectRunning waits until n pods of an app run, and returns how many run on each node.
func expectRunning(ctx context.Context, app string, n int) map[string]int {
	GinkgoHelper()
	var on map[string]int
	Eventually(func() int {
		on = running(ctx, app)
		return total(on)
	}).WithContext(ctx).Should(Equal(n))
	return on
}

func total(count map[string]int) int {
	n := 0
	for _, c := range count {
		n += c
	}
	return n
}

// expectPodsRunning waits until pods run, and returns the node of the first.
func expectPodsRunning(ctx context.Context, pods ...*corev1.Pod) string {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, pod)).To(Succeed())
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		}).WithContext(ctx).Should(Succeed())
	}
	return pods[0].Spec.NodeName
}

// eventsOf lists the Events of the spec with a reason.
func eventsOf(ctx context.Context, reason string) []eventsv1.Event {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(K8s.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// describe adds the objects at the end of a failed spec to the report.
func describe(ctx context.Context) {
	for _, pod := range podsOf(ctx) {
		AddReportEntry("pod "+pod.Name,
			fmt.Sprintf("%s on %q, nominated %q, deleted %v\n%+v", pod.Status.Phase, pod.Spec.NodeName,
				pod.Status.NominatedNodeName,
				pod.DeletionTimestamp, pod.Status.Conditions), ReportEntryVisibilityFailureOrVerbose)
	}
	for _, event := range eventsOf(ctx, "FailedScheduling") {
		AddReportEntry("FailedScheduling of "+event.Regarding.Name, event.Note, ReportEntryVisibilityFailureOrVerbose)
	}
}
