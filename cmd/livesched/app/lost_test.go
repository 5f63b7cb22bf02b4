// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// The nodes have room for exactly these pods: one that is forgotten, or counted twice, shows.
const (
	lostPods    = 60
	podsPerLost = 20 // on each of three nodes
)

var _ = Describe("livesched after all replicas were killed", func() {
	It("binds every pod once: those that were being bound, and those that came meanwhile", func(ctx context.Context) {
		replica := func(more ...string) *command {
			return livesched(append([]string{"--kubeconfig=" + cluster.Kubeconfig(),
				"--leader-election-namespace=default"}, more...)...)
		}
		short := []string{"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=3s",
			"--leader-elect-retry-period=500ms"}
		before := []*command{replica(short...), replica(short...)}
		for _, r := range before {
			r.expectReady(ctx)
		}
		create(ctx, profile("mine"))
		for n := range lostPods / podsPerLost {
			create(ctx, objects.Node(fmt.Sprintf("n%d", n), fmt.Sprint(podsPerLost), "64Gi", nil))
		}
		bindings, err := cluster.WatchBindings(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bindings.Stop)
		var pods []*corev1.Pod
		createPods := func(upTo int) {
			for len(pods) < upTo {
				pods = append(pods, objects.Pod("default", fmt.Sprintf("p%d", len(pods)), "mine", "1", "100Mi"))
				create(ctx, pods[len(pods)-1])
			}
		}

		createPods(lostPods / 2)
		Eventually(bindings.Pods).WithContext(ctx).Should(BeNumerically(">", 0))
		for _, r := range before { // as a power failure would, at any moment of a binding
			r.signal(os.Kill)
			Eventually(r.ended).Should(BeClosed())
		}
		createPods(lostPods)
		Expect(k8s.Delete(ctx, pods[0], client.GracePeriodSeconds(0))).To(Succeed())
		pods[0] = objects.Pod("default", "instead", "mine", "1", "100Mi")
		create(ctx, pods[0])
		Expect(bindings.Pods()).To(BeNumerically("<", lostPods), "nobody schedules")

		replica().expectReady(ctx)
		replica().expectReady(ctx)
		on := map[string]int{}
		for _, pod := range pods {
			expectBound(ctx, pod)
			on[pod.Spec.NodeName]++
		}
		Expect(on).To(HaveEach(podsPerLost))
		Expect(bindings.Most()).To(Equal(1))
	})
})
