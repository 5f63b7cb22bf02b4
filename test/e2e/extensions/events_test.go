// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// foos is the cluster event of a custom resource.
const foos = fwk.EventResource("foos.v1.example.com")

// serveFoos makes the API server serve the custom resource until the end of the spec.
func serveFoos(ctx context.Context) {
	GinkgoHelper()
	clientset, err := apiextensionsclient.NewForConfig(Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	served := func() bool {
		_, err := clientset.Discovery().ServerResourcesForGroupVersion("example.com/v1")
		return err == nil
	}
	crds := clientset.ApiextensionsV1().CustomResourceDefinitions()
	definition, err := crds.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "foos", Kind: "Foo"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(crds.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(served).Should(BeFalse())
	})
	Eventually(served).Should(BeTrue())
	Eventually(func() error { return createFoo(ctx, client.DryRunAll) }).WithContext(ctx).Should(Succeed())
}

func createFoo(ctx context.Context, options ...client.CreateOption) error {
	foo := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Foo"}}
	foo.SetNamespace(metav1.NamespaceDefault)
	foo.SetName("foo")
	return K8s.Create(ctx, foo, options...)
}

var _ = Describe("The events of an out-of-tree plugin", func() {
	var (
		s    *Script
		run  *testcluster.Running
		open atomic.Bool
	)
	const permits = "plugins: {filter: {enabled: [{name: Alpha}]}}"

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		open.Store(false)
		run = Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		s.Perform(func(a *Acts) {
			a.Filter = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				if open.Load() {
					return nil
				}
				return fwk.NewStatus(fwk.Unschedulable, "closed")
			}
		})
	})

	// asksFor registers the plugin for all events of a resource, whose hint selects the pods to
	// requeue.
	asksFor := func(resource fwk.EventResource, hint fwk.QueueingHintFn) {
		s.Perform(func(a *Acts) {
			a.Events = func(*Actor) ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: resource, ActionType: fwk.All},
					QueueingHintFn: hint}}, nil
			}
		})
	}
	refused := func(ctx context.Context) *corev1.Pod {
		GinkgoHelper()
		pod := CreatePod(ctx, "mine", "pod")
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 closed."))
		return pod
	}

	It("on a custom resource wake its pods, and its hint receives the object", func(ctx context.Context) {
		serveFoos(ctx)
		var seen atomic.Value
		asksFor(foos, func(_ klog.Logger, _ *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
			if foo, ok := newObj.(*unstructured.Unstructured); ok {
				seen.Store(foo.GetName())
			}
			return fwk.Queue, nil
		})
		handlers := run.Informers.Handlers()
		CreateProfile(ctx, "mine", permits)
		pod := refused(ctx)
		open.Store(true)
		ExpectPending(ctx, pod)
		Expect(createFoo(ctx)).To(Succeed())
		ExpectBound(ctx, pod)
		Expect(seen.Load()).To(Equal("foo"))

		By("no longer listening when no profile needs the events")
		Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
	})

	It("on a resource that is not served yet are delivered from the next reload on, once it is served",
		func(ctx context.Context) {
			asksFor(foos, nil)
			CreateProfile(ctx, "mine", permits)
			pod := refused(ctx)
			serveFoos(ctx)
			Respec(ctx, "mine", permits+"\npercentageOfNodesToScore: 50")
			Eventually(s.At).WithArguments(pod, "Filter").Should(HaveLen(2), "the reload retries the pod")
			ExpectPending(ctx, pod)
			open.Store(true)
			Expect(createFoo(ctx)).To(Succeed())
			ExpectBound(ctx, pod)
		})

	It("on a resource that is not served are named in the profile's condition until it is", func(ctx context.Context) {
		asksFor(foos, nil)
		CreateProfile(ctx, "mine", permits)
		lacksFoos := ContainElements(
			And(HaveField("Type", v1alpha1.ConditionProgrammed),
				HaveField("Message", HaveSuffix("kinds that the API server does not serve: example.com/v1 foos"))),
			And(HaveField("Type", v1alpha1.ConditionReady), HaveField("Status", metav1.ConditionTrue),
				HaveField("Message", HaveSuffix("example.com/v1 foos"))))
		conditions := func(g Gomega) []metav1.Condition {
			p := &v1alpha1.SchedulerProfile{}
			g.Expect(K8s.Get(ctx, client.ObjectKey{Name: "mine"}, p)).To(Succeed())
			return p.Status.Conditions
		}
		Eventually(conditions).Should(lacksFoos)
		serveFoos(ctx)
		Eventually(func(g Gomega) []metav1.Condition {
			run.Informers.Probe(ctx)
			return conditions(g)
		}).Should(And(Not(lacksFoos),
			ContainElement(And(HaveField("Type", v1alpha1.ConditionReady),
				HaveField("Message", HaveSuffix(" is active"))))))
	})

	It("on an invalid resource name fail the build with an error that explains how to name resources",
		func(ctx context.Context) {
			asksFor("foos", nil)
			handlers := run.Informers.Handlers()
			Create(ctx, Profile("mine", permits))
			p := ExpectCondition(ctx, "mine", v1alpha1.ConditionProgrammed, metav1.ConditionFalse,
				v1alpha1.ReasonBuildFailed)
			Expect(p.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(
				`resource "foos": not a resource that the scheduler knows; custom resources are named `+
					`<plural>.<version>.<group>, as in "foos.v1.example.com"`))))
			Eventually(run.Informers.Handlers).Should(Equal(handlers))
		})

	It("do not wake pods for which its hint returns QueueSkip", func(ctx context.Context) {
		asksFor(fwk.Node, func(_ klog.Logger, _ *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
			if n, ok := newObj.(*corev1.Node); ok && n.Labels["helps"] == "yes" {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		})
		CreateProfile(ctx, "mine", permits)
		pod := refused(ctx)
		open.Store(true)
		Create(ctx, Node("n2", "4", "8Gi", map[string]string{"helps": "no"}))
		ExpectPending(ctx, pod)
		Expect(s.At(pod, "Filter")).To(HaveLen(1))
		Create(ctx, Node("n3", "4", "8Gi", map[string]string{"helps": "yes"}))
		ExpectBound(ctx, pod)
	})

	DescribeTable("are all events for a plugin that", func(ctx context.Context, spec string, all bool) {
		if all {
			asksFor(fwk.WildCard, nil)
		}
		CreateProfile(ctx, "mine", spec)
		pod := refused(ctx)
		open.Store(true)
		CreateFor(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "helps"},
			Provisioner: "kubernetes.io/no-provisioner"})
		ExpectBound(ctx, pod)
	},
		Entry("requests all", permits, true),
		Entry("does not register any", "plugins: {filter: {enabled: [{name: Taciturn}]}}", false),
	)
})
