// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
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
		Expect(strings.Fields(lines[0])).To(HaveExactElements("REVISION", "GENERATION", "HASH", "AGE", "POLICY"))
		Expect(strings.Fields(lines[1])).To(HaveExactElements("1", "1", Not(Equal(p.Status.Active.Revision)), Not(BeEmpty()), "own", "(generation", "1)"))
		Expect(strings.Fields(lines[2])).To(HaveExactElements("2", "*", "2", p.Status.Active.Revision, Not(BeEmpty()), "own", "(generation", "1)"))

		var views []struct {
			Revision int64
			Running  bool
		}
		Expect(yaml.Unmarshal([]byte(kubectl(ctx, "history", "profile", "a", "--livesched-namespace", kept, "-o", "json").out), &views)).To(Succeed())
		Expect(views).To(HaveLen(2))
		Expect(views[0].Running).To(BeFalse())
		Expect(views[1].Running).To(BeTrue())
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
			HavePrefix("--- schedulerprofile/a: revision 1\n+++ schedulerprofile/a: revision 2\n"),
			ContainSubstring("-  - NodeAffinity (weight 2)\n+  - NodeAffinity (weight 3)\n")))
		Expect(strings.Count(got.out, "\n-")).To(Equal(1), got.out)

		By("comparing the active revision with itself")
		got = kubectl(ctx, "diff", "a", "--from", "2", "--livesched-namespace", kept)
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(BeEmpty())
		Expect(got.errOut).To(Equal("schedulerprofile/a: revision 2 and active (revision 2) are the same\n"))

		By("comparing the active revision with the applied spec")
		Expect(kubectl(ctx, "diff", "a", "--livesched-namespace", kept).code).To(BeZero())
		weight("NoSuchPlugin", 1)(&p.Spec)
		Expect(k8s.Update(ctx, p)).To(Succeed())
		got = kubectl(ctx, "diff", "a", "--livesched-namespace", kept)
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring(`applied (generation 3): invalid (UnknownPlugin)`))
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
			ContainSubstring("+++ schedulerprofile/b: in the files\n"), ContainSubstring("-parallelism: 4\n+parallelism: 5\n"),
			ContainSubstring("-      type: LeastAllocated\n+      type: MostAllocated\n"),
			ContainSubstring("--- schedulerprofile/c: does not exist\n"), ContainSubstring("+schedulerName: c\n")))
		Expect(got.out).NotTo(ContainSubstring("schedulerprofile/a"))

		var differences []struct {
			Profile string
			Differs bool
			After   struct{ Plugins map[string][]string }
		}
		Expect(yaml.Unmarshal([]byte(kubectl(ctx, "diff", "-f", changed, "-o", "json").out), &differences)).To(Succeed())
		Expect(differences).To(HaveLen(2))
		Expect(differences[0].After.Plugins["queueSort"]).To(HaveExactElements("PrioritySort"))
	}, SpecTimeout(5*time.Minute))

	It("lists the same plugins as status.active", func(ctx context.Context) {
		startLivesched(ctx)
		p := profile("a", func(spec *v1alpha1.SchedulerProfileSpec) {
			three := int32(3)
			spec.Plugins = &v1alpha1.Plugins{
				Score:      v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "ImageLocality", Weight: &three}}, Disabled: []v1alpha1.Plugin{{Name: "NodeAffinity"}}},
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
			"preEnqueue": active.PreEnqueue, "queueSort": active.QueueSort, "preFilter": active.PreFilter, "filter": active.Filter,
			"postFilter": active.PostFilter, "preScore": active.PreScore, "reserve": active.Reserve, "permit": active.Permit,
			"preBind": active.PreBind, "bind": active.Bind, "postBind": active.PostBind, "score": scores(active.Score),
		} {
			Expect(described[point]).To(Equal(want), point)
		}
	}, SpecTimeout(5*time.Minute))
})

func scores(plugins []v1alpha1.WeightedPlugin) (described []string) {
	for _, plugin := range plugins {
		described = append(described, fmt.Sprintf("%s (weight %d)", plugin.Name, plugin.Weight))
	}
	return described
}
