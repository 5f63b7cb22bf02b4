// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A binding that fails", func() {
	var (
		s   *script
		f   *faults
		run *testcluster.Running
	)

	BeforeEach(func(ctx context.Context) {
		s, f = &script{}, &faults{}
		run = startFor(f.config(), s.register)
		create(ctx, quickRetries())
		nodes(ctx, "n1")
		createProfile(ctx, "mine", `
plugins:
  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}
  bind: {enabled: [{name: Alpha}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`)
	})

	It("by a plugin is undone in reverse order, the room given back, the pod told and tried again until it is bound", func(ctx context.Context) {
		failing, release := make(chan struct{}), make(chan struct{})
		var attempts atomic.Int32
		s.perform(func(a *acts) {
			a.bind = func(_ context.Context, a *actor, pod *corev1.Pod, _ string) *fwk.Status {
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
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		Eventually(failing).Should(BeClosed())
		late := createPod(ctx, "mine", "late", cpu("1500m"))
		expectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))

		By("giving the room to a pod that waits for it while the failed one backs off")
		close(release)
		expectBound(ctx, late)
		expectEvent(ctx, pod, "FailedScheduling", Equal(`running Bind plugin "Alpha": out of ink`))
		Expect(s.at(pod, "Unreserve")[:2]).To(Equal([]string{beta, alpha}))
		Expect(s.at(pod, "PostBind")).To(BeEmpty())

		By("trying again when there is room, and once more when that fails")
		Expect(k8s.Delete(ctx, late)).To(Succeed())
		expectBound(ctx, pod)
		Expect(attempts.Load()).To(Equal(int32(3)))
		Eventually(s.at).WithArguments(pod, "PostBind").Should(Equal([]string{alpha, beta}))
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha, beta, alpha}))
		expectEvent(ctx, pod, "Scheduled", Not(BeEmpty()))
		Expect(eventsOf(ctx, pod, "Scheduled")).To(HaveLen(1))
	})

	It("in PreBind never reaches the API server, and is retried", func(ctx context.Context) {
		var attempts atomic.Int32
		s.perform(func(a *acts) {
			a.preBind = func(_ context.Context, a *actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.name == beta && attempts.Add(1) <= 2 {
					return fwk.AsStatus(errors.New("not ready"))
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		expectBound(ctx, pod)
		Expect(s.at(pod, "Bind")).To(Equal([]string{alpha}), "plugins that bind are asked once")
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha, beta, alpha}))
	})

	It("because the API server cannot be reached is undone and retried", func(ctx context.Context) {
		var calls atomic.Int32
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if bindsPod(r, "pod") && calls.Add(1) <= 2 {
				return nil, errNoRoute
			}
			return send()
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		expectBound(ctx, pod)
		Expect(calls.Load()).To(Equal(int32(3)))
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha, beta, alpha}))
		expectUnscheduled(ctx, createPod(ctx, "mine", "late", cpu("3")), corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
	})

	DescribeTable("because the API server refuses it is undone, told and retried:", func(ctx context.Context, refusal *apierrors.StatusError) {
		var calls atomic.Int32
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if bindsPod(r, "pod") && calls.Add(1) == 1 {
				return answer(r, refusal)
			}
			return send()
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		want := `running Bind plugin "DefaultBinder": ` + refusal.Error()
		expectEvent(ctx, pod, "FailedScheduling", Equal(want))
		expectBound(ctx, pod)
		Expect(calls.Load()).To(Equal(int32(2)))
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha}))
		expectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
	},
		Entry("it met an error of its own", apierrors.NewInternalError(errors.New("etcd is away"))),
		Entry("somebody changed the pod in between", apierrors.NewConflict(corev1.Resource("pods/binding"), "pod", errors.New("it was changed"))),
		Entry("it does not know the pod, as it is behind", apierrors.NewNotFound(corev1.Resource("pods"), "pod")),
		Entry("somebody forbids it", apierrors.NewForbidden(corev1.Resource("pods/binding"), "pod", errors.New("not today"))),
		Entry("it took too long", apierrors.NewTimeoutError("it took too long", 0)),
	)

	It("although it took place, as only the answer was lost, is none: the pod is bound, once, its room is taken, and nobody is told otherwise", func(ctx context.Context) {
		var calls atomic.Int32
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if !bindsPod(r, "pod") {
				return send()
			}
			calls.Add(1)
			answer, err := send()
			if err != nil {
				return nil, err
			}
			Expect(answer.Body.Close()).To(Succeed())
			return nil, errNoRoute
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		Expect(expectBound(ctx, pod)).To(Equal("n1"))
		expectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
		Eventually(s.at).WithArguments(pod, "PostBind").Should(Equal([]string{alpha, beta}))
		expectUnscheduled(ctx, createPod(ctx, "mine", "late", cpu("3")), corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Consistently(calls.Load).Should(Equal(int32(1)), "the pod is not bound again")
		Expect(s.at(pod, "Unreserve")).To(BeEmpty())
		expectStillScheduled(ctx, pod)
	})

	It("because the pod was deleted meanwhile gives its room back, and the pod's successor of the same name is another pod", func(ctx context.Context) {
		binding, goOn := make(chan struct{}), make(chan struct{})
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if bindsPod(r, "pod") {
				select {
				case <-binding:
				default:
					close(binding)
					<-goOn
				}
			}
			return send()
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		Eventually(binding).Should(BeClosed())
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		expectBound(ctx, createPod(ctx, "mine", "late", cpu("2")))
		successor := createPod(ctx, "mine", "pod", cpu("1"))
		expectBound(ctx, successor)
		close(goOn)
		Eventually(s.at).WithArguments(pod, "Unreserve").Should(HaveLen(2))
		Consistently(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(successor), successor)).To(Succeed())
			g.Expect(successor.Spec.NodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
	})

	It("because somebody else was faster counts the pod where it is", func(ctx context.Context) {
		nodes(ctx, "n2")
		// The other one is faster by so much: its binding comes before ours is sent.
		f.set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if bindsPod(r, "pod") {
				bindByHand(context.Background(), "pod", "n2")
			}
			return send()
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"), selecting(corev1.LabelHostname, "n1"))
		Expect(expectBound(ctx, pod)).To(Equal("n2"))
		Eventually(s.at).WithArguments(pod, "Unreserve").Should(Equal([]string{beta, alpha}))
		expectStillScheduled(ctx, pod)
		Expect(expectBound(ctx, createPod(ctx, "mine", "on-n1", cpu("3")))).To(Equal("n1"))
	})
})

// expectStillScheduled makes sure that a bound pod is not told that it is not.
func expectStillScheduled(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue))))
		g.Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// answer is a refusal as the API server writes it.
func answer(r *http.Request, refusal *apierrors.StatusError) (*http.Response, error) {
	status := refusal.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)), Request: r, Proto: r.Proto, ProtoMajor: r.ProtoMajor,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// bindByHand binds a pod as another scheduler would.
func bindByHand(ctx context.Context, name, node string) {
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	Expect(clientset.CoreV1().Pods(metav1.NamespaceDefault).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})).To(Succeed())
}
