// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/livesched/livesched/internal/informers"
)

var _ = Describe("A scope", func() {
	It("has listers that return what the API server has", func(ctx SpecContext) {
		namespace := createNamespace(ctx)
		for _, name := range []string{"runs", "waits", "succeeded", "failed"} {
			createPod(ctx, namespace, name)
		}
		setPhase(ctx, namespace, "runs", corev1.PodRunning)
		setPhase(ctx, namespace, "succeeded", corev1.PodSucceeded)
		setPhase(ctx, namespace, "failed", corev1.PodFailed)

		scope := startManager(controlPlane.Config()).newScope()
		pods := scope.Core().V1().Pods().Lister()
		namespaces := scope.Core().V1().Namespaces().Lister()
		expectSync(scope)

		By("dropping terminated pods")
		Expect(podNames(pods, namespace)).To(ConsistOf("runs", "waits"))
		_, err := pods.Pods(namespace).Get("succeeded")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got %v", err)
		Expect(namespaces.Get(namespace)).To(HaveField("Name", namespace))

		By("dropping managed fields of any kind")
		Expect(pods.Pods(namespace).Get("runs")).To(HaveField("ManagedFields", BeEmpty()))
		Expect(namespaces.Get(namespace)).To(HaveField("ManagedFields", BeEmpty()))
		Expect(admin.CoreV1().Pods(namespace).Get(ctx, "runs", metav1.GetOptions{})).
			To(HaveField("ManagedFields", Not(BeEmpty())))

		By("following changes")
		createPod(ctx, namespace, "new")
		setPhase(ctx, namespace, "runs", corev1.PodSucceeded)
		Eventually(podNames).WithArguments(pods, namespace).Should(ConsistOf("waits", "new"))
	})

	It("has informers that never resync", func() {
		var informed, resyncing atomic.Int32
		m := startManager(controlPlane.Config(), func(options *ctrlcache.Options) {
			newInformer := options.NewInformer
			options.NewInformer = func(lw toolscache.ListerWatcher, obj apiruntime.Object, resync time.Duration,
				indexers toolscache.Indexers) toolscache.SharedIndexInformer {
				informed.Add(1)
				if resync != 0 {
					resyncing.Add(1)
				}
				return newInformer(lw, obj, resync, indexers)
			}
		})
		scope := m.newScope()
		scope.Core().V1().Pods().Informer() // has options of its own
		scope.Core().V1().Nodes().Informer()
		expectSync(scope)
		Expect(informed.Load()).To(BeEquivalentTo(2))
		Expect(resyncing.Load()).To(BeZero())
	})

	It("treats kinds that the API server does not serve as empty", func() {
		scope := startManager(controlPlane.Config()).newScope()
		groups := scope.Scheduling().V1beta1().PodGroups()
		nodes := scope.Core().V1().Nodes().Lister()
		generic, err := scope.ForResource(schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"))
		Expect(err).NotTo(HaveOccurred())
		expectSync(scope)

		Expect(scope.Missing()).To(ConsistOf(schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup")))
		Expect(groups.Lister().List(labels.Everything())).To(BeEmpty())
		Expect(generic.Lister().List(labels.Everything())).To(BeEmpty())
		_, err = nodes.List(labels.Everything())
		Expect(err).NotTo(HaveOccurred())
	})

	It("has the typed informer of a resource", func(ctx SpecContext) {
		namespace := createNamespace(ctx)
		createPod(ctx, namespace, "a")
		scope := startManager(controlPlane.Config()).newScope()
		generic, err := scope.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
		Expect(err).NotTo(HaveOccurred())
		expectSync(scope)
		Expect(generic.Lister().ByNamespace(namespace).Get("a")).To(BeAssignableToTypeOf(&corev1.Pod{}))
		Expect(generic.Informer()).To(BeIdenticalTo(scope.InformerFor(&corev1.Pod{}, nil)))
	})

	It("has informers of custom resources", func(ctx SpecContext) {
		scope := startManager(controlPlane.Config()).newScope()
		informer, err := scope.Dynamic(foos)
		Expect(err).NotTo(HaveOccurred())
		seen := make(chan any, 10)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { seen <- obj },
			UpdateFunc: func(_, obj any) { seen <- obj },
		})
		Expect(err).NotTo(HaveOccurred())
		expectSync(scope)
		Expect(scope.Missing()).To(BeEmpty())

		client := dynamic.NewForConfigOrDie(controlPlane.Config()).Resource(foos).Namespace(createNamespace(ctx))
		foo, err := client.Create(ctx, newFoo("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive(And(
			BeAssignableToTypeOf(foo),
			WithTransform(func(obj any) string { return obj.(*unstructured.Unstructured).GetName() }, Equal("a")),
			WithTransform(func(obj any) int { return len(obj.(*unstructured.Unstructured).GetManagedFields()) },
				BeZero()),
		)))
	})

	It("finds a kind that the API server serves only after an earlier scope has requested it", func(ctx SpecContext) {
		bars := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "bars"}
		m := startManager(controlPlane.Config())
		before := m.newScope()
		early, err := before.Dynamic(bars)
		Expect(err).NotTo(HaveOccurred())
		expectSync(before)
		Expect(before.Missing()).To(ConsistOf(bars.GroupVersion().WithKind("bars")))

		install(bars, "Bar")

		after := m.newScope()
		_, err = after.Dynamic(bars)
		Expect(err).NotTo(HaveOccurred())
		expectSync(after)
		Expect(after.Missing()).To(BeEmpty())

		By("completing the earlier scope")
		seen := make(chan any, 1)
		_, err = early.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { seen <- obj }})
		Expect(err).NotTo(HaveOccurred())
		m.source.Probe(ctx)
		Expect(before.Missing()).To(BeEmpty())
		bar := newFoo("a")
		bar.SetKind("Bar")
		_, err = dynamic.NewForConfigOrDie(controlPlane.Config()).Resource(bars).Namespace(createNamespace(ctx)).
			Create(ctx, bar, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive())
	})

	It("names the kind that the API server forbids, and the manager continues", func(ctx SpecContext) {
		const user = "may-not-list-storage-classes"
		m := startManager(allowOnly(ctx, user,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}}))
		warm := m.newScope()
		pods, nodes := warm.Core().V1().Pods().Lister(), warm.Core().V1().Nodes().Lister()
		expectSync(warm)
		// An informer has synced before its watch has begun, which takes goroutines of its own.
		namespace := createNamespace(ctx)
		createPod(ctx, namespace, "watched")
		createNode(ctx, "watched")
		Eventually(func() error { _, err := pods.Pods(namespace).Get("watched"); return err }).Should(Succeed())
		Eventually(func() error { _, err := nodes.Get("watched"); return err }).Should(Succeed())
		goroutines := runtime.NumGoroutine()

		failing := m.newScope()
		failing.Core().V1().Pods().Informer()
		failing.Storage().V1().StorageClasses().Informer()
		var err error
		Eventually(func() error {
			timeout, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			err = failing.WaitForSync(timeout)
			return err
		}).Should(MatchError(ContainSubstring("forbidden")), "the API server has not answered yet")
		var unsynced *informers.SyncError
		Expect(errors.As(err, &unsynced)).To(BeTrue(), "got %v", err)
		Expect(unsynced.Kinds).To(HaveLen(1))
		Expect(err).To(And(
			MatchError(context.DeadlineExceeded),
			MatchError(HavePrefix("informers did not sync: storage.k8s.io/v1 StorageClass (")),
			MatchError(ContainSubstring("storageclasses.storage.k8s.io is forbidden: User %q", user)),
		))

		By("building other scopes at the same time")
		other := m.newScope()
		other.Core().V1().Nodes().Informer()
		expectSync(other)
		Expect(m.ended).NotTo(Receive())

		By("leaving nothing behind")
		failing.Close()
		other.Close()
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines))
		Expect(m.manager.GetCache().WaitForCacheSync(ctx)).
			To(BeTrue(), "an informer that cannot sync is left in the cache")

		By("working once the permission is granted")
		role, err := admin.RbacV1().ClusterRoles().Get(ctx, user, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		role.Rules = append(role.Rules,
			rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"},
				Verbs: []string{"list", "watch"}})
		_, err = admin.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		again := m.newScope()
		again.Storage().V1().StorageClasses().Informer()
		expectSync(again)
	}, SpecTimeout(5*time.Minute))

	It("leaves nothing behind when 200 scopes are created and closed while objects change", func(ctx SpecContext) {
		namespace := createNamespace(ctx)
		m := startManager(controlPlane.Config())
		permanent := m.newScope()
		var updates atomic.Int64
		_, err := permanent.Core().V1().Pods().Informer().
			AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { updates.Add(1) }})
		Expect(err).NotTo(HaveOccurred())
		build := func() {
			GinkgoHelper()
			scope := m.source.NewScope()
			defer scope.Close()
			for _, informer := range []toolscache.SharedIndexInformer{
				scope.Core().V1().Pods().Informer(), scope.Core().V1().Namespaces().Informer(),
				scope.Scheduling().V1beta1().PodGroups().Informer(),
			} {
				Expect(informer.AddIndexers(toolscache.Indexers{"by-name": byName})).To(Succeed())
				for range 2 {
					_, err := informer.AddEventHandler(
						toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) {}})
					Expect(err).NotTo(HaveOccurred())
				}
			}
			expectSync(scope)
		}
		stopChanges := changePods(ctx, namespace)
		build() // starts the informers
		Eventually(updates.Load).Should(BeNumerically(">", 0))
		handlers, goroutines := m.source.Handlers(), runtime.NumGoroutine()
		seen := updates.Load()

		const builds = 200
		for range builds {
			build()
		}
		Expect(m.source.Handlers()).To(Equal(handlers))
		Expect(handlers).To(Equal(1))
		// A watch that the first build had requested may have begun after it.
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+builds/2))
		Eventually(updates.Load).Should(BeNumerically(">", seen), "nothing changed meanwhile")
		stopChanges()
	}, SpecTimeout(10*time.Minute))
})

func byName(obj any) ([]string, error) { return []string{obj.(metav1.Object).GetName()}, nil }

func newFoo(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Foo",
		"metadata":   map[string]any{"name": name},
	}}
}

func createNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := admin.CoreV1().Namespaces().
		Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "informers-"}},
			metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return namespace.Name
}

func createPod(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	_, err := admin.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// createNode creates a node until the spec ends.
func createNode(ctx context.Context, name string) {
	GinkgoHelper()
	node, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})).To(Succeed())
	})
}

func setPhase(ctx context.Context, namespace, name string, phase corev1.PodPhase) {
	GinkgoHelper()
	pod, err := admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	pod.Status.Phase = phase
	_, err = admin.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// changePods creates a pod and keeps relabelling it until the returned function is called.
func changePods(ctx context.Context, namespace string) (stop func()) {
	GinkgoHelper()
	createPod(ctx, namespace, "changing")
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			pod, err := admin.CoreV1().Pods(namespace).Get(ctx, "changing", metav1.GetOptions{})
			if err == nil {
				pod.Labels = map[string]string{"i": fmt.Sprint(i)}
				_, err = admin.CoreV1().Pods(namespace).Update(ctx, pod, metav1.UpdateOptions{})
			}
			if ctx.Err() == nil {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
