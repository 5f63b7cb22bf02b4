// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"bytes"
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/replay"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// hostPort makes a pod use a port of its node.
func hostPort(pod *corev1.Pod) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 8080}}
}

var _ = Describe("A snapshot", func() {
	// taken returns a redacted snapshot of the cluster, and its state.
	taken := func(ctx context.Context) (*capture.Snapshot, *replay.State) {
		GinkgoHelper()
		registry, err := plugins.NewRegistry(nil)
		Expect(err).NotTo(HaveOccurred())
		write, err := Running.Parts().Answers.Snapshot(ctx, 1000)
		Expect(err).NotTo(HaveOccurred())
		var file bytes.Buffer
		Expect(write(ctx, &file, true)).To(Succeed())
		snapshot, err := capture.Read(&file, capture.DefaultLimits)
		Expect(err).NotTo(HaveOccurred())
		state, err := replay.New(ctx, snapshot, registry)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(state.Close)
		return snapshot, state
	}

	It("has the PodGroups of both APIs, and the decisions about their pods are made again", func(ctx context.Context) {
		NeedsServer("1.36", "it serves no PodGroups of Kubernetes")
		Start()
		CreateProfile(ctx, "mine", "")
		ExpectProgrammed(ctx, "mine")
		for _, rack := range []string{"a", "b"} {
			for _, name := range Names("n", 2) {
				Create(ctx, Node(rack+"-"+name, "8", "8Gi", map[string]string{"rack": rack}))
			}
		}
		custom := PodGroup("custom", 2)
		custom.SetAnnotations(map[string]string{podgroup.AnnotationRequired: "rack"})
		native, tooLarge := KubernetesPodGroup("native", 2, "rack"), KubernetesPodGroup("large", 3, "rack")
		Create(ctx, custom, native, tooLarge)
		By("placing two groups in racks, and trying a third one in both")
		for _, name := range Names("custom-", 2) {
			CreatePod(ctx, "mine", name, MemberOf("custom"), CPU("1"))
		}
		for _, name := range Names("native-", 2) {
			CreatePod(ctx, "mine", name, InGroup("native"), CPU("1"))
		}
		for _, name := range Names("large-", 3) {
			CreatePod(ctx, "mine", name, InGroup("large"), CPU("1"), hostPort)
		}
		By("refusing a group none of whose pods is tried")
		Create(ctx, PodGroup("huge", 2))
		for _, name := range Names("huge-", 2) {
			CreatePod(ctx, "mine", name, MemberOf("huge"), CPU("100"))
		}
		Eventually(func(g Gomega) {
			var pods corev1.PodList
			g.Expect(K8s.List(ctx, &pods)).To(Succeed())
			bound, tried := 0, 0
			for i := range pods.Items {
				if pods.Items[i].Spec.NodeName != "" {
					bound++
				}
				for _, c := range pods.Items[i].Status.Conditions {
					if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
						c.Reason == corev1.PodReasonUnschedulable {
						tried++
					}
				}
			}
			g.Expect([]int{bound, tried}).To(Equal([]int{4, 5}))
		}).WithContext(ctx).Should(Succeed())

		refused, _, err := Running.Parts().
			Answers.Decisions(ctx, &apiserving.DecisionQuery{Limit: 10, PodGroup: "huge"})
		Expect(err).NotTo(HaveOccurred())
		Expect(refused).NotTo(BeEmpty())
		Expect(refused[0]).To(And(HaveField("PodGroup", "huge"), HaveField("PodUID", BeEmpty()),
			HaveField("Result", v1alpha1.DecisionUnschedulable),
			HaveField("Message", HavePrefix("pod group default/huge: 2 pods must be placed together, but there are "+
				"resources for 0 of them at most"))))

		By("taking a snapshot")
		var snapshot *capture.Snapshot
		var state *replay.State
		Eventually(func(g Gomega) { // the group may be tried at this moment
			snapshot, state = taken(ctx)
			report, err := state.Decide(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(report.Different).To(BeEmpty())
			g.Expect(report.Left).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		// Other specs may have left PodGroups behind.
		found, named := sets.New[podgroup.Key](), sets.New[podgroup.Key]()
		for _, group := range snapshot.PodGroups {
			found.Insert(group.Group().Key)
		}
		for _, object := range snapshot.Objects {
			if group, ok := object.(*schedulingv1beta1.PodGroup); ok {
				found.Insert(podgroup.KeyOfPodGroup(group))
			}
		}
		for _, pod := range slices.Concat(snapshot.Pods, snapshot.Pending) {
			named.Insert(podgroup.KeyOf(pod))
		}
		Expect(named).To(HaveLen(4))
		Expect(found.IsSuperset(named)).To(BeTrue(), "found are %v, and pods name %v", found, named)
		inRacks := 0
		for i := range snapshot.Decisions {
			inRacks += len(snapshot.Decisions[i].Domain)
		}
		Expect(inRacks).To(BeNumerically(">=", 4+6), "two groups, and the large one in both racks")

		By("and the pods of the group that waits are still those of a group")
		var waiting []*corev1.Pod
		for _, pod := range snapshot.Pending {
			if g := state.Group(pod); g != nil && g.Needed == 3 {
				waiting = append(waiting, pod)
				Expect(g.Pods).To(HaveLen(3))
			}
		}
		Expect(waiting).To(HaveLen(3))
	})
})
