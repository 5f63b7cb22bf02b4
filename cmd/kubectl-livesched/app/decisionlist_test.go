// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
)

// expectDecisions expects the decisions about a pod that is on one of the nodes web-1 and web-2,
// and about a pod that is pending. The user may not list nodes.
func expectDecisions(ctx context.Context, user *corev1.ServiceAccount, bound, pending *corev1.Pod) {
	GinkgoHelper()
	got := kubectl(ctx, "decisions", "-n", "default")
	GinkgoWriter.Println(got.out)
	Expect(got.out).
		To(MatchRegexp(`^AGE +POD +RESULT +FITS +NODE OR REASON\n(?s:.*)\S+ +web +(Bound|Binding) +2/3 +web-\d\n`),
			got.errOut)
	Expect(got.out).To(MatchRegexp(`\S+ +large +Unschedulable( x\d+)? +0/\d +\d.* Insufficient cpu`))
	Expect(kubectlAs(ctx, user, "decisions", "-A").errOut).
		To(ContainSubstring(`cannot list resource "decisions" in API group "livesched.io" at the cluster scope`))
	var decisions v1alpha1.DecisionList
	Expect(yaml.Unmarshal([]byte(kubectl(ctx, "decisions", "-A", "--limit", "10000", "-o", "yaml").out), &decisions)).
		To(Succeed())
	Expect(decisions.Items).To(ContainElement(And(
		HaveField("Namespace", "default"), HaveField("PodUID", pending.UID),
		HaveField("Message", MatchRegexp(`^0/\d nodes are available: `)),
	)))
	Expect(decisions.Latest).To(BeNumerically("<=", decisions.Items[0].Number)) // a decision may be made in between

	By("selecting decisions")
	Expect(kubectl(ctx, "decisions", "pod/large", "-o", "wide").out).
		To(And(ContainSubstring("REASON"), ContainSubstring("preemption: "), Not(ContainSubstring("web"))))
	Expect(kubectl(ctx, "decisions", "podgroup", "nosuch").out).
		To(HavePrefix("There are no decisions about podgroup/nosuch in namespace default since"))
	Expect(kubectl(ctx, "decisions", "--result", "unschedulable", "--profile", "mine").out).
		To(And(ContainSubstring("large"), Not(ContainSubstring("web"))))
	Expect(kubectl(ctx, "decisions", "--node", "web-3").out).
		To(HavePrefix("There are no decisions in namespace default with --node web-3 since"))
	Expect(kubectl(ctx, "decisions", "greedy")).
		To(Equal(outcome{code: 2, errOut: "error: \"greedy\" has no type: use pod/greedy or podgroup/greedy\n"}))
	Expect(kubectl(ctx, "decisions", "--limit", "0").errOut).
		To(HavePrefix("error: --limit: must be from 1 to 10000, not 0"))

	By("hiding the names of nodes from those who may not see them")
	got = kubectlAs(ctx, user, "decisions", "pod/web", "-n", "default")
	Expect(got.out).To(MatchRegexp(`web +(Bound|Binding) +2/3 +\(hidden\)\n`+nodesAreHidden), got.errOut)
	Expect(kubectlAs(ctx, user, "decisions", "--node", "web-1", "-n", "default").errOut).
		To(ContainSubstring("you may not list nodes"))

	By("naming pods that are gone, and following decisions")
	watching, stop := context.WithCancel(ctx)
	defer stop()
	out := gbytes.NewBuffer()
	ended := make(chan int)
	go func() {
		defer close(ended)
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: GinkgoWriter}
		ended <- app.Run(watching,
			[]string{"--kubeconfig", cluster.Kubeconfig(), "decisions", "-w", "--result", "Bound"}, streams, nil)
	}()
	Eventually(out).WithContext(ctx).Should(gbytes.Say(`web +Bound`))
	Expect(k8s.Delete(ctx, bound)).To(Succeed())
	second := bound.DeepCopy()
	second.Name, second.UID, second.ResourceVersion, second.Spec.NodeName = "web-again", "", "", ""
	create(ctx, second)
	Eventually(out).WithContext(ctx).Should(gbytes.Say(`web-again +Bound +web-\d\n`))
	stop()
	Eventually(ended).WithContext(ctx).Should(Receive(BeZero()))
	Expect(out.Contents()).NotTo(ContainSubstring("large"))
	Expect(kubectl(ctx, "decisions", "pod/web").out).To(MatchRegexp(`web +Bound +2/3 +web-\d\n`))
}
