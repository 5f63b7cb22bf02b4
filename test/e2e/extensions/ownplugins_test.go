// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The plugins that kube-scheduler has removed", func() {
	BeforeEach(func(ctx context.Context) {
		Start()
		Create(ctx, QuickRetries(),
			Node("n1", "4", "8Gi", map[string]string{"rack": "r1"}),
			Node("n2", "4", "8Gi", map[string]string{"rack": "r2", "retiring": "soon"}))
	})

	It("filter nodes by their labels, including nodes that are labeled later", func(ctx context.Context) {
		CreateProfile(ctx, "mine", `
plugins: {multiPoint: {enabled: [{name: NodeLabel}]}}
pluginConfig: [{name: NodeLabel, args: {presentLabels: [rack], absentLabels: [retiring]}}]`)
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "first"))).To(Equal("n1"))

		Respec(ctx, "mine", `
plugins: {multiPoint: {enabled: [{name: NodeLabel}]}}
pluginConfig: [{name: NodeLabel, args: {presentLabels: [rack, ssd]}}]`)
		ExpectProgrammed(ctx, "mine")
		second := CreatePod(ctx, "mine", "second")
		ExpectUnschedulable(ctx, second, "0/2 nodes are available: 2 node(s) didn't have the requested labels. "+
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
		Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
			func(n *corev1.Node) { n.Labels["ssd"] = "fast" })
		Expect(ExpectBound(ctx, second)).To(Equal("n2"))
	})

	It("keep the pods of a service in one rack until the service is deleted", func(ctx context.Context) {
		CreateProfile(ctx, "mine", `
plugins: {multiPoint: {enabled: [{name: ServiceAffinity}]}}
pluginConfig: [{name: ServiceAffinity, args: {affinityLabels: [rack]}}]`)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
				Ports: []corev1.ServicePort{{Port: 80}}},
		}
		CreateFor(ctx, service)
		ExpectCached(ctx, service)
		Expect(ExpectBound(ctx,
			CreatePod(ctx, "mine", "first", Labelled("app", "web"), CPU("3"), Selecting("rack", "r2")))).To(Equal("n2"))
		second := CreatePod(ctx, "mine", "second", Labelled("app", "web"), CPU("3"))
		ExpectUnscheduled(ctx, second, corev1.PodReasonUnschedulable,
			ContainSubstring("1 node(s) didn't match service affinity"))
		Update(ctx, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
		Expect(ExpectBound(ctx, second)).To(Equal("n1"))
	})

	It("prefer nodes by their labels and annotations", func(ctx context.Context) {
		CreateProfile(ctx, "mine", `
plugins: {multiPoint: {enabled: [{name: NodeLabel, weight: 100}]}}
pluginConfig: [{name: NodeLabel, args: {presentLabelsPreference: [retiring]}}]`)
		for _, name := range Names("pod", 4) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name))).To(Equal("n2"))
		}
	})

	It("have their arguments validated before anything is built", func(ctx context.Context) {
		Create(ctx, Profile("mine", `
plugins: {multiPoint: {enabled: [{name: NodeLabel}]}}
pluginConfig: [{name: NodeLabel, args: {presentLabel: [rack]}}]`))
		got := ExpectCondition(ctx, "mine", v1alpha1.ConditionAccepted, metav1.ConditionFalse,
			v1alpha1.ReasonInvalidArgs)
		Expect(got.Status.Conditions).
			To(ContainElement(HaveField("Message",
				ContainSubstring(`spec.pluginConfig[0].args: unknown field "presentLabel"`))))
	})
})
