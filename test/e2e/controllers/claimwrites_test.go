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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
)

// claimWrites records livesched's writes of ResourceClaims, such as "PUT claim" and "PATCH
// claim/status", and lets a spec intervene.
type claimWrites struct {
	Faults
	mu        sync.Mutex // guards the fields below
	all       []string
	intervene map[string]func(send func() (*http.Response, error)) (*http.Response, error)
}

// newClaimWrites starts a livesched with one profile.
func newClaimWrites(ctx context.Context) *claimWrites {
	GinkgoHelper()
	w := &claimWrites{intervene: map[string]func(func() (*http.Response, error)) (*http.Response, error){}}
	w.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		_, claim, ok := strings.Cut(r.URL.Path, "/resourceclaims")
		if !ok || r.Method == http.MethodGet {
			return send()
		}
		write := strings.TrimSpace(r.Method + " " + strings.TrimPrefix(claim, "/"))
		w.mu.Lock()
		w.all = append(w.all, write)
		intervene := w.intervene[write]
		delete(w.intervene, write)
		w.mu.Unlock()
		if intervene == nil {
			return send()
		}
		return intervene(send)
	})
	StartFor(w.Config())
	CreateProfile(ctx, mine, "")
	return w
}

// before calls do before the next such write reaches the API server.
func (w *claimWrites) before(write string, do func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intervene[write] = func(send func() (*http.Response, error)) (*http.Response, error) {
		if err := do(); err != nil {
			return nil, err
		}
		return send()
	}
}

// lose makes the next such write fail, whether or not it reaches the API server.
func (w *claimWrites) lose(write string, reaches bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intervene[write] = func(send func() (*http.Response, error)) (*http.Response, error) {
		if reaches {
			response, err := send()
			if err != nil {
				return nil, err
			}
			if err := response.Body.Close(); err != nil {
				return nil, err
			}
		}
		return nil, ErrNoRoute
	}
}

// since returns the writes since the last call.
func (w *claimWrites) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// allocation is what a scheduler writes for a device of a node.
func allocation(node, device string) *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: gpuDriver, Pool: node, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn,
				Values: []string{node}}}}}},
	}
}

func userOf(pod *corev1.Pod) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// notesOf returns the messages of Events with a reason.
func notesOf(ctx context.Context, reason string) (notes []string) {
	GinkgoHelper()
	for _, event := range eventsOf(ctx, reason) {
		notes = append(notes, event.Note)
	}
	return notes
}

// These specs do not run with kube-scheduler, which writes claims in another way.
var _ = Describe("A claim for devices", func() {
	BeforeEach(func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"),
			sliceOf("n2", devicesOf("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")...))
	})

	It("that changes meanwhile is allocated after a conflict, and gets further users without one",
		func(ctx context.Context) {
			w := newClaimWrites(ctx)
			claim := resourceClaim("claim", one("gpu"))
			Create(ctx, claim)
			changed := func(value string) func() error {
				return func() error {
					patch := `{"metadata":{"annotations":{"changed":"` + value + `"}}}`
					return K8s.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
				}
			}
			w.before("PUT claim", changed("before the finalizer"))
			w.before("PUT claim/status", changed("before the devices"))
			a := createPod(ctx, "a", claiming("claim"))
			expectPodsRunning(ctx, a)
			Expect(w.since()).To(Equal([]string{"PUT claim", "PUT claim", "PUT claim/status", "PUT claim/status"}))

			w.before("PATCH claim/status", changed("before the second user"))
			b := createPod(ctx, "b", claiming("claim"))
			expectPodsRunning(ctx, b)
			expectAllocated(ctx, claim, a, b)
			Expect(claim.Annotations).To(HaveKeyWithValue("changed", "before the second user"))
			Expect(w.since()).To(Equal([]string{"PATCH claim/status"}))
		})

	It("that is deleted meanwhile gets no further user", func(ctx context.Context) {
		w := newClaimWrites(ctx)
		claim := resourceClaim("claim", one("gpu"))
		Create(ctx, claim)
		a := createPod(ctx, "a", claiming("claim"))
		expectPodsRunning(ctx, a)
		w.before("PATCH claim/status", func() error { return K8s.Delete(ctx, claim.DeepCopy()) })
		b := createPod(ctx, "b", claiming("claim"))
		Eventually(func() []string { return notesOf(ctx, "FailedScheduling") }).WithContext(ctx).
			Should(ContainElement(ContainSubstring("new entries may not be added")))
		ExpectPending(ctx, b)
		expectAllocated(ctx, claim, a)
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		ExpectGone(ctx, claim)
	})

	It("that gets other devices meanwhile gets a further user at the next attempt", func(ctx context.Context) {
		w := newClaimWrites(ctx)
		claim := resourceClaim("claim", one("gpu"))
		Create(ctx, claim)
		a := createPod(ctx, "a", claiming("claim"))
		expectPodsRunning(ctx, a)
		expectAllocated(ctx, claim, a)
		w.since()
		w.before("PATCH claim/status", func() error {
			other := claim.DeepCopy()
			other.Status = resourcev1.ResourceClaimStatus{}
			if err := K8s.Status().Update(ctx, other); err != nil {
				return err
			}
			other.Status.Allocation = allocation("n2", "gpu-5")
			other.Status.ReservedFor = append(other.Status.ReservedFor, userOf(a))
			return K8s.Status().Update(ctx, other)
		})
		b := createPod(ctx, "b", claiming("claim"))
		expectPodsRunning(ctx, b)
		Expect(expectAllocated(ctx, claim, a, b)).To(Equal([]string{"n2/gpu-5"}))
		Expect(w.since()).To(HaveEach("PATCH claim/status"))
		Expect(notesOf(ctx, "FailedScheduling")).
			To(ContainElement(ContainSubstring("got other devices in the meantime")))
	})

	It("is written again if a write fails or its answer is lost", func(ctx context.Context) {
		w := newClaimWrites(ctx)
		var pods []*corev1.Pod
		for name, fault := range map[string]struct {
			write   string
			reaches bool
		}{
			"finalizer-fails": {write: "PUT finalizer-fails"},
			"finalizer-lost":  {write: "PUT finalizer-lost", reaches: true},
			"devices-fail":    {write: "PUT devices-fail/status"},
			"devices-lost":    {write: "PUT devices-lost/status", reaches: true},
		} {
			w.lose(fault.write, fault.reaches)
			Create(ctx, resourceClaim(name, one("gpu")))
			pods = append(pods, createPod(ctx, name, claiming(name)))
		}
		expectPodsRunning(ctx, pods...)
		for _, pod := range pods {
			claim := resourceClaim(pod.Name)
			expectAllocated(ctx, claim, pod)
			Expect(claim.Finalizers).To(Equal([]string{resourcev1.Finalizer}), claim.Name)
			Expect(notesOf(ctx, "FailedScheduling")).To(ContainElement(ContainSubstring(ErrNoRoute.Error())))
		}
		Expect(devicesInUse(ctx)).To(HaveLen(len(pods)))
	})

	It("that the last leader has begun to write keeps its devices", func(ctx context.Context) {
		finalizer, allocated, reserved := resourceClaim("finalizer", one("gpu")),
			resourceClaim("allocated", one("gpu")), resourceClaim("reserved", one("gpu"))
		var pods []*corev1.Pod
		for _, claim := range []*resourcev1.ResourceClaim{finalizer, allocated, reserved} {
			claim.Finalizers = []string{resourcev1.Finalizer}
			Create(ctx, claim)
			pods = append(pods, createPod(ctx, claim.Name, claiming(claim.Name)))
		}
		updateStatus(ctx, allocated, func(claim *resourcev1.ResourceClaim) {
			claim.Status.Allocation = allocation("n2", "gpu-2")
		})
		updateStatus(ctx, reserved, func(claim *resourcev1.ResourceClaim) {
			claim.Status.Allocation = allocation("n2", "gpu-4")
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{userOf(pods[2])}
		})
		w := newClaimWrites(ctx)
		Expect(expectPodsRunning(ctx, pods...)).To(Equal("n2"))
		expectAllocated(ctx, finalizer, pods[0])
		Expect(expectAllocated(ctx, allocated, pods[1])).To(Equal([]string{"n2/gpu-2"}))
		Expect(expectAllocated(ctx, reserved, pods[2])).To(Equal([]string{"n2/gpu-4"}))
		Expect(devicesInUse(ctx)).To(HaveLen(3))
		Expect(w.since()).To(ConsistOf("PUT finalizer/status", "PATCH allocated/status"))
	})

	It("for extended resources has the finalizer when it is created, and is replaced if livesched does not know that",
		func(ctx context.Context) {
			NeedsServer("1.36", "it drops the fields of this feature")
			const gpus = "example.com/gpu"
			class := deviceClass("counted")
			class.Spec.ExtendedResourceName = ptr.To(gpus)
			CreateFor(ctx, class)
			w := newClaimWrites(ctx)
			a := createPod(ctx, "a", requestingExtended(gpus))
			expectPodsRunning(ctx, a)
			claim := resourceClaim(a.Status.ExtendedResourceClaimStatus.ResourceClaimName)
			expectAllocated(ctx, claim, a)
			Expect(claim.Finalizers).To(Equal([]string{resourcev1.Finalizer}))
			Expect(w.since()).To(Equal([]string{"POST", "PUT " + claim.Name + "/status"}))
			Expect(K8s.Delete(ctx, a)).To(Succeed())
			ExpectGone(ctx, claim)

			w.lose("POST", true)
			b := createPod(ctx, "b", requestingExtended(gpus))
			expectPodsRunning(ctx, b)
			Expect(claimsOf(ctx)).
				To(ConsistOf(HaveField("Name", b.Status.ExtendedResourceClaimStatus.ResourceClaimName)))
			Expect(w.since()).To(ContainElement(HavePrefix("DELETE ")))
			Expect(notesOf(ctx, "FailedScheduling")).To(ContainElement(ContainSubstring(ErrNoRoute.Error())))
		})
})
