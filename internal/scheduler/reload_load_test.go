// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// ignoring is an event handler that does nothing.
var ignoring = toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {}}

// bindings counts for each pod how often it was bound, from a watch: an update that sets a node.
type bindings struct {
	mu    sync.Mutex // guards bound
	bound map[types.UID]int
}

func (b *bindings) watch(ctx context.Context) {
	GinkgoHelper()
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	w, err := clientset.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	b.bound = map[types.UID]int{}
	nodeOf := map[types.UID]string{}
	go func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName == nodeOf[pod.UID] {
				continue
			}
			nodeOf[pod.UID] = pod.Spec.NodeName
			b.mu.Lock()
			b.bound[pod.UID]++
			b.mu.Unlock()
		}
	}()
	DeferCleanup(w.Stop)
}

// counts is how many pods were bound, and the most often that any was.
func (b *bindings) counts() (pods, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.bound {
		most = max(most, n)
	}
	return len(b.bound), most
}

var _ = Describe("Reloads under load", func() {
	It("200 reloads while 500 pods are being scheduled: all are bound exactly once, and goroutines and handlers are as before", func(ctx context.Context) {
		const reloads, total = 200, 500
		s := &script{}
		s.perform(func(a *acts) {
			a.build = func(a *actor) error {
				_, err := a.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				return err
			}
		})
		run := start(s.register)
		create(ctx, quickRetries())
		nodes(ctx, names("node", 10)...)
		createProfile(ctx, "mine", as("g0"))
		// One pod before the count: what is started with the first pod, such as connections, is there.
		expectBound(ctx, createPod(ctx, "mine", "warm-up", cpu("1m")))
		handlers, goroutines := run.Informers.Handlers(), runtime.NumGoroutine()

		var bound bindings
		watching, stopWatching := context.WithCancel(ctx)
		DeferCleanup(stopWatching)
		bound.watch(watching)

		// Reloads wait for nothing but the API server, so that some coalesce, as with a hasty user.
		reloading := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			for i := 1; i <= reloads; i++ {
				p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
				spec := fmt.Sprintf(`{"spec":{"pluginConfig":[{"name":"Alpha","args":{"as":"g%d"}}]}}`, i)
				if err := k8s.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(spec))); err != nil {
					reloading <- err
					return
				}
			}
			reloading <- nil
		}()
		pods := make([]*corev1.Pod, 0, total)
		for _, name := range names("pod", total) {
			pods = append(pods, createPod(ctx, "mine", name, cpu("1m")))
		}
		Eventually(reloading).WithTimeout(time.Minute).Should(Receive(BeNil()))
		last := expectProgrammed(ctx, "mine")
		Expect(last.Status.Active.Generation).To(Equal(int64(reloads + 1)))
		Eventually(func() int { n, _ := bound.counts(); return n }).WithTimeout(time.Minute).Should(BeNumerically(">=", total))
		for _, pod := range pods {
			Expect(expectBound(ctx, pod)).NotTo(BeEmpty())
		}
		_, most := bound.counts()
		Expect(most).To(Equal(1), "a pod was bound more than once")

		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		built, open := 0, 0
		for _, a := range s.actors() {
			built++
			switch closes := a.closes.Load(); closes {
			case 0:
				open++
			default:
				Expect(closes).To(Equal(int32(1)))
			}
		}
		Expect(built).To(BeNumerically(">", reloads/4), "so few builds prove little")
		Expect(open).To(Equal(1), "all generations but the last are closed")
		stopWatching()
		Eventually(runtime.NumGoroutine).WithTimeout(20 * time.Second).Should(BeNumerically("<=", goroutines+5))
	}, SpecTimeout(3*time.Minute))
})
