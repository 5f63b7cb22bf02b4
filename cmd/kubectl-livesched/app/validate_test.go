// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
)

// rejectedFields returns the fields for which the API server rejects an object.
func rejectedFields(ctx context.Context, text string) (paths []string, unknown bool) {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	err := k8s.Create(ctx, object,
		&client.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || status.Status().Details == nil ||
		len(status.Status().Details.Causes) == 0 {
		return nil, err != nil
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "<nil>" { // the note that rules were not evaluated
			paths = append(paths, cause.Field)
		}
	}
	return paths, false
}

var _ = Describe("validate", func() {
	DescribeTable("reports errors at the fields for which the API server rejects an object", func(ctx context.Context,
		kind, spec string) {
		text := fmt.Sprintf("apiVersion: livesched.io/v1alpha1\nkind: %s\nmetadata: {name: a}\nspec: {%s}\n",
			kind, spec)
		want, unknownField := rejectedFields(ctx, text)
		got := kubectl(ctx, "validate", "-f", file(text), "-o", "json")
		var report validate.Report
		Expect(yaml.Unmarshal([]byte(got.out), &report)).To(Succeed(), got.errOut)
		var paths []string
		for _, finding := range report.Objects[0].Findings {
			// an error of the API server, not of livesched
			if finding.Severity == validate.Error && finding.Reason == "" {
				paths = append(paths, finding.Path)
			}
		}
		if unknownField {
			Expect(got.out).To(ContainSubstring("unknown field"))
			return
		}
		slices.Sort(want)
		slices.Sort(paths)
		Expect(paths).To(Equal(want))
		if len(want) == 0 {
			Expect(got.code).To(BeZero(), got.out)
		} else {
			Expect(got.code).NotTo(BeZero(), got.out)
		}
	},
		Entry("a valid object", "SchedulerProfile", `percentageOfNodesToScore: 50`),
		Entry("a value out of range", "SchedulerProfile", `percentageOfNodesToScore: 101`),
		Entry("a value of the wrong type", "SchedulingPolicy", `parallelism: many`),
		Entry("a value that does not match a pattern", "SchedulerProfile", `schedulerName: Not_This`),
		Entry("a list with a duplicate", "SchedulerProfile",
			`plugins: {score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}`),
		Entry("a broken rule", "SchedulingPolicy", `podInitialBackoff: 9s, podMaxBackoff: 1s`),
		Entry("a broken rule on a default value", "SchedulingPolicy", `podInitialBackoff: 1h`),
		Entry("a broken rule on a union", "SchedulingPolicy",
			`algorithmSource: {provider: DefaultProvider, policy: {}}`),
		Entry("a value that an enumeration does not have", "SchedulingPolicy", `algorithmSource: {provider: Nope}`),
		Entry("a missing required field", "SchedulingPolicy", `queueSort: {args: {}}`),
		Entry("several errors", "SchedulingPolicy", `parallelism: 0, percentageOfNodesToScore: 200, extenders: `+
			`[{urlPrefix: "ftp://x"}, {urlPrefix: "https://x", prioritizeVerb: p}]`),
		Entry("an unknown field", "SchedulerProfile", `colour: red`),
		Entry("an unknown field in a list", "SchedulerProfile",
			`plugins: {score: {enabled: [{name: NodeAffinity, colour: red}]}}`),
		Entry("null values", "SchedulingPolicy", `parallelism: null, extenders: null`),
	)

	It("takes the cluster into account with --against-cluster", func(ctx context.Context) {
		startLivesched(ctx)
		older := profile("older")
		older.Spec.SchedulerName = "taken"
		create(ctx, policy("own", 4), older)
		expectProgrammed(ctx, older)
		path := file("apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: a}\nspec: " +
			"{policyRef: {name: own}, schedulerName: taken}\n")

		got := kubectl(ctx, "validate", "-f", path)
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.out).To(ContainSubstring(`file.yaml:4: warning: SchedulerProfile a: spec.policyRef.name: ` +
			`SchedulingPolicy "own" does not exist in the files`))

		got = kubectl(ctx, "validate", "-f", path, "--against-cluster")
		Expect(got.code).To(Equal(1), got.errOut)
		Expect(got.out).To(ContainSubstring(`file.yaml:4: error: SchedulerProfile a: spec.schedulerName: the older ` +
			`SchedulerProfile "older" has the scheduler name "taken" (SchedulerNameConflict)`))
		Expect(got.out).NotTo(ContainSubstring("policyRef"))
	}, SpecTimeout(5*time.Minute))

	It("fails if there is nothing to check", func(ctx context.Context) {
		got := kubectl(ctx, "validate", "-f", file("apiVersion: v1\nkind: Service\n"))
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("error: no SchedulerProfile or SchedulingPolicy found"))
		Expect(kubectl(ctx, "validate", "-f", "/no/such/file").code).To(Equal(2))
		Expect(kubectl(ctx, "validate").errOut).To(ContainSubstring("specify --filename or --kustomize"))
	})
})

var _ = Describe("convert", func() {
	const policyAndFlag = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"parallelism: 4\nenableProfiling: true\nprofiles: [{schedulerName: a}]\n"

	It("writes objects that can be applied and become active", func(ctx context.Context) {
		startLivesched(ctx)
		got := kubectl(ctx, "convert", "-f", file(policyAndFlag), "--policy-name", "was")
		Expect(got.code).To(BeZero(), got.errOut)
		Expect(got.errOut).To(ContainSubstring("file.yaml:4: loss: enableProfiling: a setting of the process: start " +
			"livesched with --profiling=true"))
		Expect(got.errOut).To(HaveSuffix("1 profile, 1 policy: 1 loss, 1 note\n"))
		Expect(got.errOut).NotTo(ContainSubstring("warning"))
		for _, text := range strings.Split(got.out, "---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
			create(ctx, object)
		}
		p := profile("a")
		expectProgrammed(ctx, p)
		Expect(p.Status.Active.Policy.Name).To(Equal("was"))
	}, SpecTimeout(5*time.Minute))

	It("changes no other profile, or names it", func(ctx context.Context) {
		startLivesched(ctx)
		p := profile("bystander")
		create(ctx, p)
		expectProgrammed(ctx, p)
		apply := func(args ...string) outcome {
			got := kubectl(ctx, append([]string{"convert", "-f", file(policyAndFlag)}, args...)...)
			Expect(got.code).To(BeZero(), got.errOut)
			for _, text := range strings.Split(got.out, "---\n") {
				object := &unstructured.Unstructured{}
				Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
				create(ctx, object)
			}
			return got
		}
		got := apply("--against-cluster")
		Expect(got.errOut).NotTo(ContainSubstring("warning"))
		converted := profile("a")
		expectProgrammed(ctx, converted)
		Expect(converted.Status.Active.Policy.Name).To(Equal("a"))
		after := profile("bystander")
		expectProgrammed(ctx, after)
		Expect(after.Status).To(Equal(p.Status))

		By("choosing the policy that it builds on")
		Expect(k8s.Delete(ctx, converted)).To(Succeed())
		got = kubectl(ctx, "convert", "-f", file(policyAndFlag), "--policy-name=default", "--against-cluster")
		Expect(got.errOut).To(ContainSubstring("output: warning: SchedulingPolicy default: metadata.name: changes " +
			"SchedulerProfiles of the cluster that are not in the files: bystander\n"))
		got = apply("--policy-name=default")
		Expect(got.errOut).To(ContainSubstring("output: warning: SchedulingPolicy default: metadata.name: every " +
			"SchedulerProfile without policyRef builds on this policy"))
		Eventually(func(g Gomega) {
			expectProgrammed(ctx, after)
			g.Expect(after.Status.Active.Revision).NotTo(Equal(p.Status.Active.Revision))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("fails on losses with --strict, and on objects that livesched would not accept", func(ctx context.Context) {
		Expect(kubectl(ctx, "convert", "-f", file(policyAndFlag), "--strict").code).To(Equal(1))
		got := kubectl(ctx, "convert", "-f", file("apiVersion: kubescheduler.config.k8s.io/v1\nkind: "+
			"KubeSchedulerConfiguration\nprofiles: [{schedulerName: Not_This}]\n"))
		Expect(got.code).To(Equal(1))
		Expect(got.errOut).To(ContainSubstring("output: error: SchedulerProfile not-this: spec.schedulerName: "))
		got = kubectl(ctx, "convert", "-f", file("kind: Service\n"))
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(ContainSubstring("no KubeSchedulerConfiguration or legacy Policy found"))
	})
})

var _ = Describe("the command line", func() {
	It("has help for every command", func(ctx context.Context) {
		for _, command := range []string{"validate", "convert", "status", "history", "rollback", "diff", "doctor",
			"version"} {
			got := kubectl(ctx, command, "--help")
			Expect(got.code).To(BeZero())
			Expect(got.out).To(ContainSubstring("Usage:"))
			Expect(kubectl(ctx, "--help").out).To(ContainSubstring("\n  " + command + " "))
		}
		Expect(kubectl(ctx, "version").out).To(HavePrefix("kubectl-livesched dev, for Kubernetes v"))
		got := kubectl(ctx, "status", "-o", "xml")
		Expect(got.code).To(Equal(2))
		Expect(got.errOut).To(HavePrefix("error: --output: must be wide, json, yaml, jsonpath=TEMPLATE, "))
	})
})
