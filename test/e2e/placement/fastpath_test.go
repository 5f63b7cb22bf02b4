// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/cmd/livesched/app"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// FourKinds makes the i-th pod of one of four kinds, each of which uses the plugins differently.
func FourKinds(i int) func(*corev1.Pod) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": fmt.Sprint(i % 4)}}
	return func(pod *corev1.Pod) {
		pod.Labels = own.MatchLabels
		switch i % 4 {
		case 1:
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: own},
			}
		case 2:
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 10,
						PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: own}},
				},
			}}
		case 3:
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: own}},
			}}
		}
	}
}

var _ = Describe("The fast path", func() {
	const decisions, differences = "livesched_decisions_total", "livesched_fast_path_differences_total"

	for _, mode := range []string{"on", "off", "verify"} {
		It("schedules pods of all kinds: "+mode, func(ctx context.Context) {
			Start(func(o *app.Options) { o.FastPath = mode })
			Create(ctx, QuickRetries())
			CreateNodes(ctx, Names("n", 4)...)
			CreateProfile(ctx, "mine", "")
			fast, different := Counted(decisions, "path", "fast"), Counted(differences, "", "")
			var pods []*corev1.Pod
			for i, name := range Names("p", 32) {
				pods = append(pods, CreatePod(ctx, "mine", name, CPU("10m"), FourKinds(i)))
			}
			perNode := map[string]int{}
			for i, pod := range pods {
				node := ExpectBound(ctx, pod)
				if i%4 == 1 {
					perNode[node]++
				}
			}
			Expect(perNode).To(HaveLen(4))
			Expect(perNode).To(HaveEach(2), "the pods with a constraint are spread")
			if mode == "off" {
				Expect(Counted(decisions, "path", "fast")).To(Equal(fast))
			} else {
				Expect(Counted(decisions, "path", "fast")).To(BeNumerically(">=", fast+32))
			}
			Expect(Counted(differences, "", "")).To(Equal(different))
		})

		It("places pods on the nodes of their volumes: "+mode, func(ctx context.Context) {
			Start(func(o *app.Options) { o.FastPath = mode })
			Create(ctx, QuickRetries())
			CreateNodes(ctx, Names("n", 4)...)
			CreateProfile(ctx, "mine", "percentageOfNodesToScore: 50")
			asked, different := Counted(decisions, "reason", "volumes"), Counted(differences, "", "")
			for i, node := range []string{"n-2", "n-0", "n-3"} {
				volume, claim := VolumeOn(fmt.Sprintf("fast-%s-%d", mode, i), "bound", node),
					ClaimOf(fmt.Sprintf("fast-%s-%d", mode, i), "bound")
				CreateVolumes(ctx, volume, claim)
				BindVolume(ctx, volume, claim)
				pod := CreatePod(ctx, "mine", claim.Name, UsingClaim(claim.Name))
				Expect(ExpectBound(ctx, pod)).To(Equal(node))
			}
			if mode == "off" {
				Expect(Counted(decisions, "reason", "volumes")).To(Equal(asked))
			} else {
				Expect(Counted(decisions, "reason", "volumes")).To(BeNumerically(">=", asked+3))
			}
			Expect(Counted(differences, "", "")).To(Equal(different))
		})
	}
})
