// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A livesched that is stopped", func() {
	var (
		s   *Script
		run *testcluster.Running
	)

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		run = StartUnstopped(Cluster.Config, s.Register)
		DeferCleanup(func() { _ = run.Stop(StopsWithin) }) // calling it twice does no harm
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
	})

	DescribeTable("stops in time even if a plugin hangs", func(ctx context.Context, hangs func(a *Acts, hang func())) {
		hanging, goOn := make(chan struct{}), make(chan struct{})
		DeferCleanup(sync.OnceFunc(func() { close(goOn) }))
		hang := sync.OnceFunc(func() {
			close(hanging)
			<-goOn
		})
		s.Perform(func(a *Acts) { hangs(a, hang) })
		pod := CreatePod(ctx, "mine", "pod")
		Eventually(hanging).Should(BeClosed())
		began := time.Now()
		err := run.Stop(EndsWithin)
		Expect(time.Since(began)).To(BeNumerically("<", EndsWithin))
		Expect(err).To(Or(BeNil(), MatchError(ContainSubstring("grace period")),
			MatchError(ContainSubstring("did not close in time"))))
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Spec.NodeName).To(BeEmpty())
	},
		Entry("in Filter", func(a *Acts, hang func()) {
			a.Filter = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				hang()
				return fwk.AsStatus(errors.New("too late"))
			}
		}),
		Entry("in PreBind", func(a *Acts, hang func()) {
			a.PreBind = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				hang()
				return fwk.AsStatus(errors.New("too late"))
			}
		}),
	)

	It("returns pods that wait on Permit without reporting a failure, and the next process binds them",
		func(ctx context.Context) {
			binding, goOn := make(chan struct{}), make(chan struct{})
			s.Perform(WaitsOnPermit(10 * time.Minute))
			s.Perform(func(a *Acts) {
				a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
					if pod.Name == "bound" {
						close(binding)
						<-goOn
					}
					return nil
				}
			})
			pod := CreatePod(ctx, "mine", "pod", Labelled("wait", "yes"))
			s.ExpectWaiting(ctx, pod)
			bound := CreatePod(ctx, "mine", "bound")
			Eventually(binding).Should(BeClosed())
			ended := make(chan error, 1)
			go func() { ended <- run.Stop(StopsWithin) }()
			// Not because of the time limit: at that time, the pod that is being bound would be
			// given up, too.
			Eventually(s.At).WithArguments(pod, "Unreserve").Should(Equal([]string{Alpha}))
			close(goOn)
			Eventually(ended).Should(Receive(BeNil()))
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(bound), bound)).To(Succeed())
			Expect(bound.Spec.NodeName).To(Equal("n1"))
			Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Status.Conditions).To(BeEmpty())

			s.Perform(func(a *Acts) { a.Permit, a.PreBind = nil, nil })
			next := StartUnstopped(Cluster.Config, s.Register)
			DeferCleanup(func() { Expect(next.Stop(StopsWithin)).To(Succeed()) })
			ExpectBound(ctx, pod)
		})

	It("finishes the bindings in progress", func(ctx context.Context) {
		working, stopping := make(chan struct{}), make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				close(working)
				<-stopping
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "pod")
		Eventually(working).Should(BeClosed())
		ended := make(chan error, 1)
		go func() { ended <- run.Stop(StopsWithin) }()
		Consistently(ended).ShouldNot(Receive(), "it waits")
		close(stopping)
		Eventually(ended).Should(Receive(BeNil()))
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Spec.NodeName).To(Equal("n1"))
		Expect(s.At(pod, "PostBind")).To(Equal([]string{Alpha}))
		for _, a := range s.Actors() {
			Expect(a.Closes.Load()).To(Equal(int32(1)))
		}
	})
})

// reads are the lists and watches that a livesched has requested.
type reads struct {
	mu   sync.Mutex // guards urls
	urls []string
}

// watchReads records the lists and watches that pass through the faults.
func watchReads() (*Faults, *reads) {
	f, r := &Faults{}, &reads{}
	f.Set(func(request *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		// The path of a single object ends with its name: livesched reads the lease in this way,
		// and pods that it is about to bind.
		if collection := path.Base(request.URL.Path); request.Method == http.MethodGet &&
			strings.HasSuffix(collection, "s") && !strings.Contains(request.URL.Path, "/namespaces/") {
			r.note(request.URL.String())
		}
		return send()
	})
	return f, r
}

func (r *reads) note(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.urls = append(r.urls, url)
}

func (r *reads) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.urls)
}

func (r *reads) count() int { return len(r.all()) }

var _ = Describe("A second replica", func() {
	// lasting suits leaders that must renew in time, also on a slow machine; expiring is for the
	// spec that waits for a lease to expire.
	const lasting, expiring = 20 * time.Second, 6 * time.Second
	elects := func(s *Script, lease time.Duration) func(*app.Options) {
		return func(o *app.Options) {
			s.Register(o)
			o.LeaderElect, o.LeaderElectionNamespace = true, metav1.NamespaceDefault
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = lease, lease*3/4, 250*time.Millisecond
		}
	}
	var (
		first, second   *testcluster.Running
		leader, standby *Script
		f               *Faults
		waiting         *corev1.Pod
		reads           *reads
	)

	// begin runs both, with the first one as the leader.
	begin := func(ctx context.Context, lease time.Duration) {
		GinkgoHelper()
		leader, standby, f = &Script{}, &Script{}, &Faults{}
		first = StartUnstopped(f.Config(), elects(leader, lease))
		DeferCleanup(func() { _ = first.Stop(StopsWithin) })
		Eventually(first.Elected()).Should(BeClosed())
		var watched *Faults
		watched, reads = watchReads()
		second = StartUnstopped(watched.Config(), elects(standby, lease))
		DeferCleanup(func() { Expect(second.Stop(StopsWithin)).To(Succeed()) })
		Eventually(second.Scheduler.Ready()).Should(BeClosed())

		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		Eventually(func() int { return second.Scheduler.Store().Current().Len() }).Should(Equal(1))
		ExpectBound(ctx, CreatePod(ctx, "mine", "bound-by-the-first", CPU("2")))
		waiting = CreatePod(ctx, "mine", "waiting", CPU("3"))
		ExpectUnscheduled(ctx, waiting, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
	}

	// takesOver expects the second one to schedule as soon as it has the lease. It reads only what
	// shows it that its cache has all bindings and resource claims, and the latest states of
	// roll-outs, with their policies.
	takesOver := func(ctx context.Context) {
		known := reads.count()
		Expect(known).To(BeNumerically(">", 10), "the reads are noticed")
		ExpectBound(ctx, CreatePod(ctx, "mine", "bound-by-the-second", CPU("1")))
		Eventually(second.Elected()).Should(BeClosed())
		Expect(reads.all()[known:]).To(HaveEach(Or(
			HaveSuffix("/api/v1/pods?limit=1"), ContainSubstring("/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2C"),
			HaveSuffix("/resourceclaims?limit=5000"), HaveSuffix("/schedulerprofiles"),
			HaveSuffix("/schedulingpolicies"),
		)), "all else that it needed it had")

		By("continuing with the pods that the first one left behind")
		Create(ctx, Node("n2", "4", "8Gi", nil))
		Expect(ExpectBound(ctx, waiting)).To(Equal("n2"))
		Eventually(standby.At).WithArguments(waiting, "PostBind").Should(Equal([]string{Alpha}))
	}

	It("keeps its queue up to date while the first one leads, but schedules nothing and writes nothing",
		func(ctx context.Context) {
			begin(ctx, lasting)
			Eventually(standby.At).WithArguments(waiting, "PreEnqueue").ShouldNot(BeEmpty())
			for _, name := range Names("pod", 3) {
				pod := CreatePod(ctx, "mine", name)
				ExpectBound(ctx, pod)
				Expect(standby.At(pod, "PreFilter")).To(BeEmpty())
				ExpectEvent(ctx, pod, "Scheduled",
					Equal("Successfully assigned default/"+name+" to "+pod.Spec.NodeName))
				Expect(EventsOf(ctx, pod, "Scheduled")).To(HaveLen(1))
			}
			Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
			ExpectEvent(ctx, waiting, "FailedScheduling", ContainSubstring("is gone"))
			Eventually(func() int { return second.Scheduler.Store().Current().Len() }).Should(BeZero())
			Consistently(func(g Gomega) {
				told := 0
				for _, event := range EventsOf(ctx, waiting, "FailedScheduling") {
					if strings.Contains(event.Note, "is gone") {
						told++
						g.Expect(event.Series).To(BeNil(), "told once")
					}
				}
				g.Expect(told).To(Equal(1))
			}).WithContext(ctx).Should(Succeed())
		})

	It("schedules immediately when the first one is stopped, which releases the lease", func(ctx context.Context) {
		begin(ctx, lasting)
		Expect(first.Stop(StopsWithin)).To(Succeed())
		takesOver(ctx)
	})

	It("schedules when the lease has expired if the first one cannot renew it, and the first one ends",
		func(ctx context.Context) {
			begin(ctx, expiring)
			f.Set(func(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
				return nil,
					ErrNoRoute
			})
			takesOver(ctx)
			Eventually(first.Done()).Should(BeClosed(), "it ends by itself")
			Expect(first.Stop(StopsWithin)).To(MatchError(ContainSubstring("leader election lost")))
		})
})
