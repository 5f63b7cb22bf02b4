// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

const (
	// takeoversVariable is the environment variable with the number of takeovers of each kind.
	takeoversVariable = "LIVESCHED_TEST_TAKEOVERS"
	defaultTakeovers  = 1

	// The nodes are full all the time, and a few pods wait.
	contestedNodes = 4
	podsPerNode    = 8
	contestingPods = contestedNodes*podsPerNode + 8

	contestedLease = 4 * time.Second
)

// Pods come and go on nodes that they fill, and the leader is stopped, killed or suspended for
// longer than the lease. Each time the other replica takes over.
var _ = Describe("Replicas that take over from each other under load", func() {
	It("do not overcommit nodes, and bind nothing after they have lost the lease", func(ctx context.Context) {
		c := newContest(ctx)
		endBy := func(signal syscall.Signal) func(*command) {
			return func(leader *command) {
				leader.signal(signal)
				Eventually(leader.ended).Should(BeClosed())
			}
		}
		c.takeOverOften(ctx, "after SIGTERM", endBy(syscall.SIGTERM))
		c.takeOverOften(ctx, "after SIGKILL", endBy(syscall.SIGKILL))
		By("suspending the leader")
		var suspended *command
		for suspended == nil {
			c.takeOver(ctx, func(leader *command) {
				if leader.signal(syscall.SIGSTOP) {
					suspended = leader
				}
			})
		}
		resumed := time.Now()
		Expect(suspended.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(suspended.ended).Should(BeClosed())
		Expect(suspended.cmd.ProcessState.ExitCode()).To(Equal(1), suspended.output.String())
		Expect(suspended.output.String()).To(ContainSubstring("leader election lost"))
		for _, request := range audited(c.users[suspended], resumed) {
			if status := request.ResponseStatus; status != nil && status.Code >= http.StatusBadRequest {
				continue // such as a request of which only the headers were sent
			}
			// The elector's own Events, on the Lease, are of the core group.
			if ref := request.ObjectRef; ref != nil && ref.Resource != "leases" &&
				(ref.Resource != "events" || ref.APIGroup != "") {
				Expect(request.Verb).To(BeElementOf("get", "list", "watch"), "%+v", request)
			}
		}
		Expect(c.problems()).To(BeEmpty())
	}, NodeTimeout(2*time.Hour))
})

// takeOverOften ends the leader as often as the environment says, and reports the times.
func (c *contest) takeOverOften(ctx context.Context, kind string, end func(*command)) {
	GinkgoHelper()
	By(kind)
	n := defaultTakeovers
	if text := os.Getenv(takeoversVariable); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		Expect(err).NotTo(HaveOccurred())
	}
	var took []time.Duration
	for len(took) < n {
		// On a busy machine the leader may lose the lease by itself.
		if t, ok := c.takeOver(ctx, end); ok {
			took = append(took, t.Round(time.Millisecond))
		}
		Expect(c.problems()).To(BeEmpty())
	}
	slices.Sort(took)
	AddReportEntry(fmt.Sprintf(
		"%d takeovers %s: median %v, p99 %v, longest %v to the first binding; %d bindings looked at",
		n, kind, took[n/2], took[(n*99+99)/100-1], took[n-1], c.looks()))
}

// contest is two replicas and the pods that come and go.
type contest struct {
	random *rand.Rand
	users  map[*command]string
	// leader and follower are the present replicas, and identity is how the leader is named in the
	// lease.
	leader, follower *command
	identity         string

	mu sync.Mutex // guards what follows
	// onNode has the pods on each node.
	onNode map[string]map[types.UID]bool
	found  []string
	looked int
	holder string
	// freed is when the holder of the lease changed to nobody, taken when it changed to somebody,
	// and bound when the first pod was bound after that.
	freed, taken, bound time.Time
}

func newContest(ctx context.Context) *contest {
	GinkgoHelper()
	c := &contest{random: rand.New(rand.NewSource(GinkgoRandomSeed())), users: map[*command]string{},
		onNode: map[string]map[types.UID]bool{}}
	kube, err := clientset.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	create(ctx, profile("contest"))
	for n := range contestedNodes {
		create(ctx, objects.Node(fmt.Sprintf("contested-%d", n), strconv.Itoa(podsPerNode), "64Gi", nil))
	}
	lasting, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	DeferCleanup(func() {
		stop()
		running.Wait()
	})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
		Name: "contest"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](1),
		AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro()),
	}}
	create(ctx, lease)
	pods, err := kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).To(BeEmpty())
	follow(lasting, &running, pods.ResourceVersion, kube.CoreV1().Pods("default").Watch, c.see)
	follow(lasting, &running, lease.ResourceVersion, kube.CoordinationV1().Leases("default").Watch, c.see)

	c.leader = c.start()
	Eventually(c.leader.output.String).Should(ContainSubstring("uccessfully acquired lease"))
	Eventually(func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.identity = c.holder
		return c.holder
	}).ShouldNot(BeEmpty())
	c.follower = c.start()
	c.follower.expectReady(ctx)
	running.Go(func() {
		defer GinkgoRecover()
		c.churn(lasting)
	})
	return c
}

// follow calls see with each event of a watch until ctx ends.
func follow(ctx context.Context, running *sync.WaitGroup, from string,
	open func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(watch.Event)) {
	GinkgoHelper()
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, from, &toolscache.ListWatch{WatchFuncWithContext: open})
	Expect(err).NotTo(HaveOccurred())
	running.Go(func() {
		for event := range watcher.ResultChan() {
			see(event)
		}
	})
}

// start starts a replica with a user of its own.
func (c *contest) start() *command {
	GinkgoHelper()
	user := fmt.Sprintf("replica-%d", len(c.users))
	kubeconfig, err := cluster.KubeconfigAs(user, "system:masters")
	Expect(err).NotTo(HaveOccurred())
	replica := livesched("--kubeconfig="+kubeconfig, "--leader-election-namespace=default",
		"--leader-election-name=contest",
		"--leader-elect-lease-duration="+contestedLease.String(), "--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms")
	c.users[replica] = user
	return replica
}

// see checks one event.
func (c *contest) see(event watch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch object := event.Object.(type) {
	case *corev1.Pod:
		c.seePod(object, event.Type == watch.Deleted)
	case *coordinationv1.Lease:
		holder := ptr.Deref(object.Spec.HolderIdentity, "")
		if object.Name != "contest" || holder == c.holder {
			return
		}
		c.holder = holder
		if holder == "" {
			c.freed = time.Now()
		} else {
			c.taken, c.bound = time.Now(), time.Time{}
		}
	case *metav1.Status:
		c.found = append(c.found, fmt.Sprintf("the watch of the test ended: %+v", object))
	}
}

// seePod notes where a pod is. Requires mu.
func (c *contest) seePod(pod *corev1.Pod, deleted bool) {
	node := pod.Spec.NodeName
	if node == "" {
		return
	}
	on := c.onNode[node]
	switch {
	case deleted:
		delete(on, pod.UID)
		return
	case on[pod.UID]:
		return
	case on == nil:
		on = map[types.UID]bool{}
		c.onNode[node] = on
	}
	on[pod.UID] = true
	c.looked++
	if c.bound.IsZero() {
		c.bound = time.Now()
	}
	if len(on) > podsPerNode {
		c.found = append(c.found,
			fmt.Sprintf("%s: pod %s is number %d on node %s, %v after the takeover", time.Now().Format("15:04:05.000"),
				pod.Name, len(on), node, time.Since(c.taken)))
	}
}

// churn creates and deletes pods until ctx ends.
func (c *contest) churn(ctx context.Context) {
	var names []string
	for n := 0; ctx.Err() == nil; n++ {
		pod := objects.Pod("default", fmt.Sprintf("contesting-%d", n), "contest", "1", "1Gi")
		names = append(names, pod.Name)
		if err := k8s.Create(ctx, pod); ctx.Err() == nil {
			Expect(err).NotTo(HaveOccurred())
		}
		if len(names) <= contestingPods {
			continue
		}
		at := c.random.Intn(len(names))
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: names[at]}}
		names = slices.Delete(names, at, at+1)
		if err := k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)); ctx.Err() == nil && !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// takeOver ends the leader, and waits until the follower has taken over and another replica
// follows. It returns the time from the release of the lease, or from the end if it was not
// released, to the first binding, and whether the leader led until its end.
func (c *contest) takeOver(ctx context.Context, end func(*command)) (took time.Duration, led bool) {
	GinkgoHelper()
	began := time.Now()
	c.mu.Lock()
	led = c.holder == c.identity
	c.freed = time.Time{}
	c.mu.Unlock()
	end(c.leader)
	Eventually(func(g Gomega) {
		c.mu.Lock()
		defer c.mu.Unlock()
		g.Expect(c.holder).NotTo(Or(Equal(c.identity), BeEmpty()))
		g.Expect(c.bound).NotTo(BeZero())
		if !c.freed.IsZero() {
			began = c.freed
		}
		took = c.bound.Sub(began)
	}).WithContext(ctx).WithPolling(10*time.Millisecond).Should(Succeed(), c.follower.output.String)
	c.mu.Lock()
	c.identity = c.holder
	c.mu.Unlock()
	c.leader, c.follower = c.follower, c.start()
	Eventually(get).WithArguments(ctx, "http://"+c.follower.probes+"/readyz").Should(HaveField("Code", http.StatusOK),
		c.follower.output.String)
	return took, led
}

func (c *contest) problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.found)
}

func (c *contest) looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looked
}
