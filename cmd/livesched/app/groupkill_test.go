// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// livesched is killed while it binds the pods of a group. The next livesched finds some of them
// bound, and binds the others, although they are fewer than the group needs.
var _ = Describe("A livesched that is killed while it binds the pods of a group", func() {
	const pods = 20

	It("leaves no group with fewer nodes than it needs", func(ctx context.Context) {
		kills := 3
		if text := os.Getenv(killsVariable); text != "" {
			var err error
			kills, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(cluster.InstallPodGroups(ctx)).To(Succeed())
		kubeconfig, err := cluster.KubeconfigAs("killed", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		create(ctx, profile("mine"))
		for i := range 4 {
			create(ctx, objects.Node(fmt.Sprint("n", i), strconv.Itoa(pods/4), "64Gi", nil))
		}
		random := rand.New(rand.NewSource(GinkgoRandomSeed()))
		partial := 0
		for round := range kills {
			first := livesched("--kubeconfig="+kubeconfig, "--leader-elect=false")
			first.expectReady(ctx)
			group := objects.PodGroup(fmt.Sprint("g", round), pods)
			Expect(k8s.Create(ctx, group)).To(Succeed())
			for i := range pods {
				createMember(ctx, group.GetName(), i)
			}
			<-time.After(time.Duration(random.Intn(30)) * time.Millisecond) // about the time that the bindings take
			Expect(first.cmd.Process.Kill()).To(Succeed())
			Eventually(first.ended).Should(BeClosed())
			if bound := boundOf(ctx, group.GetName()); bound > 0 && bound < pods {
				partial++
			}
			next := livesched("--kubeconfig="+kubeconfig, "--leader-elect=false")
			Eventually(boundOf).WithArguments(ctx, group.GetName()).WithTimeout(time.Minute).
				Should(Equal(pods), next.output.String)
			Expect(next.cmd.Process.Kill()).To(Succeed())
			Eventually(next.ended).Should(BeClosed())
			Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).
				To(Succeed())
			Expect(k8s.Delete(ctx, group)).To(Succeed())
		}
		AddReportEntry(fmt.Sprintf("%d kills, %d of them between the first binding and the last", kills, partial))
	}, NodeTimeout(20*time.Minute))
})

// createMember creates a pod of a group, which takes a CPU.
func createMember(ctx context.Context, group string, number int) {
	GinkgoHelper()
	pod := objects.Pod("default", fmt.Sprintf("%s-%d", group, number), "mine", "1", "1Mi")
	objects.MemberOf(group)(pod)
	Expect(k8s.Create(ctx, pod)).To(Succeed())
}

// boundOf returns how many pods of a group are bound.
func boundOf(ctx context.Context, group string) (bound int) {
	GinkgoHelper()
	var list corev1.PodList
	Expect(k8s.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{podgroup.Label: group})).
		To(Succeed())
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}
