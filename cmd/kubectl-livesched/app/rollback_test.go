// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
)

// weightOf is the weight that a profile gives its first score plugin.
func weightOf(ctx context.Context, name string) int32 {
	GinkgoHelper()
	p := profile(name)
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
	return *p.Spec.Plugins.Score.Enabled[0].Weight
}

func parallelismOf(ctx context.Context, name string) int32 {
	GinkgoHelper()
	p := &v1alpha1.SchedulingPolicy{}
	Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
	return *p.Spec.Parallelism
}

// withPolicy is a spec that builds on a policy.
func withPolicy(name string) func(*v1alpha1.SchedulerProfileSpec) {
	return func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = name }
}

// twice makes a profile with two revisions, of the weights 2 and 3, the second of which runs.
func twice(ctx context.Context, name string, more ...func(*v1alpha1.SchedulerProfileSpec)) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	p := profile(name, append(more, weight("NodeAffinity", 2))...)
	create(ctx, p)
	record(ctx, p, 1)
	change(ctx, p, weight("NodeAffinity", 3))
	record(ctx, p, 2)
	return p
}

// changePolicy sets the parallelism of a policy.
func changePolicy(ctx context.Context, p *v1alpha1.SchedulingPolicy, parallelism int32) {
	GinkgoHelper()
	Eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		p.Spec.Parallelism = &parallelism
		return k8s.Update(ctx, p)
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("rollback", func() {
	It("goes back to the revision before the one that runs, and waits until it decides", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix("schedulerprofile/a rolled back to revision 1\nit decides: Revision "))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(p.Status.Active.Generation).To(Equal(p.Generation))
		Expect(p.ManagedFields).To(ContainElement(HaveField("Manager", "kubectl-livesched")))
	}, SpecTimeout(5*time.Minute))

	It("keeps the limit of the history, and says when there is nothing to do", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		change(ctx, p, func(spec *v1alpha1.SchedulerProfileSpec) { spec.RevisionHistoryLimit = ptr.To[int32](3) })
		Expect(kubectl(ctx, "rollback", "profile/a", "-n", kept, "--to-revision", "1").out).To(Equal("schedulerprofile/a rolled back to revision 1\n"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(p.Spec.RevisionHistoryLimit).To(HaveValue(BeEquivalentTo(3)))
		Expect(kubectl(ctx, "rollback", "profile/a", "-n", kept, "--to-revision", "1").out).To(Equal("schedulerprofile/a has the spec of revision 1 already\n"))
	}, SpecTimeout(5*time.Minute))

	It("changes nothing in a dry run", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		twice(ctx, "a", withPolicy("own"))
		changePolicy(ctx, policy("own", 0), 5)
		for flag, suffix := range map[string]string{"--dry-run": " (dry run)", "--dry-run=server": " (server dry run)"} {
			got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--wait", flag)
			Expect(got.code).To(BeZero(), got.errOut)
			Expect(got.out).To(Equal("schedulingpolicy/own restored to what it was in revision 1" + suffix + "\nschedulerprofile/a rolled back to revision 1" + suffix + "\n"))
			Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
			Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(5))
		}
	}, SpecTimeout(5*time.Minute))

	It("restores the policy that the profile was built on, where no other builds on it", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		twice(ctx, "a", withPolicy("own"))
		changePolicy(ctx, policy("own", 0), 5)
		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix("schedulingpolicy/own restored to what it was in revision 1\nschedulerprofile/a rolled back to revision 1\n"))
		Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("asks what to do about a policy that others build on", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("shared", 4))
		twice(ctx, "a", withPolicy("shared"))
		create(ctx, profile("b", withPolicy("shared")))
		changePolicy(ctx, policy("shared", 0), 5)

		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(And(ContainSubstring(`SchedulingPolicy "shared"`), ContainSubstring("build on it, too: b."), ContainSubstring("--policy=restore"), ContainSubstring("--policy=keep"), ContainSubstring("Nothing was changed")))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))

		got = kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--policy=keep")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(5))

		got = kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "2", "--policy=restore")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("creates a policy that is gone, and does not leave a profile without one", func(ctx context.Context) {
		startLivesched(ctx)
		own := policy("own", 4)
		create(ctx, own)
		p := twice(ctx, "a", withPolicy("own"))
		change(ctx, p, func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = "default" })
		Expect(k8s.Delete(ctx, own)).To(Succeed())

		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--policy=keep")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring(`SchedulingPolicy "own", which revision 1 was built on, does not exist`))

		got = kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix("schedulingpolicy/own created as it was in revision 1\n"))
		Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("says what to do where a policy has taken the place of the built-in defaults", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		create(ctx, policy("default", 5))
		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(And(ContainSubstring("revision 1 was built on the built-in defaults"), ContainSubstring("kubectl delete schedulingpolicy default"), ContainSubstring("--policy=keep")))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))

		By("taking a policy that has the defaults for the same")
		changePolicy(ctx, policy("default", 0), 16)
		got = kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(Equal("schedulerprofile/a rolled back to revision 1\n"))
		expectProgrammed(ctx, p)
	}, SpecTimeout(5*time.Minute))

	It("rolls back a policy, and names the profiles that change with it", func(ctx context.Context) {
		startLivesched(ctx)
		shared := policy("shared", 4)
		create(ctx, shared, profile("a", withPolicy("shared")), profile("b", withPolicy("shared")))
		recordPolicy(ctx, shared, 1)
		changePolicy(ctx, shared, 5)
		recordPolicy(ctx, shared, 2)
		got := kubectl(ctx, "rollback", "policy", "shared", "-n", kept, "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix("schedulingpolicy/shared rolled back to revision 1\nthe profiles that build on it change with it: a, b\nit decides: "))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("reports a spec that is not accepted any more", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		// A plugin that livesched was compiled with then, and is not any more.
		store(ctx, revisionOf(p, 3, weight("NoSuchPlugin", 1)))
		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "3", "--wait")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("it is not accepted (UnknownPlugin)"))
	}, SpecTimeout(5*time.Minute))

	It("says that livesched does not run", func(ctx context.Context) {
		p := profile("a", weight("NodeAffinity", 2))
		create(ctx, p)
		store(ctx, revisionOf(p, 1, weight("NodeAffinity", 3)))
		got := kubectl(ctx, "rollback", "profile", "a", "-n", kept, "--to-revision", "1", "--wait", "--timeout", "300ms")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("livesched has not looked at it: does it run?"))
	}, SpecTimeout(5*time.Minute))

	It("names what there is where a revision or an object does not exist", func(ctx context.Context) {
		p := profile("a")
		create(ctx, p)
		store(ctx, revisionOf(p, 4))
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"profile", "a", "--to-revision", "7"}, `SchedulerProfile "a" has no revision 7; it has 4`},
			{[]string{"profile", "a"}, `no revision of SchedulerProfile "a" runs that is kept: say --to-revision; it has 4`},
			{[]string{"profile", "nobody"}, `"nobody" not found`},
			{[]string{"pod", "a"}, `"pod" is no kind of livesched: must be profile or policy`},
			{[]string{"a"}, `name an object: profile NAME or policy NAME`},
			{[]string{"profile", "a", "--policy", "burn"}, `--policy: must be restore or keep, is "burn"`},
			{[]string{"profile", "a", "--dry-run=wet"}, `--dry-run: must be none, client or server, is "wet"`},
		} {
			got := kubectl(ctx, append([]string{"rollback", "-n", kept}, test.args...)...)
			Expect(got.code).To(Equal(2))
			Expect(got.errOut).To(ContainSubstring(test.want))
		}
	})
})

var _ = Describe("the revisions that livesched keeps", func() {
	It("are listed, compared and gone back to", func(ctx context.Context) {
		startLivesched(ctx, func(o *liveschedapp.Options) { o.RevisionNamespace = "livesched-system" })
		own := policy("own", 4)
		p := profile("a", withPolicy("own"), weight("NodeAffinity", 2))
		create(ctx, own, p)
		expectProgrammed(ctx, p)
		change(ctx, p, weight("NodeAffinity", 3))
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "history", "profile", "a")
			g.Expect(columns(got.out, "1")).To(HaveLen(7), got.out)
			g.Expect(columns(got.out, "2")).To(HaveExactElements("2", "*", "2", p.Status.Active.Revision, Not(BeEmpty()), "own", "(generation", "1)"))
		}).WithContext(ctx).Should(Succeed())

		got := kubectl(ctx, "diff", "a", "--from", "1")
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(ContainSubstring("-  - NodeAffinity (weight 2)\n+  - NodeAffinity (weight 3)\n"))

		got = kubectl(ctx, "rollback", "profile", "a", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))

		By("going forward again: the spec that is taken up again has a new number")
		Eventually(func(g Gomega) {
			g.Expect(columns(kubectl(ctx, "history", "profile", "a").out, "3")).To(ContainElement("*"))
		}).WithContext(ctx).Should(Succeed())
		got = kubectl(ctx, "rollback", "profile", "a", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(HavePrefix("schedulerprofile/a rolled back to revision 2\n"))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
	}, SpecTimeout(5*time.Minute))
})
