// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// ignoring is an event handler that does nothing.
var ignoring = toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {}}

// endurance returns the number of reloads and pods: few enough for every run of the tests, or the
// number in RELOADS, with five pods for each (make endurance).
func endurance() (reloads, pods int) {
	GinkgoHelper()
	reloads = 100
	if v := os.Getenv("RELOADS"); v != "" {
		n, err := strconv.Atoi(v)
		Expect(err).NotTo(HaveOccurred(), "RELOADS must be a number")
		return n, 5 * n
	}
	return reloads, 5 * reloads / 2
}

// holdings are the resources of a process that reloads must not increase.
type holdings struct {
	handlers, goroutines, series int
	heap                         uint64 // bytes
}

func holdingsOf(run *testcluster.Running) holdings {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	h := holdings{handlers: run.Informers.Handlers(), goroutines: runtime.NumGoroutine()}
	for _, family := range families {
		h.series += len(family.GetMetric())
	}
	runtime.GC()
	runtime.GC() // the second run frees objects with finalizers
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	h.heap = memory.HeapAlloc
	return h
}

var _ = Describe("Reloads under load", func() {
	It("of 20 profiles: all pods are bound exactly once, and goroutines, handlers, heap and metric series are as "+
		"before", func(ctx context.Context) {
		const profiles = 20
		reloads, total := endurance()
		s := &Script{}
		s.Perform(func(a *Acts) {
			a.Build = func(a *Actor) error {
				_, err := a.Handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(ignoring)
				return err
			}
		})
		run := Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, Names("node", max(10, total/50))...)
		// One profile and pod before the count, so that it includes what the first ones start, such
		// as connections.
		CreateProfile(ctx, "first", as("g0"))
		first := CreatePod(ctx, "first", "warm-up", CPU("1m"))
		ExpectBound(ctx, first)
		Expect(K8s.Delete(ctx, first)).To(Succeed())
		Expect(K8s.Delete(ctx, Profile("first", ""))).To(Succeed())
		Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		Eventually(ProfileSeries).WithArguments("first").Should(BeZero())
		before := holdingsOf(run)

		mine := func(i int) string { return fmt.Sprintf("mine-%02d", i%profiles) }
		for i := range profiles {
			Create(ctx, Profile(mine(i), as("g0")))
		}
		for i := range profiles {
			ExpectProgrammed(ctx, mine(i))
		}
		bound, err := Cluster.WatchBindings(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bound.Stop)

		// Reloads wait only for the API server, so that some coalesce, as with a hasty user. They
		// continue until enough of them did not coalesce, which takes more reloads if builds are
		// slow.
		enough := profiles + reloads/4
		built := func() int { return len(s.Actors()) - 1 }
		var reloaded atomic.Int32
		reloading := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			for i := 0; i < reloads || built() <= enough; i++ {
				p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: mine(i)}}
				spec := fmt.Sprintf(`{"spec":{"pluginConfig":[{"name":"Alpha","args":{"as":"g%d"}}]}}`, i+1)
				if err := K8s.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(spec))); err != nil {
					reloading <- err
					return
				}
				reloaded.Add(1)
			}
			reloading <- nil
		}()
		pods := make([]*corev1.Pod, 0, total)
		for i, name := range Names("pod", total) {
			pods = append(pods, CreatePod(ctx, mine(i), name, CPU("1m")))
		}
		Eventually(ctx, reloading).WithTimeout(10 * time.Minute).Should(Receive(BeNil()))
		reloads = int(reloaded.Load())
		for i := range profiles {
			last := ExpectProgrammed(ctx, mine(i))
			Expect(last.Status.Active.Generation).To(Equal(int64(1 + (reloads+profiles-1-i)/profiles)))
		}
		Eventually(ctx, bound.Pods).WithTimeout(10 * time.Minute).Should(Equal(total))
		for _, pod := range pods {
			Expect(ExpectBound(ctx, pod)).NotTo(BeEmpty())
		}
		Expect(bound.Most()).To(Equal(1), "a pod was bound more than once")

		Eventually(run.Scheduler.Store().Alive).Should(Equal(profiles))
		builds, open := built(), 0
		for _, a := range s.Actors() {
			switch closes := a.Closes.Load(); closes {
			case 0:
				open++
			default:
				Expect(closes).To(Equal(int32(1)))
			}
		}
		Expect(builds).To(BeNumerically(">", enough), "more builds are needed for a meaningful result")
		Expect(open).To(Equal(profiles), "all generations but the last are closed")

		By(fmt.Sprintf("%d reloads, %d builds: %d pods were bound, each once", reloads, builds, total))
		bound.Stop()
		Expect(K8s.DeleteAllOf(ctx, &v1alpha1.SchedulerProfile{})).To(Succeed())
		// The API server gives one request a minute, but thousands of pods may need more requests.
		Eventually(ctx, Cluster.ClearPlaces).WithArguments(ctx).WithTimeout(5 * time.Minute).Should(Succeed())
		Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		By("scheduling one more pod: until then the snapshot, and what is derived from it, is that of the last " +
			"decision")
		Eventually(func() int { return run.Parts().Cache.Size().Pods }).Should(BeZero())
		CreateNodes(ctx, "last")
		CreateProfile(ctx, "first", as("g0"))
		ExpectBound(ctx, CreatePod(ctx, "first", "last", CPU("1m")))
		Expect(K8s.Delete(ctx, Profile("first", ""))).To(Succeed())
		Expect(Cluster.ClearPlaces(ctx)).To(Succeed())
		Eventually(run.Scheduler.Store().Alive).Should(BeZero())
		s.LetGo()
		Eventually(ProfileSeries).WithArguments("mine-").Should(BeZero())
		Eventually(ProfileSeries).WithArguments("first").Should(BeZero())
		Eventually(func(g Gomega) {
			after := holdingsOf(run)
			g.Expect(run.Parts().Cache.Size().Pods).To(BeZero())
			g.Expect(after.handlers).To(Equal(before.handlers))
			g.Expect(after.goroutines).To(BeNumerically("<=", before.goroutines+5))
			g.Expect(after.series).To(BeNumerically("<=", before.series+slackSeries))
			g.Expect(after.heap).To(BeNumerically("<=", before.heap+before.heap/2+slackHeap))
			GinkgoWriter.Printf("%d reloads, %d builds, %d pods; before %+v, after %+v\n", reloads, builds, total,
				before, after)
		}).WithTimeout(time.Minute).WithPolling(time.Second).Should(Succeed())
	}, SpecTimeout(40*time.Minute))
})

const (
	// slackSeries is for metrics without a profile's name, whose series appear when something first
	// happens, and stay. One profile's own would be some 40 for each of 20 profiles.
	slackSeries = 200
	// slackHeap is for memory that the process keeps for reuse, such as buffers of connections.
	slackHeap = 16 << 20
)
