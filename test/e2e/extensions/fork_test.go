// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/profile"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("A fork of the scheduler", func() {
	var (
		script *Script
		sent   *writes
	)
	BeforeEach(func(ctx context.Context) {
		script, sent = startNoting()
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		ExpectProgrammed(ctx, "mine")
		CreateVolumes(ctx,
			&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
				VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			},
			VolumeOn("volume", "local", "n1"), ClaimOf("one", "local"), ClaimOf("two", "local"),
			DeviceClass("gpu"), Device("device", "n1"), DeviceClaim("device-one", "gpu"),
			DeviceClaim("device-two", "gpu"))
	})

	decide := func(ctx context.Context, k *fork.Fork, pod *corev1.Pod) (fork.Decision, error) {
		return k.Decide(ctx, instanceOf(ctx, k), pod)
	}
	imagined := func(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
		pod := PodOf("mine", name, changes...)
		pod.UID = types.UID(name)
		return pod
	}

	It("refuses what plugins write, and changes neither the cluster nor the scheduler", func(ctx context.Context) {
		before := CreatePod(ctx, "mine", "before")
		ExpectBound(ctx, before)
		ExpectEvent(ctx, before, "Scheduled", Not(BeEmpty())) // which is written later than the binding
		var tried sync.Map
		script.Perform(func(acts *Acts) {
			acts.Filter = func(ctx context.Context, a *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if !strings.HasPrefix(pod.Name, "imagined") {
					return nil
				}
				own, err := kubernetes.NewForConfig(a.Handle.KubeConfig())
				if err != nil {
					return fwk.AsStatus(err)
				}
				tried.Store("own client",
					own.CoreV1().Pods(pod.Namespace).Delete(ctx, "before", metav1.DeleteOptions{}))
				_, err = a.Handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, "before", types.MergePatchType,
					[]byte("{}"), metav1.PatchOptions{})
				tried.Store("client", err)
				_, err = a.Handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, "before", metav1.GetOptions{})
				tried.Store("read", err)
				a.Handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "Tried", "Trying", "imagined")
				return nil
			}
		})
		sent.clear()
		measured := ProfileValues("mine")

		k, err := Running.Parts().Answers.Forker.Fork(ctx)
		Expect(err).NotTo(HaveOccurred())
		pod := imagined("imagined", UsingClaim("one"), UsingDevices("device-one"))
		d, err := decide(ctx, k, pod)
		Expect(err).NotTo(HaveOccurred())
		Expect(d.SuggestedHost).To(Equal("n1"))
		for _, what := range []string{"own client", "client"} {
			err, _ := tried.Load(what)
			var refused *profile.RefusedError
			Expect(errors.As(err.(error), &refused)).To(BeTrue(), "%s: %v", what, err)
		}
		read, _ := tried.Load("read")
		Expect(read).To(BeNil())

		By("reserving the volume and the device in the fork alone")
		assumed, err := k.Assume(ctx, d)
		Expect(err).NotTo(HaveOccurred())
		_, err = decide(ctx, k, imagined("imagined-too", UsingClaim("two")))
		var fitError *schedframework.FitError
		Expect(errors.As(err, &fitError)).To(BeTrue(), "the fork has given the volume away: %v", err)
		Expect(ProfileValues("mine")).To(Equal(measured), "no metrics")
		expectReserved(ctx, script, CreatePod(ctx, "mine", "real", UsingClaim("two"), UsingDevices("device-two")))
		Expect(assumed.TakeBack(ctx)).To(Succeed())
		k.Close()
		Expect(ProfileValues("mine")).NotTo(BeEmpty(), "the series of the profile are still there")
		Expect(sent.about("imagined", "before")).To(BeEmpty())
	})

	It("begins with the volumes and devices that are assumed for pods in their binding cycles",
		func(ctx context.Context) {
			script.Perform(func(acts *Acts) {
				acts.Permit = func(*Actor, *corev1.Pod, string) (*fwk.Status, time.Duration) {
					return fwk.NewStatus(fwk.Wait), time.Hour
				}
			})
			waiting := CreatePod(ctx, "mine", "waiting", UsingClaim("one"), UsingDevices("device-one"))
			expectReserved(ctx, script, waiting)

			k, err := Running.Parts().Answers.Forker.Fork(ctx)
			Expect(err).NotTo(HaveOccurred())
			defer k.Close()
			Expect(k.IsAssumed(waiting)).To(BeTrue())
			for plugin, pod := range map[string]*corev1.Pod{
				"VolumeBinding":    imagined("imagined-volume", UsingClaim("two")),
				"DynamicResources": imagined("imagined-device", UsingDevices("device-two")),
			} {
				_, err = decide(ctx, k, pod)
				var fitError *schedframework.FitError
				Expect(errors.As(err, &fitError)).To(BeTrue(), "%s: %v", plugin, err)
				Expect(fitError.Diagnosis.UnschedulablePlugins).To(HaveKey(plugin))
			}
		})
})

func instanceOf(ctx context.Context, k *fork.Fork) *profile.Instance {
	GinkgoHelper()
	cfg, err := k.Profile("mine")
	Expect(err).NotTo(HaveOccurred())
	p, err := k.Instance(ctx, cfg)
	Expect(err).NotTo(HaveOccurred())
	return p
}

// expectReserved waits until the Reserve plugins have been called for a pod.
func expectReserved(ctx context.Context, script *Script, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func() []string { return script.Points(pod) }).WithContext(ctx).Should(ContainElement("Permit"))
}

// startNoting starts a livesched with the plugins of a script, and records what it writes.
func startNoting() (*Script, *writes) {
	GinkgoHelper()
	script, sent, faults := &Script{}, &writes{}, &Faults{}
	faults.Set(sent.note)
	StartFor(faults.Config(), script.Register)
	return script, sent
}

// writes records the requests that write.
type writes struct {
	mu   sync.Mutex // guards sent
	sent []string
}

func (w *writes) note(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if r.Method != http.MethodGet {
		text := r.Method + " " + r.URL.Path
		if r.GetBody != nil {
			if body, err := r.GetBody(); err == nil {
				content, _ := io.ReadAll(body)
				text += " " + string(content)
			}
		}
		w.mu.Lock()
		w.sent = append(w.sent, text)
		w.mu.Unlock()
	}
	return send()
}

func (w *writes) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// about lists the requests that name one of these.
func (w *writes) about(names ...string) (about []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.sent {
		for _, name := range names {
			if strings.Contains(text, name) {
				about = append(about, text)
			}
		}
	}
	return about
}
