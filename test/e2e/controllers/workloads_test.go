// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

func jobOf(name string, parallelism, completions int32, changes ...podChange) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.JobSpec{Parallelism: ptr.To(parallelism), Completions: ptr.To(completions),
			Template: templateOf(name, changes...)},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

var _ = Describe("A workload", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("of parallel Jobs completes, with several times as many pods as fit at the same time",
		func(ctx context.Context) {
			addNodes(ctx, nodesOf("n1", "n2")...)
			l := startLedger(ctx)
			jobs := []*batchv1.Job{
				jobOf("wide", 16, 16, CPU("1")),
				jobOf("deep", 4, 8, CPU("2")),
			}
			for _, name := range Names("small", 3) {
				jobs = append(jobs, jobOf(name, 2, 2, CPU("500m")))
			}
			for _, job := range jobs {
				Create(ctx, job)
			}
			for _, job := range jobs {
				Eventually(func(g Gomega) {
					g.Expect(read(ctx, job)).To(Succeed())
					g.Expect(job.Status.Conditions).
						To(ContainElement(And(HaveField("Type", batchv1.JobComplete),
							HaveField("Status", corev1.ConditionTrue))))
					g.Expect(job.Status).
						To(And(HaveField("Succeeded", *job.Spec.Completions), HaveField("Failed", BeZero())))
				}).WithContext(ctx).Should(Succeed())
			}
			l.expectRight(ctx)
		})

	It("of a Job with a gang policy runs when all its pods fit at the same time", func(ctx context.Context) {
		NeedsServer("1.37", "its Jobs have no field scheduling")
		addNodes(ctx, nodesOf("n1")...)
		job := jobOf("gang", 4, 4, CPU("2"))
		job.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{
			SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
				Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}}}
		Create(ctx, job)
		Eventually(func(g Gomega) {
			pods := podsOf(ctx, "gang")
			g.Expect(pods).To(HaveLen(4))
			g.Expect(pods).To(HaveEach(And(HaveField("Spec.SchedulingGroup", Not(BeNil())),
				HaveField("Spec.NodeName", BeEmpty()),
				BeUnschedulable(ContainSubstring("must be placed together")))))
		}).WithContext(ctx).Should(Succeed(), "the node has room for two of them")

		addNodes(ctx, NodeOf("n2"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, job)).To(Succeed())
			g.Expect(job.Status.Succeeded).To(Equal(int32(4)))
		}).WithContext(ctx).Should(Succeed())
		var groups schedulingv1beta1.PodGroupList
		Expect(K8s.List(ctx, &groups, client.InNamespace(namespace))).To(Succeed())
		Expect(groups.Items).To(HaveLen(1))
		Expect(groups.Items[0].Status.Conditions).To(ContainElement(And(
			HaveField("Type", schedulingv1beta1.PodGroupInitiallyScheduled),
			HaveField("Status", metav1.ConditionTrue))))
	})

	It("of a StatefulSet starts its pods in order, one at a time", func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2", "n3")...)
		l := startLedger(ctx)
		Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](3),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				Template: templateOf("db", AwayFrom("app", "db")),
			},
		})
		Expect(expectRunning(ctx, "db", 3)).To(HaveEach(1), "on different nodes")
		inOrder := []string{"db-0", "db-1", "db-2"}
		l.catchUp(ctx)
		appeared, wereReady := l.order()
		Expect(appeared).To(Equal(inOrder))
		Expect(wereReady).To(Equal(inOrder))
	})

	It("that is larger than the cluster has pods that report why they wait, and that run when nodes are added",
		func(ctx context.Context) {
			addNodes(ctx, nodesOf("n1", "n2", "n3")...)
			Create(ctx, replicaSetOf("web", 5, AwayFrom("app", "web")))
			Expect(expectRunning(ctx, "web", 3)).To(HaveEach(1))
			waiting := And(HaveField("Spec.NodeName", BeEmpty()), BeUnschedulable(Equal(
				"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. "+
					"preemption: 0/3 nodes are available: 3 No preemption victims found "+
					"for incoming pod.")))
			Eventually(func(g Gomega) {
				pods := podsOf(ctx, "web")
				g.Expect(pods).To(HaveLen(5))
				var found []corev1.Pod
				g.Expect(pods).To(ContainElement(waiting, &found))
				g.Expect(found).To(HaveLen(2))
			}).WithContext(ctx).Should(Succeed())

			addNodes(ctx, NodeOf("n4"))
			Expect(expectRunning(ctx, "web", 4)).To(HaveKeyWithValue("n4", 1))
			addNodes(ctx, NodeOf("n5"))
			Expect(expectRunning(ctx, "web", 5)).To(HaveKeyWithValue("n5", 1))
		})
})
