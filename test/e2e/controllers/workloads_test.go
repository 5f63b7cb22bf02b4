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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func jobOf(name string, parallelism, completions int32, changes ...podChange) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To(parallelism), Completions: ptr.To(completions), Template: templateOf(name, changes...)},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

var _ = Describe("A workload", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("of parallel Jobs completes, several times as many pods as there is room for at once", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		l := keepLedger(ctx)
		jobs := []*batchv1.Job{
			jobOf("wide", 30, 30, cpu("1")),
			jobOf("deep", 5, 20, cpu("2")),
		}
		for _, name := range names("small", 5) {
			jobs = append(jobs, jobOf(name, 2, 2, cpu("500m")))
		}
		for _, job := range jobs {
			create(ctx, job)
		}
		for _, job := range jobs {
			Eventually(func(g Gomega) {
				g.Expect(read(ctx, job)).To(Succeed())
				g.Expect(job.Status.Conditions).To(ContainElement(And(HaveField("Type", batchv1.JobComplete), HaveField("Status", corev1.ConditionTrue))))
				g.Expect(job.Status).To(And(HaveField("Succeeded", *job.Spec.Completions), HaveField("Failed", BeZero())))
			}).WithContext(ctx).Should(Succeed())
		}
		l.expectRight(ctx)
	})

	It("of a StatefulSet starts in order, one pod after the other", func(ctx context.Context) {
		nodes(ctx, "n1", "n2", "n3")
		l := keepLedger(ctx)
		create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				Template: templateOf("db", apart("db")),
			},
		})
		Expect(expectRunning(ctx, "db", 3)).To(HaveEach(1), "on different nodes")
		inOrder := []string{"db-0", "db-1", "db-2"}
		l.catchUp(ctx)
		appeared, wereReady := l.order()
		Expect(appeared).To(Equal(inOrder))
		Expect(wereReady).To(Equal(inOrder))
	})

	It("that is larger than the cluster is told why, and goes on when nodes are added", func(ctx context.Context) {
		nodes(ctx, names("n", 3)...)
		create(ctx, replicaSetOf("web", 5, apart("web")))
		Expect(expectRunning(ctx, "web", 3)).To(HaveEach(1))
		waiting := And(HaveField("Spec.NodeName", BeEmpty()), unschedulable(Equal(
			"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. "+
				"no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.")))
		Eventually(func(g Gomega) {
			pods := podsOf(ctx, "web")
			g.Expect(pods).To(HaveLen(5))
			var found []corev1.Pod
			g.Expect(pods).To(ContainElement(waiting, &found))
			g.Expect(found).To(HaveLen(2))
		}).WithContext(ctx).Should(Succeed())

		nodes(ctx, "n4")
		Expect(expectRunning(ctx, "web", 4)).To(HaveKeyWithValue("n4", 1))
		nodes(ctx, "n5")
		Expect(expectRunning(ctx, "web", 5)).To(HaveKeyWithValue("n5", 1))
	})
})
