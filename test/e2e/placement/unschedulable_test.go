// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

const (
	noVictims = " preemption: 0/1 nodes are available: 1 No preemption victims found " +
		"for incoming pod."
	noPreempt = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for " +
		"scheduling."
	nowhere = "0/1 nodes are available: "
	// full is the message for a node that would have room for the pod without others, tooSmall for
	// one that never has room.
	full     = nowhere + "1 Insufficient cpu." + noVictims
	tooSmall = nowhere + "1 Insufficient cpu." + noPreempt
)

// The messages are those of kube-scheduler 1.36 for the same pods; see framework.StartDefault.
var _ = Describe("An unschedulable pod", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
	})

	It("gets a condition and an Event, as from kube-scheduler", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", CPU("5"))
		ExpectUnschedulable(ctx, pod, tooSmall)
		condition := pod.Status.Conditions[0]
		Expect(condition.ObservedGeneration).To(Equal(pod.Generation))
		Expect(condition.LastTransitionTime.IsZero()).To(BeFalse())
		event := ExpectEvent(ctx, pod, "FailedScheduling", Equal(tooSmall))
		Expect(event.Action).To(Equal("Scheduling"))
		Expect(event.Type).To(Equal(corev1.EventTypeWarning))
		Expect(event.ReportingController).To(Equal("mine"))
		Expect(event.Regarding.Kind).To(Equal("Pod"))
	})

	It("gets them when there is no node at all, and is bound to the first one", func(ctx context.Context) {
		pod := CreatePod(ctx, "mine", "pod")
		const message = "no nodes available to schedule pods"
		ExpectUnschedulable(ctx, pod, message)
		ExpectEvent(ctx, pod, "FailedScheduling", Equal(message))
		CreateNodes(ctx, "n1")
		ExpectBound(ctx, pod)
	})

	It("loses the condition's reason when it is bound", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", CPU("5"))
		ExpectUnschedulable(ctx, pod, tooSmall)
		Create(ctx, Node("n2", "8", "8Gi", nil))
		Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
		Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", ""))))
		event := ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n2"))
		Expect(event.Action).To(Equal("Binding"))
		Expect(event.Type).To(Equal(corev1.EventTypeNormal))
		Expect(event.ReportingController).To(Equal("mine"))
	})

	It("is not scheduled while it is being deleted", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", CPU("5"), Witnessed)
		DeferCleanup(func(ctx context.Context) { Release(ctx, pod) })
		ExpectUnschedulable(ctx, pod, tooSmall)
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		Create(ctx, Node("n2", "8", "8Gi", nil))
		ExpectPending(ctx, pod)
	})

	DescribeTable("is bound when the cluster changes:", func(ctx context.Context, c clusterChange) {
		if c.server != "" {
			NeedsServer(c.server, "it drops fields of the objects")
		}
		n := Node("n1", "4", "8Gi", nil)
		if c.node != nil {
			c.node(n)
		}
		Create(ctx, n)
		if c.resident != nil {
			Create(ctx, c.resident)
		}
		pod := CreatePod(ctx, "mine", "pod", c.pod)
		ExpectUnschedulable(ctx, pod, c.message)
		c.change(ctx, n, c.resident, pod)
		ExpectBound(ctx, pod)
	},
		Entry("a pod is deleted", clusterChange{
			pod: CPU("2"), resident: PodOf("somebody-else", "resident", CPU("3"), OnNode("n1")),
			message: full,
			change: func(ctx context.Context, _ *corev1.Node, resident, _ *corev1.Pod) {
				Expect(K8s.Delete(ctx, resident)).To(Succeed())
			},
		}),
		Entry("a pod ends", clusterChange{
			pod: CPU("2"), resident: PodOf("somebody-else", "resident", CPU("3"), OnNode("n1")),
			message: full,
			change: func(ctx context.Context, _ *corev1.Node, resident, _ *corev1.Pod) {
				resident.Status.Phase = corev1.PodSucceeded
				Expect(K8s.Status().Update(ctx, resident)).To(Succeed())
			},
		}),
		Entry("a node with room is added", clusterChange{
			pod: CPU("5"), message: tooSmall,
			change: func(ctx context.Context, _ *corev1.Node, _, _ *corev1.Pod) {
				Create(ctx, Node("n2", "8", "8Gi", nil))
			},
		}),
		Entry("a node grows", clusterChange{
			pod: CPU("5"), message: tooSmall,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8")
				Expect(K8s.Status().Update(ctx, n)).To(Succeed())
			},
		}),
		Entry("a taint is removed", clusterChange{
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "only", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			},
			pod:     CPU("1"),
			message: nowhere + "1 node(s) had untolerated taint(s)." + noPreempt,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				Update(ctx, n, func(n *corev1.Node) { n.Spec.Taints = nil })
			},
		}),
		Entry("a toleration is added", clusterChange{
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "only", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			},
			pod:     CPU("1"),
			message: nowhere + "1 node(s) had untolerated taint(s)." + noPreempt,
			change: func(ctx context.Context, _ *corev1.Node, _, pod *corev1.Pod) {
				Update(ctx, pod, func(pod *corev1.Pod) {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations,
						corev1.Toleration{Key: "only", Operator: corev1.TolerationOpExists})
				})
			},
		}),
		Entry("a node is made schedulable", clusterChange{
			node:    func(n *corev1.Node) { n.Spec.Unschedulable = true },
			pod:     CPU("1"),
			message: nowhere + "1 node(s) were unschedulable." + noPreempt,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				Update(ctx, n, func(n *corev1.Node) { n.Spec.Unschedulable = false })
			},
		}),
		Entry("a node gets the label that the pod selects", clusterChange{
			pod:     Selecting("disk", "ssd"),
			message: nowhere + "1 node(s) didn't match Pod's node affinity/selector." + noPreempt,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				Update(ctx, n, func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "disk", "ssd") })
			},
		}),
		Entry("a host port is freed", clusterChange{
			pod: HostPort(8080), resident: PodOf("somebody-else", "resident", HostPort(8080), OnNode("n1")),
			message: nowhere + "1 node(s) didn't have free ports for the requested pod ports." + noVictims,
			change: func(ctx context.Context, _ *corev1.Node, resident, _ *corev1.Pod) {
				Expect(K8s.Delete(ctx, resident)).To(Succeed())
			},
		}),
		Entry("a pod that it has affinity to is created", clusterChange{
			pod:     Near("app", "db"),
			message: nowhere + "1 node(s) didn't match pod affinity rules." + noPreempt,
			change: func(ctx context.Context, _ *corev1.Node, _, _ *corev1.Pod) {
				CreatePod(ctx, "somebody-else", "db", Labelled("app", "db"), OnNode("n1"))
			},
		}),
		Entry("a pod that it has anti-affinity to changes its label", clusterChange{
			pod: AwayFrom("app", "noisy"), resident: PodOf("somebody-else", "resident", Labelled("app", "noisy"),
				OnNode("n1")),
			message: nowhere + "1 node(s) didn't match pod anti-affinity rules." + noVictims,
			change: func(ctx context.Context, _ *corev1.Node, resident, _ *corev1.Pod) {
				Update(ctx, resident, Labelled("app", "quiet"))
			},
		}),
		Entry("a node is added to the topology that it spreads over", clusterChange{
			pod: Spreading("zone"),
			message: nowhere + "1 node(s) didn't match pod topology spread constraints (missing required label)." +
				noPreempt,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				Update(ctx, n, func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "zone", "z1") })
			},
		}),
		Entry("a node declares the feature that it needs", clusterChange{
			server: "1.36",
			pod: func(pod *corev1.Pod) {
				pod.Spec.RestartPolicy = corev1.RestartPolicyNever
				c := &pod.Spec.Containers[0]
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
				c.RestartPolicyRules = []corev1.ContainerRestartRule{{
					Action: corev1.ContainerRestartRuleActionRestartAllContainers,
					ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
						Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
				}}
			},
			message: nowhere + "1 node(s) didn't match Pod's required features." + noPreempt,
			change: func(ctx context.Context, n *corev1.Node, _, _ *corev1.Pod) {
				n.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
				Expect(K8s.Status().Update(ctx, n)).To(Succeed())
			},
		}),
		Entry("a pod on the node is resized to less in place", clusterChange{
			pod: CPU("2"), resident: PodOf("somebody-else", "resident", CPU("3"), OnNode("n1")),
			message: full,
			change: func(ctx context.Context, _ *corev1.Node, resident, _ *corev1.Pod) {
				CPU("1")(resident)
				Expect(K8s.SubResource("resize").Update(ctx, resident)).To(Succeed())
			},
		}),
		Entry("its gate is removed and there is room", clusterChange{
			pod: func(pod *corev1.Pod) { CPU("5")(pod) }, message: tooSmall,
			change: func(ctx context.Context, n *corev1.Node, _, pod *corev1.Pod) {
				pending := CreatePod(ctx, "mine", "gated", Gated)
				ExpectPending(ctx, pending)
				Update(ctx, pending, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
				ExpectBound(ctx, pending)
				Create(ctx, Node("n2", "8", "8Gi", nil))
			},
		}),
	)

	It("is not retried after changes that cannot help it", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", Selecting("disk", "ssd"))
		ExpectUnschedulable(ctx, pod, nowhere+"1 node(s) didn't match Pod's node affinity/selector."+noPreempt)
		// An attempt may have preceded the node's event, which has its own Event.
		ExpectEvent(ctx, pod, "FailedScheduling", HavePrefix(nowhere))
		told := func() (series []any) {
			for _, event := range EventsOf(ctx, pod, "FailedScheduling") {
				series = append(series, event.Note, event.Series)
			}
			return series
		}
		before := told()
		for _, name := range Names("other", 3) {
			ExpectBound(ctx, CreatePod(ctx, "mine", name))
		}
		Consistently(told).WithContext(ctx).Should(Equal(before))
	})
})

// clusterChange is a pod that does not fit on the one node, and a change that makes it fit.
type clusterChange struct {
	node     func(*corev1.Node)
	resident *corev1.Pod
	pod      func(*corev1.Pod)
	message  string
	change   func(ctx context.Context, n *corev1.Node, resident, pod *corev1.Pod)
	// server is the oldest API server that keeps the fields of these objects.
	server string
}

var _ = Describe("A pod that is replaced by another one of its name while its failure is being reported", func() {
	It("leaves nothing in the status of its successor", func(ctx context.Context) {
		f := &Faults{}
		StartFor(f.Config())
		CreateProfile(ctx, "mine", "")
		CreateNodes(ctx, "n1")
		successor := PodOf("somebody-else", "pod")
		replaced := make(chan struct{})
		replace := sync.OnceFunc(func() {
			defer GinkgoRecover()
			defer close(replaced)
			Expect(K8s.Delete(ctx, PodOf("mine", "pod"))).To(Succeed())
			Expect(K8s.Create(ctx, successor)).To(Succeed())
		})
		answers := make(chan int, 10)
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/pods/pod/status") {
				return send()
			}
			replace()
			answer, err := send()
			if err == nil {
				answers <- answer.StatusCode
			}
			return answer, err
		})
		CreatePod(ctx, "mine", "pod", CPU("5"))
		Eventually(replaced).WithContext(ctx).Should(BeClosed())
		// The loop does not wait for writes of statuses.
		Eventually(answers).WithContext(ctx).Should(Receive(Equal(http.StatusUnprocessableEntity)),
			"the API server has rejected the write")
		ExpectBound(ctx, CreatePod(ctx, "mine", "other"))
		Consistently(answers).WithContext(ctx).ShouldNot(Receive(), "once is enough")
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(successor), successor)).To(Succeed())
		Expect(successor.Status.Conditions).To(BeEmpty())
	})
})

var _ = Describe("A pod whose condition cannot be written", func() {
	It("gets its condition after a back-off, without any event", func(ctx context.Context) {
		f := &Faults{}
		StartFor(f.Config())
		Create(ctx, QuickRetries())
		CreateProfile(ctx, "mine", "")
		CreateNodes(ctx, "n1")
		var lost atomic.Int32
		f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/pod/status") && lost.Add(1) <= 2 {
				return nil, ErrNoRoute
			}
			return send()
		})
		ExpectUnschedulable(ctx, CreatePod(ctx, "mine", "pod", CPU("5")), tooSmall)
		Expect(lost.Load()).To(Equal(int32(3)))
	})
})
