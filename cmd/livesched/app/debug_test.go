// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("Debugging", func() {
	It("includes a report on SIGUSR2, on the leader and on other replicas", func(ctx context.Context) {
		bound, gated := objects.Pod("default", "bound", "mine", "1", "1Gi"),
			objects.Pod("default", "gated", "mine", "1", "1Gi")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil), bound, gated)
		election := []string{"--kubeconfig=" + cluster.Kubeconfig(), "--leader-election-namespace=default"}
		leader := livesched(election...)
		expectBound(ctx, bound)
		follower := livesched(election...)
		follower.expectReady(ctx)
		leader.expectReady(ctx)

		for who, c := range map[string]*command{`"leading":true`: leader, `"leading":false`: follower} {
			// The process must survive several signals.
			for n := range 3 {
				Expect(c.cmd.Process.Signal(syscall.SIGUSR2)).To(Succeed())
				Eventually(func() int {
					return strings.Count(c.output.String(), "Cache, queue and devices match the API server")
				}).
					Should(BeNumerically(">", n), c.output.String)
			}
			Expect(c.output.String()).To(And(
				MatchRegexp(`"logger":"debugger","msg":"Dump",`+who+`,"nodes":1,"pods":1,"assumed":0,.*"gated":1`),
				MatchRegexp(`"logger":"debugger","msg":"Profile","schedulerName":"mine","revision":"\w+"`),
				ContainSubstring(`"logger":"debugger","msg":"Node","node":"n","known":true,"requested":"cpu=1 `+
					`memory=1Gi","allocatable":"cpu=8 memory=16Gi","pods":1,"room":110`),
				ContainSubstring(`"node":"n","has":"default/bound"`),
				MatchRegexp(`"msg":"Queued pod",.*"name":"gated".*"place":"Gated".*"gatingPlugin":"SchedulingGates"`),
			))
		}
	})

	It("includes a report on SIGUSR2 with every node of a large cluster", func(ctx context.Context) {
		const nodes = 1000
		creating, creatingCtx := errgroup.WithContext(ctx)
		creating.SetLimit(8)
		for n := range nodes {
			creating.Go(func() error {
				return k8s.Create(creatingCtx, objects.Node(fmt.Sprint("n-", n), "8", "16Gi", nil))
			})
		}
		Expect(creating.Wait()).To(Succeed())
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
		c.expectReady(ctx)
		Expect(c.cmd.Process.Signal(syscall.SIGUSR2)).To(Succeed())
		Eventually(c.output.String).Should(ContainSubstring("Cache, queue and devices match the API server"))
		Expect(strings.Count(c.output.String(), `"logger":"debugger","msg":"Node"`)).To(Equal(nodes))
	})

	It("includes the messages of Kubernetes' libraries with -v", func(ctx context.Context) {
		const message = `"msg":"Listing and watching"`
		quiet := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false")
		verbose := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "-v=3")
		quiet.expectReady(ctx)
		verbose.expectReady(ctx)
		Eventually(verbose.output.String).Should(ContainSubstring(message))
		Expect(quiet.output.String()).NotTo(ContainSubstring(message))
	})

	It("includes a report on SIGUSR2 before the process is ready, and the process continues",
		func(ctx context.Context) {
			c := waitsForFirstResponse()
			Expect(c.cmd.Process.Signal(syscall.SIGUSR2)).To(Succeed())
			Consistently(c.ended).ShouldNot(BeClosed())
		})

	It("includes pprof next to the metrics with --profiling", func(ctx context.Context) {
		metrics := freeAddress()
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address="+metrics,
			"--profiling", "--contention-profiling")
		c.expectReady(ctx)
		base := "http://" + metrics + "/debug/pprof/"
		Expect(get(ctx, base)).
			To(And(HaveField("Code", http.StatusOK), HaveField("Body", ContainSubstring("goroutine?debug=1"))))
		// livesched is ready a moment before it leads.
		Eventually(get).WithArguments(ctx, base+"goroutine?debug=2").
			Should(HaveField("Body", ContainSubstring("loop.(*Loop).Run")))
		Expect(get(ctx, base+"heap?debug=1")).To(HaveField("Body", ContainSubstring("heap profile")))
		Eventually(get).WithArguments(ctx, base+"block?debug=1").
			Should(HaveField("Body", MatchRegexp(`--- contention:\ncycles/second=\d+\n\d+ \d+ @`)),
				"contention is recorded")
		Expect(get(ctx, base+"cmdline")).To(HaveField("Body", ContainSubstring("--profiling")))
		Expect(get(ctx, base+"profile?seconds=1")).To(HaveField("Code", http.StatusOK))
		Expect(get(ctx, base+"trace?seconds=0.1")).To(HaveField("Code", http.StatusOK))
	})

	It("does not include pprof by default", func(ctx context.Context) {
		metrics := freeAddress()
		c := livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address="+metrics)
		c.expectReady(ctx)
		Expect(get(ctx, "http://"+metrics+"/metrics")).To(HaveField("Code", http.StatusOK))
		Expect(get(ctx, "http://"+metrics+"/debug/pprof/")).To(HaveField("Code", http.StatusNotFound))
	})
})
