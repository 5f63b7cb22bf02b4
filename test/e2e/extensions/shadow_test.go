// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
	. "github.com/livesched/livesched/test/e2e/framework"
)

var _ = Describe("A shadow with plugins of its own", func() {
	// tries is the argument by which plugins know that they are those of the shadow.
	const tries = "shadow"
	const alpha = "plugins: {multiPoint: {enabled: [{name: Alpha, weight: 1}]}}\n"
	var (
		script *Script
		sent   *writes
	)
	BeforeEach(func(ctx context.Context) {
		script, sent = startNoting()
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", alpha)
		CreateProfile(ctx, "next", alpha+"mode: Shadow\nshadow: {profileRef: {name: mine}}\n"+
			"pluginConfig: [{name: Alpha, args: {as: "+tries+"}}]")
		ExpectProgrammed(ctx, "mine")
		ExpectProgrammed(ctx, "next")
	})
	counts := func() *v1alpha1.ShadowStatus { return Running.Scheduler.ShadowStatus("shadow/next") }

	It("calls them to decide, and lets them write nothing", func(ctx context.Context) {
		var tried sync.Map
		script.Perform(func(acts *Acts) {
			acts.Filter = func(ctx context.Context, a *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if a.Args.As != tries {
					return nil
				}
				own, err := kubernetes.NewForConfig(a.Handle.KubeConfig())
				if err != nil {
					return fwk.AsStatus(err)
				}
				pods := own.CoreV1().Pods(pod.Namespace)
				tried.Store("own client", pods.Delete(ctx, "written-by-shadow", metav1.DeleteOptions{}))
				tried.Store("client", a.Handle.ClientSet().CoreV1().Pods(pod.Namespace).
					Delete(ctx, "written-by-shadow", metav1.DeleteOptions{}))
				a.Handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "WrittenByShadow", "Trying", "tried")
				a.Handle.Activate(GinkgoLogr, map[string]*corev1.Pod{"default/pod": pod})
				return nil
			}
		})
		placed := CreatePod(ctx, "mine", "placed")
		ExpectBound(ctx, placed)
		unfit := CreatePod(ctx, "mine", "unfit", func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"nowhere": "there"}
		})
		ExpectUnscheduled(ctx, unfit, corev1.PodReasonUnschedulable,
			ContainSubstring("didn't match Pod's node affinity/selector"))
		Eventually(counts).Should(And(HaveField("Decisions", BeNumerically(">=", 2)), HaveField("FirstMismatch", "")))
		compared := counts()
		Expect(compared.Agreed).To(Equal(compared.Decisions))

		for _, pod := range []*corev1.Pod{placed, unfit} {
			for _, call := range script.About(pod) {
				if call.As == tries {
					Expect([]string{"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"}).
						To(ContainElement(call.Point))
				}
			}
		}
		Expect(script.About(placed)).To(ContainElement(And(HaveField("As", tries), HaveField("Point", "Filter"))))
		Expect(script.About(unfit)).To(ContainElement(And(HaveField("As", ""), HaveField("Point", "PostFilter"))))
		for _, what := range []string{"own client", "client"} {
			err, _ := tried.Load(what)
			var refused *profile.RefusedError
			Expect(errors.As(err.(error), &refused)).To(BeTrue(), "%s: %v", what, err)
		}
		Expect(sent.about("written-by-shadow", "WrittenByShadow")).To(BeEmpty())
	})

	DescribeTable("skips decisions in which a plugin fails, and pods are bound all the same",
		func(ctx context.Context, fail func() *fwk.Status) {
			script.Perform(func(acts *Acts) {
				acts.Any = func(point string, a *Actor, _ *corev1.Pod) *fwk.Status {
					if a.Args.As == tries && point == "Filter" {
						return fail()
					}
					return nil
				}
			})
			ExpectBound(ctx, CreatePod(ctx, "mine", "placed"))
			Eventually(counts).Should(And(HaveField("Skipped", BeEquivalentTo(1)), HaveField("Decisions", BeZero())))
		},
		Entry("with an error", func() *fwk.Status { return fwk.AsStatus(errors.New("sorry")) }),
		Entry("with a panic", func() *fwk.Status { panic("sorry") }),
	)

	It("begins anew for another revision, and is closed with its spec", func(ctx context.Context) {
		ExpectBound(ctx, CreatePod(ctx, "mine", "first"))
		Eventually(counts).Should(HaveField("Decisions", BeEquivalentTo(1)))
		before := counts().Revision
		script.Perform(func(acts *Acts) {
			acts.Score = func(a *Actor, node string) int64 {
				if a.Args.As == "picky" && node == "n1" {
					return 100
				}
				return 0
			}
			acts.Filter = func(_ context.Context, a *Actor, _ *corev1.Pod, node string) *fwk.Status {
				if a.Args.As == "" && node == "n1" {
					return fwk.NewStatus(fwk.Unschedulable, "not here")
				}
				return nil
			}
		})
		Respec(ctx, "next", alpha+"mode: Shadow\nshadow: {profileRef: {name: mine}}\n"+
			"pluginConfig: [{name: Alpha, args: {as: picky}}]")
		ExpectProgrammed(ctx, "next")
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "second"))).To(Equal("n2"))
		Eventually(counts).Should(And(HaveField("Decisions", BeEquivalentTo(1)),
			HaveField("NodeScoredLower", BeEquivalentTo(1)), HaveField("Revision", Not(Equal(before)))))
		Expect(counts().Causes).To(ContainElement(And(HaveField("Plugin", "Alpha"),
			HaveField("ExtensionPoint", "Score"))))
		Eventually(func() bool {
			return slices.ContainsFunc(script.Actors(), func(a *Actor) bool {
				return a.Args.As == tries && a.Closes.Load() == 1
			})
		}).Should(BeTrue())
	})
})
