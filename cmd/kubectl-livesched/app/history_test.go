// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/history"
)

var _ = Describe("history", func() {
	It("lists the revisions of a profile and marks the active one", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		p := twice(ctx, "a", withPolicy("own"))
		got := kubectl(ctx, "history", "profile", "a", "--livesched-namespace", kept)
		Expect(got.code).To(BeZero(), got.errOut)
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		Expect(lines).To(HaveLen(3))
		Expect(strings.Fields(lines[0])).
			To(HaveExactElements("NUMBER", "REVISION", "ACTIVE", "SINCE", "BY", "CHANGE-CAUSE"))
		Expect(strings.Fields(lines[1])).To(HaveExactElements("1", Not(Equal(p.Status.Active.Revision)), "-", "-", "-"))
		Expect(strings.Fields(lines[2])).
			To(HaveExactElements("2", "*", p.Status.Active.Revision, Not(Equal("-")), "-", "-"))
		got = kubectl(ctx, "history", "a", "--livesched-namespace", kept, "-o", "wide")
		Expect(strings.Fields(strings.Split(got.out, "\n")[2])).To(HaveExactElements(
			"2", "*", p.Status.Active.Revision, Not(Equal("-")), "-", "2", Not(BeEmpty()), "own", "(generation",
			"1)", "-"))

		var views []struct {
			Number   int64
			Revision string
			Active   bool
		}
		Expect(yaml.Unmarshal(
			[]byte(kubectl(ctx, "history", "profile", "a", "--livesched-namespace", kept, "-o", "json").out), &views)).
			To(Succeed())
		Expect(views).To(HaveLen(2))
		Expect(views[0].Active).To(BeFalse())
		Expect(views[1].Active).To(BeTrue())
		Expect(views[1].Revision).To(Equal(p.Status.Active.Revision))
	}, SpecTimeout(5*time.Minute))

	It("shows a revision as manifests that can be applied", func(ctx context.Context) {
		startLivesched(ctx)
		create(ctx, policy("own", 4))
		twice(ctx, "a", withPolicy("own"))
		got := kubectl(ctx, "history", "profile", "a", "--livesched-namespace", kept, "--revision", "1")
		Expect(got.code).To(BeZero(), got.errOut)
		documents, err := manifests.Parse("out", []byte(got.out))
		Expect(err).NotTo(HaveOccurred())
		Expect(documents).To(HaveLen(2))
		Expect(documents[0].Text("kind")).To(Equal("SchedulingPolicy"))
		profiles := validate.Profiles(documents)
		Expect(profiles).To(HaveLen(1))
		Expect(profiles[0].Spec.Plugins.Score.Enabled[0].Weight).To(HaveValue(BeEquivalentTo(2)))
		Expect(got.out).NotTo(ContainSubstring("status"))
		Expect(kubectl(ctx, "history", "sprof/a", "--livesched-namespace", kept, "--revision",
			"a@"+revisionNamed(ctx, "a", 1)).out).To(Equal(got.out))
	}, SpecTimeout(5*time.Minute))

	It("reports that there are no revisions", func(ctx context.Context) {
		create(ctx, profile("a"))
		got := kubectl(ctx, "history", "sprof", "a", "--livesched-namespace", kept)
		Expect(got.out).To(HavePrefix(`SchedulerProfile "a" has no revisions in namespace kept`))
		Expect(kubectl(ctx, "history", "policy", "a", "--livesched-namespace", kept).code).To(Equal(2))
	})
})

var _ = Describe("diff", func() {
	It("compares resolved revisions", func(ctx context.Context) {
		startLivesched(ctx)
		p := twice(ctx, "a")
		got := kubectl(ctx, "diff", "a", "--from", "1", "--to", "2", "--livesched-namespace", kept)
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(And(
			MatchRegexp(`^--- schedulerprofile/a: revision \w+ \(number 1\)\n\+\+\+ schedulerprofile/a: revision \w+ `+
				`\(number 2\)\n`),
			ContainSubstring("-  - NodeAffinity (weight 2)\n+  - NodeAffinity (weight 3)\n")))
		Expect(strings.Count(got.out, "\n-")).To(Equal(1), got.out)

		By("comparing the active revision with itself")
		got = kubectl(ctx, "diff", "a", "--from", "2", "--livesched-namespace", kept)
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(BeEmpty())
		second := "revision " + p.Status.Active.Revision + " (number 2)"
		Expect(got.errOut).To(Equal("schedulerprofile/a: " + second + " and active " + second + " are the same\n"))

		By("comparing the active revision with the applied spec")
		Expect(kubectl(ctx, "diff", "a", "--livesched-namespace", kept).code).To(BeZero())
		weight("NoSuchPlugin", 1)(&p.Spec)
		Expect(k8s.Update(ctx, p)).To(Succeed())
		Eventually(func(g Gomega) {
			got = kubectl(ctx, "diff", "profile/a", "--livesched-namespace", kept)
			g.Expect(strings.Join(strings.Fields(got.errOut), " ")).
				To(HavePrefix(`schedulerprofile/a: applied (generation 3): Accepted is False (UnknownPlugin): `))
		}).WithContext(ctx).Should(Succeed())
		Expect(got.code).To(Equal(1))
		Expect(got.out).To(And(
			HavePrefix("--- schedulerprofile/a: active "+second+"\n+++ schedulerprofile/a: applied (generation 3)\n"),
			ContainSubstring(
				"-      - name: NodeAffinity\n-        weight: 3\n+      - name: NoSuchPlugin\n+        weight: 1\n")))

		By("printing it for scripts")
		var differences []struct {
			Differs bool
			Invalid []string
			After   struct{ Profile v1alpha1.SchedulerProfileSpec }
		}
		Expect(yaml.Unmarshal([]byte(kubectl(ctx, "diff", "a", "--livesched-namespace", kept, "-o", "json").out),
			&differences)).To(Succeed())
		Expect(differences).To(HaveLen(1))
		Expect(differences[0].Differs).To(BeTrue())
		Expect(differences[0].Invalid).To(HaveExactElements(ContainSubstring("NoSuchPlugin")))
		Expect(differences[0].After.Profile.Plugins.Score.Enabled[0].Name).To(Equal("NoSuchPlugin"))
	}, SpecTimeout(5*time.Minute))

	It("compares policies as they were written", func(ctx context.Context) {
		startLivesched(ctx)
		shared := policy("shared", 4)
		create(ctx, shared)
		recordPolicy(ctx, shared, 1)
		Expect(kubectl(ctx, "diff", "shared", "--livesched-namespace", kept).code).To(BeZero())
		changePolicy(ctx, shared, 5)
		got := kubectl(ctx, "diff", "spol", "shared", "--livesched-namespace", kept)
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(And(
			MatchRegexp(`^--- schedulingpolicy/shared: active revision \w+ \(number 1\)\n\+\+\+ `+
				`schedulingpolicy/shared: applied \(generation 2\)\n`),
			ContainSubstring("-  parallelism: 4\n+  parallelism: 5\n")))
	}, SpecTimeout(5*time.Minute))

	It("compares files with the active revisions of all profiles that they change", func(ctx context.Context) {
		startLivesched(ctx)
		a, b := profile("a"), profile("b", withPolicy("own"))
		create(ctx, policy("own", 4), a, b)
		expectProgrammed(ctx, a)
		expectProgrammed(ctx, b)

		same := file("apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: a}\n")
		got := kubectl(ctx, "diff", "-f", same)
		Expect(got.code).To(BeZero(), got.errOut)

		changed := file(`
apiVersion: livesched.io/v1alpha1
kind: SchedulingPolicy
metadata: {name: own}
spec: {parallelism: 5, algorithmSource: {provider: ClusterAutoscalerProvider}}
---
apiVersion: livesched.io/v1alpha1
kind: SchedulerProfile
metadata: {name: c}
`)
		got = kubectl(ctx, "diff", "-f", changed)
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(And(
			ContainSubstring("+++ schedulerprofile/b: in the files\n"),
			ContainSubstring("-parallelism: 4\n+parallelism: 5\n"),
			ContainSubstring("-      type: LeastAllocated\n+      type: MostAllocated\n"),
			ContainSubstring("--- schedulerprofile/c: does not exist\n"), ContainSubstring("+schedulerName: c\n")))
		Expect(got.out).NotTo(ContainSubstring("schedulerprofile/a"))

		var differences []struct {
			Profile string
			Differs bool
			After   struct{ Plugins map[string][]string }
		}
		Expect(yaml.Unmarshal([]byte(kubectl(ctx, "diff", "-f", changed, "-o", "json").out), &differences)).
			To(Succeed())
		Expect(differences).To(HaveLen(2))
		Expect(differences[0].After.Plugins["queueSort"]).To(HaveExactElements("PrioritySort"))
	}, SpecTimeout(5*time.Minute))

	It("lists the same plugins as status.active", func(ctx context.Context) {
		startLivesched(ctx)
		p := profile("a", func(spec *v1alpha1.SchedulerProfileSpec) {
			three := int32(3)
			spec.Plugins = &v1alpha1.Plugins{
				Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "ImageLocality", Weight: &three}},
					Disabled: []v1alpha1.Plugin{{Name: "NodeAffinity"}}},
				Filter:     v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "NodeLabel"}}},
				MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.Plugin{{Name: "VolumeZone"}}},
			}
		})
		create(ctx, p)
		expectProgrammed(ctx, p)
		var differences []struct {
			After struct{ Plugins map[string][]string }
		}
		Expect(yaml.Unmarshal([]byte(kubectl(ctx, "diff", "a", "-o", "json").out), &differences)).To(Succeed())
		described, active := differences[0].After.Plugins, p.Status.Active.Plugins
		for point, want := range map[string][]string{
			"preEnqueue": active.PreEnqueue, "queueSort": active.QueueSort, "preFilter": active.PreFilter,
			"filter":     active.Filter,
			"postFilter": active.PostFilter, "preScore": active.PreScore, "reserve": active.Reserve,
			"permit":  active.Permit,
			"preBind": active.PreBind, "bind": active.Bind, "postBind": active.PostBind, "score": scores(active.Score),
		} {
			Expect(described[point]).To(Equal(want), point)
		}
	}, SpecTimeout(5*time.Minute))
})

// revisionNamed returns the name of the revision with a number.
func revisionNamed(ctx context.Context, profile string, number int64) string {
	GinkgoHelper()
	all, err := history.List(ctx, k8s, kept, history.KindProfile, profile)
	Expect(err).NotTo(HaveOccurred())
	at := slices.IndexFunc(all, func(r history.Revision) bool { return r.Number == number })
	Expect(at).NotTo(Equal(-1))
	return all[at].Hash
}

func scores(plugins []v1alpha1.WeightedPlugin) (described []string) {
	for _, plugin := range plugins {
		described = append(described, fmt.Sprintf("%s (weight %d)", plugin.Name, plugin.Weight))
	}
	return described
}
