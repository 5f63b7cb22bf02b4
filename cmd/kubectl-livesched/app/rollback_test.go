// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
)

// weightOf returns the weight that a profile gives its first score plugin.
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

// withPolicy makes a spec build on a policy.
func withPolicy(name string) func(*v1alpha1.SchedulerProfileSpec) {
	return func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = name }
}

// twice creates a profile with two revisions, with the weights 2 and 3; the second one is active.
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
	It("restores the revision before the active one, and waits until it is programmed", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).
			To(MatchRegexp(`^schedulerprofile/a rolled back to revision \w+ \(number 1\)\nprogrammed: Revision `))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(p.Status.Active.Generation).To(Equal(p.Generation))
		Expect(p.ManagedFields).To(ContainElement(HaveField("Manager", "kubectl-livesched")))
	}, SpecTimeout(5*time.Minute))

	It("keeps the history limit, and reports if there is nothing to do", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		change(ctx, p, func(spec *v1alpha1.SchedulerProfileSpec) { spec.RevisionHistoryLimit = ptr.To[int32](3) })
		Expect(kubectl(ctx, "rollback", "profile/a", "--livesched-namespace", kept, "--to-revision", "1").out).
			To(MatchRegexp(`^schedulerprofile/a rolled back to revision \w+ \(number 1\)\n$`))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(p.Spec.RevisionHistoryLimit).To(HaveValue(BeEquivalentTo(3)))
		Expect(kubectl(ctx, "rollback", "profile/a", "--livesched-namespace", kept, "--to-revision", "1").out).
			To(MatchRegexp(`^schedulerprofile/a already has the spec of revision \w+ \(number 1\)\n$`))
	}, SpecTimeout(5*time.Minute))

	It("changes nothing in a dry run", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		twice(ctx, "a", withPolicy("own"))
		changePolicy(ctx, policy("own", 0), 5)
		for flag, suffix := range map[string]string{"--dry-run": " (dry run)",
			"--dry-run=server": " (server dry run)"} {
			got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1",
				"--wait", flag)
			Expect(got.code).To(BeZero(), got.errOut)
			Expect(got.out).To(And(
				MatchRegexp(`(?m)^schedulingpolicy/own restored as it was in revision \w+ \(number 1\)`+
					regexp.QuoteMeta(suffix)+`$`),
				MatchRegexp(`(?m)^schedulerprofile/a rolled back to revision \w+ \(number 1\)`+
					regexp.QuoteMeta(suffix)+`$`),
				HavePrefix(
					"--- schedulingpolicy/own: applied (generation 2)\n+++ schedulingpolicy/own: after the rollback\n"),
				ContainSubstring("\n-  parallelism: 5\n+  parallelism: 4\n"),
				ContainSubstring("\n--- schedulerprofile/a: active"),
				ContainSubstring("\n+++ schedulerprofile/a: after the rollback\n"),
				ContainSubstring("\n-  - NodeAffinity (weight 3)\n+  - NodeAffinity (weight 2)\n")))

			got = kubectl(ctx, "rollback", "a", "--livesched-namespace", kept, "--to-revision", "1", flag, "-o", "name")
			Expect(got.out).To(Equal("schedulingpolicy.livesched.io/own\nschedulerprofile.livesched.io/a\n"),
				got.errOut)
			var list struct {
				Kind  string
				Items []unstructured.Unstructured
			}
			Expect(yaml.Unmarshal(
				[]byte(kubectl(ctx, "rollback", "a", "--livesched-namespace", kept, "--to-revision", "1", flag, "-o",
					"yaml").out), &list)).To(Succeed())
			Expect(list.Items).To(HaveLen(2))
			Expect(list.Items[1].GetKind()).To(Equal("SchedulerProfile"))
			scores, _, _ := unstructured.NestedSlice(list.Items[1].Object, "spec", "plugins", "score", "enabled")
			Expect(scores).To(HaveExactElements(HaveKeyWithValue("weight", BeEquivalentTo(2))))
			Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
			Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(5))
		}
	}, SpecTimeout(5*time.Minute))

	It("restores the policy of the revision if no other profile builds on it", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		twice(ctx, "a", withPolicy("own"))
		changePolicy(ctx, policy("own", 0), 5)
		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(MatchRegexp(`^schedulingpolicy/own restored as it was in revision \w+ \(number ` +
			`1\)\nschedulerprofile/a rolled back to revision \w+ \(number 1\)\n`))
		Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("requires --policy if other profiles build on the policy", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("shared", 4))
		twice(ctx, "a", withPolicy("shared"))
		create(ctx, profile("b", withPolicy("shared")))
		changePolicy(ctx, policy("shared", 0), 5)

		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(And(ContainSubstring(`SchedulingPolicy "shared"`),
			ContainSubstring("other profiles build on it: b."), ContainSubstring("--policy=restore"),
			ContainSubstring("--policy=keep"), ContainSubstring("Nothing was changed")))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))

		got = kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1",
			"--policy=keep")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(5))

		got = kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "2",
			"--policy=restore")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("creates a deleted policy, and does not leave a profile without one", func(ctx context.Context) {
		startLivesched(ctx)
		own := policy("own", 4)
		create(ctx, own)
		p := twice(ctx, "a", withPolicy("own"))
		change(ctx, p, func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = "default" })
		Expect(k8s.Delete(ctx, own)).To(Succeed())

		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1",
			"--policy=keep")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(
			MatchRegexp(`SchedulingPolicy "own", which revision \w+ \(number 1\) was built on, does not exist`))

		got = kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(MatchRegexp(`^schedulingpolicy/own created as it was in revision \w+ \(number 1\)\n`))
		Expect(parallelismOf(ctx, "own")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("explains what to do if a policy has replaced the built-in defaults", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		create(ctx, policy("default", 5))
		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(And(ContainSubstring("(number 1) was built on the built-in defaults"),
			ContainSubstring("kubectl delete schedulingpolicy default"), ContainSubstring("--policy=keep")))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))

		By("treating a policy with default values like the built-in defaults")
		changePolicy(ctx, policy("default", 0), 16)
		got = kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(MatchRegexp(`^schedulerprofile/a rolled back to revision \w+ \(number 1\)\n$`))
		expectProgrammed(ctx, p)
	}, SpecTimeout(5*time.Minute))

	It("rolls back a policy, and names the profiles that this changes", func(ctx context.Context) {
		startLivesched(ctx)
		shared := policy("shared", 4)
		create(ctx, shared, profile("a", withPolicy("shared")), profile("b", withPolicy("shared")))
		recordPolicy(ctx, shared, 1)
		changePolicy(ctx, shared, 5)
		recordPolicy(ctx, shared, 2)
		got := kubectl(ctx, "rollback", "policy", "shared", "--livesched-namespace", kept, "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(MatchRegexp(`^schedulingpolicy/shared rolled back to revision \w+ \(number 1\)\nthis also ` +
			`changes the profiles that build on it: a, b\nprogrammed: `))
		Expect(parallelismOf(ctx, "shared")).To(BeEquivalentTo(4))
	}, SpecTimeout(5*time.Minute))

	It("reports a spec that livesched no longer accepts", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		// A plugin that livesched was built with when the revision was active, and no longer is.
		store(ctx, revisionOf(p, 3, weight("NoSuchPlugin", 1)))
		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "3", "--wait")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("not accepted (UnknownPlugin)"))
	}, SpecTimeout(5*time.Minute))

	It("reports that livesched is not running", func(ctx context.Context) {
		p := profile("a", weight("NodeAffinity", 2))
		create(ctx, p)
		store(ctx, revisionOf(p, 1, weight("NodeAffinity", 3)))
		got := kubectl(ctx, "rollback", "profile", "a", "--livesched-namespace", kept, "--to-revision", "1", "--wait",
			"--timeout", "300ms")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("livesched has not processed it: is livesched running?"))
	}, SpecTimeout(5*time.Minute))

	It("explains which objects and revisions exist", func(ctx context.Context) {
		p := profile("a")
		create(ctx, p, profile("binpack"), profile("both"), policy("both", 4))
		store(ctx, revisionOf(p, 4))
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"profile", "a", "--to-revision", "7"},
				`SchedulerProfile "a" has no revision 7; stored are the numbers 4`},
			{[]string{"profile", "a"}, `the active revision of SchedulerProfile "a" is not stored: specify ` +
				`--to-revision; stored are the numbers 4`},
			{[]string{"profile", "nobody"}, `SchedulerProfile "nobody" not found`},
			{[]string{"binpak"}, `SchedulerProfile or SchedulingPolicy "binpak" not found: did you mean binpack?`},
			{[]string{"both"},
				`"both" is a SchedulerProfile and a SchedulingPolicy: specify profile/both or policy/both`},
			{[]string{"pod", "a"}, `unknown kind "pod": must be profile (sprof) or policy (spol)`},
			{[]string{"profile"}, `specify the name of the profile: profile/NAME`},
			{[]string{"profile", "a", "--policy", "burn"}, `--policy: must be restore or keep, not "burn"`},
			{[]string{"profile", "a", "--dry-run=wet"}, `--dry-run: must be none, client or server, not "wet"`},
		} {
			got := kubectl(ctx, append([]string{"rollback", "--livesched-namespace", kept}, test.args...)...)
			Expect(got.code).To(Equal(2))
			Expect(got.errOut).To(ContainSubstring(test.want))
		}
	})
})

var _ = Describe("the revisions that livesched stores", func() {
	It("can be listed, compared and restored", func(ctx context.Context) {
		startLivesched(ctx, func(o *liveschedapp.Options) { o.RevisionNamespace = "livesched-system" })
		own := policy("own", 4)
		p := profile("a", withPolicy("own"), weight("NodeAffinity", 2))
		p.Annotations = map[string]string{"kubernetes.io/change-cause": "first weights"}
		create(ctx, own, p)
		expectProgrammed(ctx, p)
		change(ctx, p, weight("NodeAffinity", 3))
		Eventually(func(g Gomega) {
			got := kubectl(ctx, "history", "profile", "a")
			g.Expect(columns(got.out, "1")).
				To(HaveExactElements("1", Not(BeEmpty()), Not(Equal("-")), Not(Equal("-")), "first", "weights"),
					got.out)
			g.Expect(columns(got.out, "2")).
				To(HaveExactElements("2", "*", p.Status.Active.Revision, Not(Equal("-")), Not(Equal("-")), "first",
					"weights"))
		}).WithContext(ctx).Should(Succeed())

		got := kubectl(ctx, "diff", "a", "--from", "1")
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(ContainSubstring("-  - NodeAffinity (weight 2)\n+  - NodeAffinity (weight 3)\n"))

		got = kubectl(ctx, "rollback", "profile", "a", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(2))

		By("rolling back the rollback: the restored spec has a new number")
		Eventually(func(g Gomega) {
			g.Expect(columns(kubectl(ctx, "history", "profile", "a", "-o", "wide").out, "3")).
				To(ContainElements("*", "kubectl-livesched", "first"))
		}).WithContext(ctx).Should(Succeed())
		got = kubectl(ctx, "rollback", "profile", "a", "--wait")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(MatchRegexp(`^schedulerprofile/a rolled back to revision \w+ \(number 2\)\n`))
		Expect(weightOf(ctx, "a")).To(BeEquivalentTo(3))
	}, SpecTimeout(5*time.Minute))
})
