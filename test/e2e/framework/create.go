// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// QuickRetries returns a policy with almost no back-off.
func QuickRetries() *v1alpha1.SchedulingPolicy {
	return Policy("default", "{podInitialBackoff: 1ms, podMaxBackoff: 1ms}")
}

// Create creates objects. It waits until the running livesched has the nodes and policies among
// them in its caches.
func Create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(K8s.Create(ctx, object)).To(Succeed())
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Node:
			ExpectKnown(ctx, object.Name)
		case *v1alpha1.SchedulingPolicy:
			ExpectCached(ctx, object)
		}
	}
}

// CreateFor creates objects and deletes them at the end of the spec. It is for objects that the
// cleanup between specs does not delete.
func CreateFor(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	Create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			Expect(client.IgnoreNotFound(K8s.Delete(ctx, object))).To(Succeed())
		}
	})
}

// Update changes an object in the API server.
func Update[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(testcluster.Update(ctx, K8s, object, change)).To(Succeed())
}

// Respec replaces the spec of a profile with one in YAML, and waits until the new spec is in
// effect.
func Respec(ctx context.Context, name, spec string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	next := Profile(name, spec).Spec
	Update(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}},
		func(p *v1alpha1.SchedulerProfile) { p.Spec = next })
	return ExpectProgrammed(ctx, name)
}

// CreateProfile creates a profile and waits until it is in effect.
func CreateProfile(ctx context.Context, name, spec string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	Create(ctx, Profile(name, spec))
	return ExpectProgrammed(ctx, name)
}

// CreateNodes creates nodes with room for 4 CPUs and 8 GiB each.
func CreateNodes(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Create(ctx, Node(name, "4", "8Gi", nil))
	}
}

// CreatePod creates a pod that PodOf makes.
func CreatePod(ctx context.Context, schedulerName, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := PodOf(schedulerName, name, changes...)
	Create(ctx, pod)
	return pod
}

// Release removes the finalizers of a pod that was Witnessed.
func Release(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	if err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		Update(ctx, pod, func(pod *corev1.Pod) { pod.Finalizers = nil })
	}
}

// Repolicy replaces the spec of a policy with one in YAML, and waits until it is in effect.
func Repolicy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	next := Policy(name, spec).Spec
	p := &v1alpha1.SchedulingPolicy{}
	p.Name = name
	Update(ctx, p, func(p *v1alpha1.SchedulingPolicy) { p.Spec = next })
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		g.Expect(condition).To(And(HaveField("ObservedGeneration", p.Generation),
			HaveField("Reason", v1alpha1.ReasonProgrammed)))
	}).WithContext(ctx).Should(Succeed())
}

// BindVolume binds a claim and a volume to each other, as the volume controller does.
func BindVolume(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	GinkgoHelper()
	Update(ctx, volume, func(volume *corev1.PersistentVolume) {
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
			Name: claim.Name, UID: claim.UID}
	})
	volume.Status.Phase = corev1.VolumeBound
	Expect(K8s.Status().Update(ctx, volume)).To(Succeed())
	Update(ctx, claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName = volume.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	})
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, Gibibyte,
		claim.Spec.AccessModes
	Expect(K8s.Status().Update(ctx, claim)).To(Succeed())
}

// CreateVolumes creates available volumes and the objects that belong to them, and deletes them at
// the end of the spec.
func CreateVolumes(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	Create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			// Finalizers protect volumes in use from deletion. livesched may write a claim
			// meanwhile.
			Expect(client.IgnoreNotFound(testcluster.Update(ctx, K8s, object, func(object client.Object) {
				object.SetFinalizers(nil)
			}))).To(Succeed())
			Expect(client.IgnoreNotFound(K8s.Delete(ctx, object))).To(Succeed())
		}
	})
	for _, object := range objects {
		if volume, ok := object.(*corev1.PersistentVolume); ok {
			volume.Status.Phase = corev1.VolumeAvailable
			Expect(K8s.Status().Update(ctx, volume)).To(Succeed())
		}
	}
}

// BindByHand binds a pod as another scheduler would.
func BindByHand(ctx context.Context, name, node string) {
	clientset, err := kubernetes.NewForConfig(Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	Expect(clientset.CoreV1().Pods(metav1.NamespaceDefault).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})).To(Succeed())
}

// CreateClasses creates priority classes, which exist until the end of the spec, and waits until
// the API server accepts pods with them.
func CreateClasses(ctx context.Context, classes ...*schedulingv1.PriorityClass) {
	GinkgoHelper()
	for _, class := range classes {
		CreateFor(ctx, class)
		Eventually(func() error {
			return K8s.Create(ctx, PodOf("nobody", "probe", Prioritized(class.Name)), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	}
}
