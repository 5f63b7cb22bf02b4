// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livesched/livesched/cmd/livesched/app"
)

// counted adds up the series of a counter of livesched's that have the label.
func counted(name, label, value string) float64 {
	GinkgoHelper()
	families, err := ctrlmetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			found := label == ""
			for _, l := range metric.GetLabel() {
				found = found || l.GetName() == label && l.GetValue() == value
			}
			if found {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return total
}

// fourKinds are pods of which each kind uses the plugins in another way.
func fourKinds(i int) func(*corev1.Pod) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": fmt.Sprint(i % 4)}}
	return func(pod *corev1.Pod) {
		pod.Labels = own.MatchLabels
		switch i % 4 {
		case 1:
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own},
			}
		case 2:
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: own}},
				},
			}}
		case 3:
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: own}},
			}}
		}
	}
}

var _ = Describe("The fast path", func() {
	const decisions, differences = "livesched_decisions_total", "livesched_fast_path_differences_total"

	for _, mode := range []string{"on", "off", "verify"} {
		It("decides about all kinds of pods: "+mode, func(ctx context.Context) {
			start(func(o *app.Options) { o.FastPath = mode })
			create(ctx, quickRetries())
			nodes(ctx, names("n", 4)...)
			createProfile(ctx, "mine", "")
			fast, different := counted(decisions, "path", "fast"), counted(differences, "", "")
			var pods []*corev1.Pod
			for i, name := range names("p", 32) {
				pods = append(pods, createPod(ctx, "mine", name, cpu("10m"), fourKinds(i)))
			}
			perNode := map[string]int{}
			for i, pod := range pods {
				node := expectBound(ctx, pod)
				if i%4 == 1 {
					perNode[node]++
				}
			}
			Expect(perNode).To(HaveLen(4))
			Expect(perNode).To(HaveEach(2), "the pods with a constraint are spread")
			if mode == "off" {
				Expect(counted(decisions, "path", "fast")).To(Equal(fast))
			} else {
				Expect(counted(decisions, "path", "fast")).To(BeNumerically(">=", fast+32))
			}
			Expect(counted(differences, "", "")).To(Equal(different))
		})

		It("puts pods where their volumes are: "+mode, func(ctx context.Context) {
			start(func(o *app.Options) { o.FastPath = mode })
			create(ctx, quickRetries())
			nodes(ctx, names("n", 4)...)
			createProfile(ctx, "mine", "percentageOfNodesToScore: 50")
			asked, different := counted(decisions, "reason", "volumes"), counted(differences, "", "")
			for i, node := range []string{"n-2", "n-0", "n-3"} {
				volume, claim := volumeOn(fmt.Sprintf("fast-%s-%d", mode, i), "bound", node), claimOf(fmt.Sprintf("fast-%s-%d", mode, i), "bound")
				createVolumes(ctx, volume, claim)
				bindVolume(ctx, volume, claim)
				pod := createPod(ctx, "mine", claim.Name, using(claim.Name))
				Expect(expectBound(ctx, pod)).To(Equal(node))
			}
			if mode == "off" {
				Expect(counted(decisions, "reason", "volumes")).To(Equal(asked))
			} else {
				Expect(counted(decisions, "reason", "volumes")).To(BeNumerically(">=", asked+3))
			}
			Expect(counted(differences, "", "")).To(Equal(different))
		})
	}
})
