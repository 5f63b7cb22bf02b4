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
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
)

// volumeBindingFor returns a profile's spec with a timeout for the binding of volumes.
func volumeBindingFor(seconds string) string {
	return `{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: ` + seconds + `}}]}`
}

// hold prevents livesched's updates of some objects from reaching the API server.
type hold struct {
	path           string
	asked, release chan struct{} // the first update closes asked; the spec closes release
	once           sync.Once
}

func newHold(path string) *hold {
	return &hold{path: path, asked: make(chan struct{}), release: make(chan struct{})}
}

// config is for a livesched whose updates are held.
func (h *hold) config() *rest.Config {
	config := rest.CopyConfig(limited)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, h.path) {
				h.once.Do(func() { close(h.asked) })
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

// These specs are for livesched alone: kube-scheduler has no profiles that change.
var _ = Describe("A volume that is promised to a pod", func() {
	var (
		class  *storagev1.StorageClass
		volume *corev1.PersistentVolume
	)

	BeforeEach(func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		class = localClass()
		createFor(ctx, class)
		volume = volumeOn("v", class, "n2")
		createFor(ctx, volume)
		create(ctx, claimOf("a", class), claimOf("b", class))
	})

	It("is not promised to another by a new generation of the profile, also before anybody but livesched knows of it", func(ctx context.Context) {
		h := newHold("/persistentvolumes/")
		startFor(h.config())
		createProfile(ctx, mine, volumeBindingFor("600"))

		a := createPod(ctx, "a", using("a"))
		Eventually(h.asked).WithContext(ctx).Should(BeClosed())
		Expect(read(ctx, volume)).To(Succeed())
		Expect(volume.Spec.ClaimRef).To(BeNil(), "the promise is in livesched's memory only")
		respec(ctx, mine, volumeBindingFor("300"))
		b := createPod(ctx, "b", using("b"))
		expectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		expectPending(ctx, a)

		close(h.release)
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("a", class), volume)
		expectPending(ctx, b)
	})

	It("is still its own after the binding took longer than the profile allows", func(ctx context.Context) {
		startLivesched()
		createProfile(ctx, mine, volumeBindingFor("1"))
		resume := suspendControllers(ctx, volume)
		a := createPod(ctx, "a", using("a"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, a)).To(Succeed())
			g.Expect(*a).To(unscheduled(corev1.PodReasonSchedulerError, Equal(`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`)))
		}).WithContext(ctx).Should(Succeed())
		b := createPod(ctx, "b", using("b"))
		expectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)

		By("allowing more, and letting the volume controller go on")
		respec(ctx, mine, volumeBindingFor("60"))
		resume()
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("a", class), volume)
		expectPending(ctx, b)
	})

	It("is still its own after livesched was started anew", func(ctx context.Context) {
		run := startUnstopped(limited)
		createProfile(ctx, mine, "")
		resume := suspendControllers(ctx, volume)
		claim, a := claimOf("a", class), createPod(ctx, "a", using("a"))
		Expect(read(ctx, claim)).To(Succeed())
		expectPromised(ctx, volume, claim, a, "n2")
		Expect(run.Stop(patience)).To(Succeed())
		createPod(ctx, "filler", cpu("3"), onNode("n2")) // the filler would send it elsewhere

		startLivesched()
		b := createPod(ctx, "b", using("b"))
		expectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		resume()
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
		expectPending(ctx, b)
	})

	It("is given to the next when the pod and its claim are gone", func(ctx context.Context) {
		startLivesched()
		createProfile(ctx, mine, "")
		resume := suspendControllers(ctx, volume)
		claim, a := claimOf("a", class), createPod(ctx, "a", using("a"))
		Expect(read(ctx, claim)).To(Succeed())
		expectPromised(ctx, volume, claim, a, "n2")
		b := createPod(ctx, "b", using("b"))
		expectUnschedulable(ctx, b, ofTwo+noVolumes+noHelp)
		respec(ctx, mine, volumeBindingFor("60"))
		Expect(k8s.Delete(ctx, a)).To(Succeed())
		Expect(k8s.Delete(ctx, claim)).To(Succeed())
		resume()
		expectGone(ctx, claim)
		By("taking the volume back, as its owner would: it is retained")
		update(ctx, volume, func(volume *corev1.PersistentVolume) { volume.Spec.ClaimRef = nil })
		Expect(expectPodsRunning(ctx, b)).To(Equal("n2"))
		expectBoundTogether(ctx, claimOf("b", class), volume)
	})
})

var _ = Describe("A device that is promised to a pod", func() {
	It("is not promised to another by a new generation of the profile, and is free again when the pod is gone", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		createFor(ctx, deviceClass("gpu"), sliceOf("n2", devicesOf("gpu-0")...))
		h := newHold("/resourceclaims/")
		startFor(h.config())
		createProfile(ctx, mine, volumeBindingFor("600"))

		claim := resourceClaim("a", one("gpu"))
		create(ctx, claim, resourceClaim("b", one("gpu")))
		a := createPod(ctx, "a", claiming("a"))
		Eventually(h.asked).WithContext(ctx).Should(BeClosed())
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.Status.Allocation).To(BeNil(), "the promise is in livesched's memory only")
		respec(ctx, mine, volumeBindingFor("300"))
		b := createPod(ctx, "b", claiming("b"))
		expectUnschedulable(ctx, b, ofTwo+noDevices+noClaims)
		expectPending(ctx, a)

		Expect(k8s.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		close(h.release)
		Expect(expectPodsRunning(ctx, b)).To(Equal("n2"))
		Expect(expectAllocated(ctx, resourceClaim("b"), b)).To(Equal([]string{"n2/gpu-0"}))
		expectFree(ctx, claim)
	})
})
