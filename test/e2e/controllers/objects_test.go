// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
}

// createFor creates objects that are not deleted with the spec's namespace, and deletes them at the
// end of the spec.
func createFor(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			letGo(ctx, object)
		}
	})
}

// letGo deletes an object, including its finalizers.
func letGo(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
	nobody := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(k8s.Patch(ctx, object, nobody))).To(Succeed())
}

// update changes an object in the API server.
func update[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(testcluster.Update(ctx, k8s, object, change)).To(Succeed())
}

// updateStatus is update for the status, which controllers and kwok write as well.
func updateStatus[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(testcluster.Patience, func() error {
		if err := read(ctx, object); err != nil {
			return err
		}
		change(object)
		return k8s.Status().Update(ctx, object)
	})).To(Succeed())
}

func read(ctx context.Context, object client.Object) error {
	return k8s.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// expectGone waits until an object is deleted.
func expectGone(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(func() bool { return apierrors.IsNotFound(read(ctx, object)) }).WithContext(ctx).Should(BeTrue())
}

// createProfile creates a profile with a spec in YAML, and waits until it runs.
func createProfile(ctx context.Context, name, spec string) {
	GinkgoHelper()
	p := objects.Profile(name, spec)
	create(ctx, p)
	expectProgrammed(ctx, p)
}

// respec gives a profile another spec, in YAML, and waits until that runs.
func respec(ctx context.Context, name, spec string) {
	GinkgoHelper()
	next := objects.Profile(name, spec)
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	update(ctx, p, func(p *v1alpha1.SchedulerProfile) { p.Spec = next.Spec })
	expectProgrammed(ctx, p)
}

func expectProgrammed(ctx context.Context, p *v1alpha1.SchedulerProfile) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, p)).To(Succeed())
		condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(*condition).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", p.Generation)))
	}).WithContext(ctx).Should(Succeed())
}

// nodeOf returns a node with room for 4 CPUs and 8 GiB.
func nodeOf(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := objects.Node(name, "4", "8Gi", nil)
	for _, change := range changes {
		change(node)
	}
	return node
}

func withNodeLabel(key, value string) func(*corev1.Node) {
	return func(node *corev1.Node) { metav1.SetMetaDataLabel(&node.ObjectMeta, key, value) }
}

func withTaint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
}

// createNodes creates nodes and waits until pods can run on them: kwok has made them ready, and
// kube-controller-manager has removed the taint of new nodes. kwok must also hold a new lease: the
// lease of an earlier node with that name is collected some time, and pods that arrive before kwok
// has another one may never run.
func createNodes(ctx context.Context, nodes ...*corev1.Node) {
	GinkgoHelper()
	for _, node := range nodes {
		create(ctx, node)
	}
	for _, node := range nodes {
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, node)).To(Succeed())
			g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", corev1.TaintNodeNotReady)))
			g.Expect(node.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name}}
			g.Expect(read(ctx, lease)).To(Succeed())
			g.Expect(lease.OwnerReferences).To(Or(BeEmpty(), HaveEach(HaveField("UID", node.UID))))
		}).WithContext(ctx).Should(Succeed())
	}
}

// nodes creates nodes of the usual size.
func nodes(ctx context.Context, names ...string) {
	GinkgoHelper()
	var all []*corev1.Node
	for _, name := range names {
		all = append(all, nodeOf(name))
	}
	createNodes(ctx, all...)
}

type podChange = func(*corev1.PodTemplateSpec)

// templateOf returns the template of small pods for the scheduler "mine", with the label app.
func templateOf(app string, changes ...podChange) corev1.PodTemplateSpec {
	pod := objects.Pod("", "", mine, "100m", "100Mi")
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: pod.Spec}
	for _, change := range changes {
		change(&template)
	}
	return template
}

// podOf returns a pod without a controller.
func podOf(name string, changes ...podChange) *corev1.Pod {
	template := templateOf(name, changes...)
	template.Namespace, template.Name = namespace, name
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}

func createPod(ctx context.Context, name string, changes ...podChange) *corev1.Pod {
	GinkgoHelper()
	pod := podOf(name, changes...)
	create(ctx, pod)
	return pod
}

func requesting(name corev1.ResourceName, quantity string) podChange {
	return func(t *corev1.PodTemplateSpec) {
		resources := &t.Spec.Containers[0].Resources
		resources.Requests[name] = resource.MustParse(quantity)
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory { // extended ones are not overcommitted
			if resources.Limits == nil {
				resources.Limits = corev1.ResourceList{}
			}
			resources.Limits[name] = resource.MustParse(quantity)
		}
	}
}

func cpu(quantity string) podChange { return requesting(corev1.ResourceCPU, quantity) }

func onNode(name string) podChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = name }
}

func selecting(key, value string) podChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.NodeSelector = map[string]string{key: value} }
}

func tolerating(key string) podChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func prioritized(class string) podChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = class }
}

// apart forbids pods of an app to share a node.
func apart(app string) podChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname,
		}}}}
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
	Expect(k8s.List(ctx, &list, options...)).To(Succeed())
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

// expectRunning waits until that many pods of an app run, and returns how many run on each node.
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

// expectPending makes sure that a pod is not bound.
func expectPending(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(read(ctx, pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// unschedulable matches a pod that fits nowhere, by the message in its status.
func unschedulable(message gomegatypes.GomegaMatcher) gomegatypes.GomegaMatcher {
	return unscheduled(corev1.PodReasonUnschedulable, message)
}

// unscheduled matches a pod that is not scheduled, by the reason and message in its status.
func unscheduled(reason string, message gomegatypes.GomegaMatcher) gomegatypes.GomegaMatcher {
	return HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionFalse), HaveField("Reason", reason), HaveField("Message", message))))
}

// expectUnschedulable waits until the status of a pod reports that it fits nowhere, and why.
func expectUnschedulable(ctx context.Context, pod *corev1.Pod, message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, pod)).To(Succeed())
		g.Expect(*pod).To(unschedulable(Equal(message)))
	}).WithContext(ctx).Should(Succeed())
}

// eventsOf lists the Events of the spec with a reason.
func eventsOf(ctx context.Context, reason string) []eventsv1.Event {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// describe prints the objects at the end of a failed spec.
func describe(ctx context.Context) {
	for _, pod := range podsOf(ctx) {
		AddReportEntry("pod "+pod.Name, fmt.Sprintf("%s on %q, nominated %q, deleted %v\n%+v", pod.Status.Phase, pod.Spec.NodeName, pod.Status.NominatedNodeName,
			pod.DeletionTimestamp, pod.Status.Conditions), ReportEntryVisibilityFailureOrVerbose)
	}
	for _, event := range eventsOf(ctx, "FailedScheduling") {
		AddReportEntry("FailedScheduling of "+event.Regarding.Name, event.Note, ReportEntryVisibilityFailureOrVerbose)
	}
}

// names returns numbered names of nodes and pods.
func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i+1))
	}
	return all
}
