// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers_test

import (
	"context"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/livesched/livesched/internal/informers"
)

var _ = Describe("An informer of pods", func() {
	It("keeps unbound pods whole, and of bound pods the fields that schedulers read", func(ctx SpecContext) {
		namespace := createNamespace(ctx)
		createLargePod(ctx, namespace, "bound-before")
		bind(ctx, namespace, "bound-before")
		createLargePod(ctx, namespace, "bound-later")

		scope := startManager(controlPlane.Config()).newScope()
		pods := scope.Core().V1().Pods().Lister().Pods(namespace)
		expectSync(scope)

		By("listing")
		Expect(pods.Get("bound-before")).To(beTrimmed())
		Expect(pods.Get("bound-later")).To(beWhole())

		By("watching")
		bind(ctx, namespace, "bound-later")
		Eventually(pods.Get).WithArguments("bound-later").Should(HaveField("Spec.NodeName", "some-node"))
		Expect(pods.Get("bound-later")).To(beTrimmed())
		createLargePod(ctx, namespace, "late")
		Eventually(pods.Get).WithArguments("late").Should(beWhole())

		By("sharing equal parts")
		before, later := get(pods, "bound-before"), get(pods, "bound-later")
		Expect(&before.Spec.Containers[0]).To(BeIdenticalTo(&later.Spec.Containers[0]), "they share their containers")
		Expect(before.UID).NotTo(Equal(later.UID))
	})

	It("receives its first list as a stream, so that not all whole pods are in memory at once", func() {
		var streams, lists atomic.Int32
		config := rest.CopyConfig(controlPlane.Config())
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if query := request.URL.Query(); request.URL.Path == "/api/v1/pods" {
					if query.Get("sendInitialEvents") == "true" {
						streams.Add(1)
					} else if query.Get("watch") == "" {
						lists.Add(1)
					}
				}
				return next.RoundTrip(request)
			})
		})
		scope := startManager(config).newScope()
		scope.Core().V1().Pods().Informer()
		expectSync(scope)
		Expect(streams.Load()).To(BeEquivalentTo(1))
		Expect(lists.Load()).To(BeZero())
	})

	It("keeps all pods whole with trimming off", func(ctx SpecContext) {
		namespace := createNamespace(ctx)
		createLargePod(ctx, namespace, "bound")
		bind(ctx, namespace, "bound")

		scope := startManager(controlPlane.Config(), func(options *ctrlcache.Options) {
			options.DefaultTransform = informers.CacheOptions(scheme.Scheme, false).DefaultTransform
		}).newScope()
		pods := scope.Core().V1().Pods().Lister().Pods(namespace)
		expectSync(scope)
		Expect(pods.Get("bound")).To(beWhole())
	})
})

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func get(pods corelisters.PodNamespaceLister, name string) *corev1.Pod {
	GinkgoHelper()
	pod, err := pods.Get(name)
	Expect(err).NotTo(HaveOccurred())
	return pod
}

func createLargePod(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	_, err := admin.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "large"}},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "files",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "files"}}}},
				{Name: "data",
					VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: "image", Command: []string{"run"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "files", MountPath: "/files"}},
				Ports:        []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func bind(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(admin.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "some-node"},
	}, metav1.CreateOptions{})).To(Succeed())
}

// beWhole matches a pod with all fields of createLargePod.
func beWhole() OmegaMatcher {
	return SatisfyAll(haveWhatSchedulersRead(), HaveField("Spec.Volumes", ContainElement(HaveField("Name", "files"))),
		HaveField("Spec.Containers", ConsistOf(SatisfyAll(
			HaveField("Command", Not(BeEmpty())), HaveField("Env", Not(BeEmpty())),
			HaveField("VolumeMounts", Not(BeEmpty()))))))
}

// beTrimmed matches a pod of createLargePod without the fields that only kubelets read.
func beTrimmed() OmegaMatcher {
	return SatisfyAll(haveWhatSchedulersRead(),
		HaveField("Spec.Volumes", Not(ContainElement(HaveField("Name", "files")))),
		HaveField("Spec.Containers", ConsistOf(SatisfyAll(
			HaveField("Command", BeEmpty()), HaveField("Env", BeEmpty()), HaveField("VolumeMounts", BeEmpty())))))
}

func haveWhatSchedulersRead() OmegaMatcher {
	return SatisfyAll(
		HaveField("Labels", HaveKeyWithValue("app", "large")),
		HaveField("Spec.Volumes", ContainElement(HaveField("PersistentVolumeClaim.ClaimName", "data"))),
		HaveField("Spec.Containers", ConsistOf(SatisfyAll(
			HaveField("Image", "image"), HaveField("Ports", HaveLen(1)),
			HaveField("Resources.Requests", HaveKey(corev1.ResourceCPU))))),
	)
}
