// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
)

// expectSimulations expects the answers of simulate and capacity to an administrator. In the
// cluster are three nodes, of which two are of the pool web, and the pending pod default/large.
func expectSimulations(ctx context.Context, large *corev1.Pod) {
	GinkgoHelper()
	fails := func(args ...string) string {
		got := kubectl(ctx, args...)
		Expect(got.code).To(Equal(2), got.out+got.errOut)
		return got.errOut
	}
	By("refusing what is mistyped, in terms of the flags")
	Expect(fails("simulate", "--add-nodes", "nosuch=1")).
		To(HavePrefix(`error: --add-nodes: "nosuch": no node and no pool has this name; pools: web`))
	Expect(fails("simulate", "--add-nodes", "wep=1")).To(ContainSubstring("did you mean web"))
	Expect(fails("simulate", "--remove-nodes", "web-9")).
		To(HavePrefix(`error: --remove-nodes: "web-9": no node has this name: did you mean web-1 or web-2?`))
	Expect(fails("simulate", "--scheduler-name", "min")).
		To(Equal("error: --scheduler-name: \"min\": no SchedulerProfile has this scheduler name: " +
			"did you mean mine? The scheduler names are mine\n"))
	Expect(fails("simulate", "--add-nodes", "web=1", "-l", "a=b=c")).To(HavePrefix("error: --selector: "))
	Expect(fails("simulate", "pod/large", "--add-nodes", "web=1", "--fail-on", "cpus.mean>1")).To(
		HavePrefix(`error: --fail-on "cpus.mean>1": unknown resource "cpus": did you mean cpu? The resources of the ` +
			`nodes are cpu, memory`))
	Expect(fails("simulate", "--add-nodes", "web=1", "-n", "nosuch", "--fail-on", "unplaced>0")).
		To(HavePrefix("error: --fail-on: no pod was decided"))
	Expect(fails("simulate", "pod/nobody", "--add-nodes", "web=1")).To(Equal("error: pods \"nobody\" not found\n"))
	Expect(fails("simulate", "node/web-1", "--add-nodes", "web=1")).
		To(HavePrefix("error: node/web-1 is in no namespace"))
	Expect(fails("capacity", "nosuch/a")).To(HavePrefix(`error: the API server has no type "nosuch"`))
	Expect(fails("capacity", "pod/large", "--limit", "0")).To(Equal("error: --limit: must be from 1 to 5000, not 0\n"))
	Expect(fails("capacity", "pod/large", "--scheduler-name", "min")).To(And(
		HavePrefix(`error: the pod's scheduler name: "min": no SchedulerProfile`),
		ContainSubstring("--scheduler-name counts the pod with another one")))

	By("simulating the pods of an object")
	Expect(kubectl(ctx, "simulate", "--add-nodes", "web=1", "-n", "nosuch").out).
		To(ContainSubstring("There are no bound pods of livesched's profiles in namespace nosuch."))
	var simulation v1alpha1.Simulation
	got := kubectl(ctx, "simulate", "pod/large", "-n", "default", "--add-nodes", "livesched-node=1", "-o", "yaml")
	Expect(yaml.Unmarshal([]byte(got.out), &simulation)).To(Succeed(), got.errOut)
	Expect(simulation.Spec.Pods).
		To(Equal(v1alpha1.PodSelection{Type: v1alpha1.PodsAll, Limit: 5000, Names: []string{"large"}}))
	Expect(simulation.Status.Pods).To(Equal(int32(1)))
	Expect(simulation.Status.Current.Unplaced).To(BeZero())
	got = kubectl(ctx, "simulate", "pod", "large", "--add-nodes", "web=1")
	Expect(columns(got.out, "ACTUAL")).To(Equal([]string{"ACTUAL", "NEW", "NODES"}), got.errOut)
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"namespace": "default",
			"name": "night"},
		"spec": map[string]any{"schedule": "0 0 1 1 *",
			"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"schedulerName": "default-scheduler", "restartPolicy": "Never",
				"containers": []any{
					map[string]any{"name": "c", "image": "i",
						"resources": map[string]any{"limits": map[string]any{"cpu": "1"}}}},
			}}}}},
	}}
	createForSpec(ctx, owner)
	Expect(fails("simulate", "cronjob/night", "--add-nodes", "web=1")).
		To(Equal("error: cronjob/night in namespace default has no pods\n"))
	owned := objects.Pod("default", "owned", "default-scheduler", "1", "1Gi")
	owned.OwnerReferences = append(owned.OwnerReferences, *metav1.NewControllerRef(owner, owner.GroupVersionKind()))
	createForSpec(ctx, owned)
	Eventually(func() string {
		got = kubectl(ctx, "simulate", "cronjob/night", "--scheduler-name", "mine")
		return got.out
	}).WithContext(ctx).Should(HavePrefix("Pods decided again: 1, on 3 nodes.\n"), func() string { return got.errOut })
	Expect(columns(got.out, "ACTUAL")).To(Equal([]string{"ACTUAL", "NEW", "SCHEDULER"}))
	Expect(columns(got.out, "unplaced")).To(Equal([]string{"unplaced", "1", "0"}))

	By("counting pods like those of an object")
	Expect(fails("capacity", "cronjob/night")).To(HavePrefix(`error: the pod's scheduler name: "default-scheduler": ` +
		`no SchedulerProfile has this scheduler name; the scheduler names are mine; --scheduler-name`))
	Expect(kubectl(ctx, "capacity", "cronjob/night", "--scheduler-name", "mine").out).
		To(HavePrefix("Room for 3 more pods, on 1 of 3 nodes; profile mine@"))
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(large), large)).To(Succeed())
	got = kubectl(ctx, "capacity", "pod/large")
	Expect(got.out).To(And(HavePrefix("Room for 0 more pods"), ContainSubstring("train")), got.errOut)
	GinkgoWriter.Println(got.out)
	Expect(k8s.Delete(ctx, owned, client.GracePeriodSeconds(0))).To(Succeed())
	Expect(k8s.Delete(ctx, owner)).To(Succeed())
}
