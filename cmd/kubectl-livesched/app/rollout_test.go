// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	"github.com/livesched/livesched/test/testcluster"
)

// inSteps rolls changes out to half of the owners, and then waits until it is promoted.
func inSteps(spec *v1alpha1.SchedulerProfileSpec) {
	spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutCanary, Canary: &v1alpha1.CanarySpec{
		ShadowDuration: &metav1.Duration{},
		Steps:          []v1alpha1.CanaryStep{{SetWeight: ptr.To[int32](50)}, {Pause: &v1alpha1.CanaryPause{}}},
	}}
}

var _ = Describe("rollout", func() {
	// rollOut changes a profile, and waits until the roll-out of the change waits. It returns the
	// revision.
	rollOut := func(ctx context.Context, p *v1alpha1.SchedulerProfile, value int32) (canary string) {
		GinkgoHelper()
		Expect(testcluster.Update(ctx, k8s, p,
			func(p *v1alpha1.SchedulerProfile) { weight("NodeAffinity", value)(&p.Spec) })).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
			g.Expect(p.Status.Rollout).To(HaveField("Phase", v1alpha1.RolloutPaused))
		}).WithContext(ctx).Should(Succeed())
		return p.Status.Rollout.CanaryRevision
	}
	// begin begins to roll out a change of the profile "a".
	begin := func(ctx context.Context) (p *v1alpha1.SchedulerProfile, canary string) {
		GinkgoHelper()
		startLivesched(ctx)
		p = profile("a", inSteps)
		create(ctx, p)
		expectProgrammed(ctx, p)
		return p, rollOut(ctx, p, 3)
	}
	// expect runs a command of the group, and expects that it prints this.
	expect := func(ctx context.Context, command, want string) {
		GinkgoHelper()
		Expect(kubectl(ctx, append([]string{"rollout"}, strings.Fields(command)...)...)).
			To(Equal(outcome{out: want + "\n"}), command)
	}
	refuses := func(ctx context.Context, command, want string) {
		GinkgoHelper()
		Expect(kubectl(ctx, append([]string{"rollout"}, strings.Fields(command)...)...)).
			To(Equal(outcome{code: 2, errOut: "error: " + want + "\n"}), command)
	}
	eventuallyShows := func(ctx context.Context, words ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "rollout", "status", "profile/a")
			g.Expect(got.code).To(BeZero(), got.errOut)
			for _, text := range words {
				g.Expect(got.out).To(ContainSubstring(text))
			}
		}).WithContext(ctx).Should(Succeed())
	}

	It("shows and directs a roll-out", func(ctx context.Context) {
		p, canary := begin(ctx)
		of := "schedulerprofile/a: the roll-out of revision " + canary
		stable := p.Status.Rollout.StableRevision
		eventuallyShows(ctx, "schedulerprofile/a: Paused: it waits until it is promoted\n",
			stable+"   stable   50 %     0 ", canary+"   canary   50 %     0 ",
			"✔ 50 % of owners\n● Pause until promoted, began ", "\n○ 100 % of owners: promoted\n")
		Expect(kubectl(ctx, "status").out).To(And(
			ContainSubstring("schedulerprofile/a rolls out revision "+canary+
				": Paused, stage Canary, step 2 of 2, 50 % of owners\n"),
			Not(ContainSubstring("Programmed is"))))
		Expect(kubectl(ctx, "rollout", "status", "a", "-o", "jsonpath={.profile} {.phase} {.steps[1].state}").out).
			To(Equal("a Paused Present"))
		Expect(kubectl(ctx, "doctor").out).
			To(MatchRegexp(`(?m)^ok +profiles +schedulerprofile/a is being rolled out: Revision ` + canary))

		By("pausing and resuming it")
		refuses(ctx, "resume a",
			"schedulerprofile/a: resume needs a roll-out that `rollout pause` has paused; `rollout promote` ends a step")
		refuses(ctx, "retry a", "schedulerprofile/a: retry needs a roll-out in the phase Degraded, not Paused")
		expect(ctx, "pause a", of+" is paused")
		eventuallyShows(ctx, "Paused: the user paused it\n")
		expect(ctx, "resume a", of+" is resumed")
		eventuallyShows(ctx, "Paused: it waits until it is promoted\n")

		By("aborting it")
		expect(ctx, "abort a", of+" is aborted")
		eventuallyShows(ctx, "schedulerprofile/a: Degraded: the user aborted it\n", stable+"   stable   100 % ")
		refuses(ctx, "pause a",
			"schedulerprofile/a: pause needs a roll-out in the phase Progressing or Paused, not Degraded")
		Expect(kubectl(ctx, "status").out).To(And(ContainSubstring("Programmed is False (RolloutAborted)"),
			ContainSubstring("schedulerprofile/a aborted the roll-out of revision "+canary)))
		got := kubectl(ctx, "rollout", "status", "a", "--watch")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(Equal("error: " + of + " was aborted: the user aborted it\n"))

		By("starting it again")
		expect(ctx, "retry a", of+" starts again")
		eventuallyShows(ctx, "Paused: it waits until it is promoted\n")
		expect(ctx, "promote a --full", of+" ends: it decides all pods")
		eventuallyShows(ctx, "schedulerprofile/a: Healthy: revision "+canary+" decides all pods\n")
		refuses(ctx, "abort a",
			"schedulerprofile/a: abort needs a roll-out in the phase Progressing or Paused, not Healthy")
	}, SpecTimeout(5*time.Minute))

	It("follows roll-outs until they have ended", func(ctx context.Context) {
		p, canary := begin(ctx)
		follow := func() (out, errOut *gbytes.Buffer, ended chan int) {
			out, errOut, ended = gbytes.NewBuffer(), gbytes.NewBuffer(), make(chan int)
			go func() {
				defer GinkgoRecover()
				args := []string{"--kubeconfig", cluster.Kubeconfig(), "rollout", "status", "a", "--watch"}
				streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut}
				ended <- app.Run(ctx, args, streams, nil)
			}()
			Eventually(out).WithContext(ctx).Should(gbytes.Say("Paused: it waits until it is promoted"))
			return out, errOut, ended
		}
		out, _, ended := follow()
		expect(ctx, "promote a", "schedulerprofile/a: the roll-out of revision "+canary+" continues")
		Eventually(out).WithContext(ctx).Should(gbytes.Say(`\n\d\d:\d\d:\d\d\nschedulerprofile/a: Healthy: revision ` +
			canary + ` decides all pods\n`))
		Eventually(ended).WithContext(ctx).Should(Receive(BeZero()))
		Expect(kubectl(ctx, "rollout", "status", "a", "-w").code).To(BeZero())

		By("replacing what is rolled out by the spec of the active revision")
		replaced := rollOut(ctx, p, 4)
		_, errOut, ended := follow()
		Expect(testcluster.Update(ctx, k8s, p,
			func(p *v1alpha1.SchedulerProfile) { weight("NodeAffinity", 3)(&p.Spec) })).To(Succeed())
		Eventually(ended).WithContext(ctx).Should(Receive(Equal(2)))
		Expect(errOut).To(gbytes.Say("error: schedulerprofile/a: revision " + replaced +
			" was not promoted: the spec is that of revision " + canary + " now\n"))
	}, SpecTimeout(5*time.Minute))

	It("names what it needs", func(ctx context.Context) {
		create(ctx, profile("binpack"), profile("new", inSteps))
		for _, command := range []string{"status", "promote", "abort", "pause", "resume", "retry"} {
			refuses(ctx, command+" bin-pack", `SchedulerProfile "bin-pack" not found: did you mean binpack?`)
			refuses(ctx, command+" binpack",
				"schedulerprofile/binpack has no roll-outs: spec.rollout.strategy must be Canary")
			refuses(ctx, command+" policy/shared",
				`"policy/shared": must name a profile, as NAME, profile/NAME or sprof/NAME`)
		}
		refuses(ctx, "promote new", "schedulerprofile/new: livesched has not processed generation 1 yet")
		expect(ctx, "status new", "schedulerprofile/new: no roll-out yet\n\n"+
			"schedulerprofile/new: livesched has not processed it: is livesched running?")
	}, SpecTimeout(time.Minute))
})
