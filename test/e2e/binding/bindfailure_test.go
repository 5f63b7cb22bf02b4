// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A binding that fails", func() {
	var (
		s   *Script
		f   *Faults
		run *testcluster.Running
	)

	BeforeEach(func(ctx context.Context) {
		s, f = &Script{}, &Faults{}
		run = StartFor(f.Config(), s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", `
plugins:
  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}
  bind: {enabled: [{name: Alpha}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`)
	})

	It("because of a plugin is undone in reverse order, frees the room, is reported on the pod, and is retried until "+
		"the pod is bound", func(ctx context.Context) {
		failing, release := make(chan struct{}), make(chan struct{})
		var attempts atomic.Int32
		s.Perform(func(a *Acts) {
			a.Bind = func(_ context.Context, a *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name != "pod" {
					return fwk.NewStatus(fwk.Skip)
				}
				switch attempts.Add(1) {
				case 1:
					close(failing)
					<-release
					return fwk.AsStatus(errors.New("out of ink"))
				case 2:
					return fwk.AsStatus(errors.New("out of paper"))
				}
				return fwk.NewStatus(fwk.Skip)
			}
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		Eventually(failing).Should(BeClosed())
		late := CreatePod(ctx, "mine", "late", CPU("1500m"))
		ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))

		By("binding a pod that waits for the room while the failed one backs off")
		close(release)
		ExpectBound(ctx, late)
		ExpectEvent(ctx, pod, "FailedScheduling", Equal(`running Bind plugin "Alpha": out of ink`))
		Expect(s.At(pod, "Unreserve")[:2]).To(Equal([]string{Beta, Alpha}))
		Expect(s.At(pod, "PostBind")).To(BeEmpty())

		By("retrying when there is room, and once more when that fails")
		Expect(K8s.Delete(ctx, late)).To(Succeed())
		ExpectBound(ctx, pod)
		Expect(attempts.Load()).To(Equal(int32(3)))
		Eventually(s.At).WithArguments(pod, "PostBind").Should(Equal([]string{Alpha, Beta}))
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha, Beta, Alpha}))
		ExpectEvent(ctx, pod, "Scheduled", Not(BeEmpty()))
		Expect(EventsOf(ctx, pod, "Scheduled")).To(HaveLen(1))
	})

	It("in PreBind never reaches the API server, and is retried", func(ctx context.Context) {
		var attempts atomic.Int32
		s.Perform(func(a *Acts) {
			a.PreBind = func(_ context.Context, a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.Name() == Beta && attempts.Add(1) <= 2 {
					return fwk.AsStatus(errors.New("not ready"))
				}
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		ExpectBound(ctx, pod)
		Expect(s.At(pod, "Bind")).To(Equal([]string{Alpha}), "plugins that bind are asked once")
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha, Beta, Alpha}))
	})

	It("because the API server cannot be reached is undone and retried", func(ctx context.Context) {
		var calls atomic.Int32
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if BindsPod(r, "pod") && calls.Add(1) <= 2 {
				return nil, ErrNoRoute
			}
			return send()
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		ExpectBound(ctx, pod)
		Expect(calls.Load()).To(Equal(int32(3)))
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha, Beta, Alpha}))
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "late", CPU("3")), corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
	})

	// times is how often the plugin DefaultBinder tries before it fails.
	DescribeTable("because the API server rejects it is undone, reported and retried:", func(ctx context.Context,
		refusal *apierrors.StatusError, times int) {
		var calls atomic.Int32
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if BindsPod(r, "pod") && calls.Add(1) <= int32(times) {
				return answer(r, refusal)
			}
			return send()
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		want := `running Bind plugin "DefaultBinder": ` + refusal.Error()
		ExpectEvent(ctx, pod, "FailedScheduling", Equal(want))
		ExpectBound(ctx, pod)
		Expect(calls.Load()).To(Equal(int32(times + 1)))
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha}))
		ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
	},
		Entry("internal error", apierrors.NewInternalError(errors.New("etcd is away")), 4),
		Entry("service unavailable", apierrors.NewServiceUnavailable("the webhook is away"), 4),
		Entry("conflict, because the pod was changed",
			apierrors.NewConflict(corev1.Resource("pods/binding"), "pod", errors.New("it was changed")), 1),
		Entry("not found, because the API server is behind", apierrors.NewNotFound(corev1.Resource("pods"), "pod"), 1),
		Entry("forbidden", apierrors.NewForbidden(corev1.Resource("pods/binding"), "pod", errors.New("not today")), 1),
		Entry("timeout", apierrors.NewTimeoutError("it took too long", 0), 1),
	)

	// times is how often the plugin DefaultBinder tries.
	DescribeTable("although the API server has bound the pod counts as a success: the pod is bound once, its room is "+
		"taken, and no failure is reported. Instead of the response comes", func(ctx context.Context,
		respond func(*http.Request) (*http.Response, error), times int) {
		var calls atomic.Int32
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if !BindsPod(r, "pod") {
				return send()
			}
			calls.Add(1)
			response, err := send()
			if err != nil || response.StatusCode == http.StatusConflict { // it is bound already
				return response, err
			}
			Expect(response.Body.Close()).To(Succeed())
			return respond(r)
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		Expect(ExpectBound(ctx, pod)).To(Equal("n1"))
		ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
		Eventually(s.At).WithArguments(pod, "PostBind").Should(Equal([]string{Alpha, Beta}))
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "late", CPU("3")), corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Consistently(calls.Load).Should(Equal(int32(times)), "the pod is not bound again")
		Expect(s.At(pod, "Unreserve")).To(BeEmpty())
		ExpectStillScheduled(ctx, pod)
	},
		Entry("nothing", func(*http.Request) (*http.Response, error) { return nil, ErrNoRoute }, 1),
		Entry("an internal error", func(r *http.Request) (*http.Response, error) {
			return answer(r, apierrors.NewInternalError(errors.New("etcd is slow")))
		}, 2),
	)

	It("because the pod was deleted frees its room, and a new pod of the same name is another pod",
		func(ctx context.Context) {
			binding, goOn := make(chan struct{}), make(chan struct{})
			f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if BindsPod(r, "pod") {
					select {
					case <-binding:
					default:
						close(binding)
						<-goOn
					}
				}
				return send()
			})
			pod := CreatePod(ctx, "mine", "pod", CPU("3"))
			Eventually(binding).Should(BeClosed())
			Expect(K8s.Delete(ctx, pod)).To(Succeed())
			ExpectBound(ctx, CreatePod(ctx, "mine", "late", CPU("2")))
			successor := CreatePod(ctx, "mine", "pod", CPU("1"))
			ExpectBound(ctx, successor)
			close(goOn)
			Eventually(s.At).WithArguments(pod, "Unreserve").Should(HaveLen(2))
			Consistently(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(successor), successor)).To(Succeed())
				g.Expect(successor.Spec.NodeName).To(Equal("n1"))
			}).WithContext(ctx).Should(Succeed())
			Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		})

	It("because another client bound the pod first counts the pod on the node where it is", func(ctx context.Context) {
		CreateNodes(ctx, "n2")
		// The other scheduler is faster: its binding arrives before this one is sent.
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if BindsPod(r, "pod") {
				BindByHand(context.Background(), "pod", "n2")
			}
			return send()
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"), Selecting(corev1.LabelHostname, "n1"))
		Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
		Eventually(s.At).WithArguments(pod, "Unreserve").Should(Equal([]string{Beta, Alpha}))
		ExpectStillScheduled(ctx, pod)
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "on-n1", CPU("3")))).To(Equal("n1"))
	})
})

// answer returns an error as the API server's response.
func answer(r *http.Request, refusal *apierrors.StatusError) (*http.Response, error) {
	status := refusal.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)), Request: r, Proto: r.Proto,
		ProtoMajor: r.ProtoMajor,
		Header:     http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}
