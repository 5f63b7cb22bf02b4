// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// volumeBindingFor returns the spec of a profile with a timeout for volume binding, in seconds.
func volumeBindingFor(seconds string) string {
	return `{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: ` + seconds + `}}]}`
}

// hold prevents livesched's updates of some objects from reaching the API server.
type hold struct {
	path          string
	held, release chan struct{} // the first update closes held; the spec closes release
	once          sync.Once
}

func newHold(path string) *hold {
	return &hold{path: path, held: make(chan struct{}), release: make(chan struct{})}
}

// config is for a livesched whose updates are held.
func (h *hold) config() *rest.Config {
	config := rest.CopyConfig(limited)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, h.path) {
				h.once.Do(func() { close(h.held) })
				select {
				case <-h.release:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// These specs do not run with kube-scheduler, whose profiles cannot change.
var _ = Describe("A volume that is reserved for a pod", func() {
	var (
		class  *storagev1.StorageClass
		volume *corev1.PersistentVolume
	)

	BeforeEach(func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2")...)
		class = localClass()
		CreateFor(ctx, class)
		volume = volumeOn("v", class, "n2")
		createVolumes(ctx, volume)
		Create(ctx, claimOf("a", class), claimOf("b", class))
	})

	It("is not reserved for another pod by a new generation of the profile, even before livesched has written the "+
		"reservation", func(ctx context.Context) {
		h := newHold("/persistentvolumes/")
		StartFor(h.config(), inOwnNamespace)
		CreateProfile(ctx, mine, volumeBindingFor("600"))

		a := createPod(ctx, "a", UsingClaim("a"))
		Eventually(h.held).WithContext(ctx).Should(BeClosed())
		Expect(read(ctx, volume)).To(Succeed())
		Expect(volume.Spec.ClaimRef).To(BeNil(), "only livesched's memory has the reservation")
		Respec(ctx, mine, volumeBindingFor("300"))
		b := createPod(ctx, "b", UsingClaim("b"))
		ExpectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		ExpectPending(ctx, a)

		close(h.release)
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("a", class), volume)
		ExpectPending(ctx, b)
	})

	It("stays reserved when binding takes longer than the profile allows", func(ctx context.Context) {
		startLivesched()
		CreateProfile(ctx, mine, volumeBindingFor("1"))
		resume := suspendControllers(ctx, volume)
		a := createPod(ctx, "a", UsingClaim("a"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, a)).To(Succeed())
			g.Expect(*a).To(BeUnscheduled(corev1.PodReasonSchedulerError,
				Equal(`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`)))
		}).WithContext(ctx).Should(Succeed())
		b := createPod(ctx, "b", UsingClaim("b"))
		ExpectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)

		By("allowing more time, and resuming the volume controller")
		Respec(ctx, mine, volumeBindingFor("60"))
		resume()
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("a", class), volume)
		ExpectPending(ctx, b)
	})

	It("stays reserved when livesched restarts", func(ctx context.Context) {
		run := StartUnstopped(limited, inOwnNamespace)
		CreateProfile(ctx, mine, "")
		resume := suspendControllers(ctx, volume)
		claim, a := claimOf("a", class), createPod(ctx, "a", UsingClaim("a"))
		Expect(read(ctx, claim)).To(Succeed())
		expectReserved(ctx, volume, claim, a, "n2")
		Expect(run.Stop(StopsWithin)).To(Succeed())
		createPod(ctx, "filler", CPU("3"), OnNode("n2")) // without the volume, a pod would prefer n1

		startLivesched()
		b := createPod(ctx, "b", UsingClaim("b"))
		ExpectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		resume()
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
		ExpectPending(ctx, b)
	})

	It("can be used by another pod when the pod and its claim are deleted", func(ctx context.Context) {
		startLivesched()
		CreateProfile(ctx, mine, "")
		resume := suspendControllers(ctx, volume)
		claim, a := claimOf("a", class), createPod(ctx, "a", UsingClaim("a"))
		Expect(read(ctx, claim)).To(Succeed())
		expectReserved(ctx, volume, claim, a, "n2")
		b := createPod(ctx, "b", UsingClaim("b"))
		ExpectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		Respec(ctx, mine, volumeBindingFor("60"))
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		Expect(K8s.Delete(ctx, claim)).To(Succeed())
		resume()
		ExpectGone(ctx, claim)
		By("releasing the retained volume, as an administrator does")
		Update(ctx, volume, func(volume *corev1.PersistentVolume) { volume.Spec.ClaimRef = nil })
		Expect(expectPodsRunning(ctx, b)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("b", class), volume)
	})
})

var _ = Describe("A volume that is being created for a pod", func() {
	It("is waited for while the profile changes, and other pods are scheduled", func(ctx context.Context) {
		addNodes(ctx, NodeOf("n1", topologyKey, "n1"))
		startLivesched()
		CreateProfile(ctx, mine, volumeBindingFor("600"))
		class := classOf("csi", driver, storagev1.VolumeBindingWaitForFirstConsumer)
		CreateFor(ctx, class)
		DeferCleanup(clearProvisioned)
		asked, created := make(chan struct{}), make(chan struct{})
		ask := sync.OnceFunc(func() { close(asked) })
		p := startProvisioner(ctx, func(ctx context.Context, _ string) error {
			ask()
			select {
			case <-created:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		claim := claimOf("a", class)
		Create(ctx, claim)
		a := createPod(ctx, "a", UsingClaim("a"))
		Eventually(asked).WithContext(ctx).Should(BeClosed())

		Respec(ctx, mine, volumeBindingFor("300"))
		expectPodsRunning(ctx, createPod(ctx, "b"))
		ExpectPending(ctx, a)
		close(created)
		expectPodsRunning(ctx, a)
		expectBoundTogether(ctx, claim, provisioned(claim, "n1"))
		Expect(p.requestedNodes()).To(HaveEach("n1"))
		Expect(EventsOf(ctx, a, "FailedScheduling")).To(BeEmpty(), "the binding cycle has outlived its instance")
	})
})

var _ = Describe("A device that is reserved for a pod", func() {
	var (
		h     *hold
		claim *resourcev1.ResourceClaim
		a, b  *corev1.Pod
	)

	// The device is reserved for a in livesched's memory only, and b waits for it.
	BeforeEach(func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"), sliceOf("n2", devicesOf("gpu-0")...))
		h = newHold("/resourceclaims/")
		StartFor(h.config(), inOwnNamespace)
		CreateProfile(ctx, mine, volumeBindingFor("600"))

		claim = resourceClaim("a", one("gpu"))
		Create(ctx, claim, resourceClaim("b", one("gpu")))
		a = createPod(ctx, "a", claiming("a"))
		Eventually(h.held).WithContext(ctx).Should(BeClosed())
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.Status.Allocation).To(BeNil(), "only livesched's memory has the reservation")
		Respec(ctx, mine, volumeBindingFor("300"))
		b = createPod(ctx, "b", claiming("b"))
		ExpectUnschedulable(ctx, b, ofTwo+noDevices+noClaims)
		ExpectPending(ctx, a)
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		ExpectGone(ctx, a)
	})

	AfterEach(func(ctx context.Context) {
		Expect(expectPodsRunning(ctx, b)).To(Equal("n2"))
		Expect(expectAllocated(ctx, resourceClaim("b"), b)).To(Equal([]string{"n2/gpu-0"}))
	})

	It("is not reserved for another pod by a new generation of the profile, and is free when the pod and its claim "+
		"are deleted", func(ctx context.Context) {
		before := claim.ResourceVersion
		close(h.release)
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, claim)).To(Succeed())
			g.Expect(claim.ResourceVersion).NotTo(Equal(before))
		}).WithContext(ctx).Should(Succeed())
		// If livesched takes back its reservation before the controller does, the controller leaves
		// the claim allocated. So the claim is deleted, too.
		Expect(K8s.Delete(ctx, claim)).To(Succeed())
		ExpectGone(ctx, claim)
	})

	It("is free when the pod and its claim are deleted before livesched has written the reservation",
		func(ctx context.Context) {
			Expect(K8s.Delete(ctx, claim)).To(Succeed())
			ExpectGone(ctx, claim)
			close(h.release)
		})
})
