// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

var _ = Describe("A SchedulerProfile", func() {
	It("needs no spec and references the policy default", func(ctx context.Context) {
		object := profile("bare", "")
		Expect(create(ctx, object)).To(Succeed())
		Expect(specOf(stored(ctx, object))).
			To(MatchJSON(`{"policyRef": {"name": "default"}, "revisionHistoryLimit": 10}`))
	})

	It("accepts a profile of a KubeSchedulerConfiguration unchanged", func(ctx context.Context) {
		spec := `
schedulerName: pasted
percentageOfNodesToScore: 30
plugins:
  preEnqueue: {enabled: [{name: SchedulingGates}]}
  queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: "*"}]}
  preFilter: {enabled: [{name: NodeResourcesFit, weight: 0}]}
  filter: {enabled: [{name: NodePorts}]}
  postFilter: {enabled: [{name: DefaultPreemption}]}
  preScore: {disabled: [{name: TaintToleration, weight: 0}]}
  score: {enabled: [{name: NodeResourcesFit, weight: 2147483647}], disabled: [{name: ImageLocality}, {name: InterPodAffinity}]}
  reserve: {enabled: [{name: VolumeBinding}]}
  permit: {enabled: [{name: Coscheduling}]}
  preBind: {enabled: [{name: VolumeBinding}]}
  bind: {enabled: [{name: DefaultBinder}]}
  postBind: {enabled: [{name: Coscheduling}]}
  multiPoint: {enabled: [{name: NodeResourcesFit, weight: 5}]}
  placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}
  placementScore: {enabled: [{name: PodGroupPodsCount, weight: 3}]}
pluginConfig:
- name: NodeResourcesFit
  args:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: NodeResourcesFitArgs
    scoringStrategy: {type: MostAllocated}
- name: Coscheduling
`
		object := profile("pasted", spec)
		Expect(create(ctx, object)).To(Succeed())

		written := parse(spec)
		written["policyRef"] = map[string]any{"name": "default"}
		written["revisionHistoryLimit"] = int64(10)
		Expect(stored(ctx, object).Object["spec"]).To(BeComparableTo(written))
	})

	DescribeTable("is rejected", func(ctx context.Context, name, spec, message string) {
		err := create(ctx, profile(name, spec))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got %v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("with an empty scheduler name", "bad", `schedulerName: ""`,
			`spec.schedulerName: Invalid value: "": spec.schedulerName in body should be at least 1 chars long`),
		Entry("with an invalid scheduler name", "bad", `schedulerName: My_Scheduler`,
			`spec.schedulerName: Invalid value: "My_Scheduler": spec.schedulerName in body should match`),
		Entry("with a scheduler name that is too long for Events", "bad", `schedulerName: `+strings.Repeat("a", 64),
			`spec.schedulerName: Too long: may not be more than 63 bytes`),
		Entry("with a name that cannot be a scheduler name", strings.Repeat("a", 64), ``,
			`metadata.name is longer than the 63 characters that a scheduler name may have: set spec.schedulerName`),
		Entry("with a percentage below 0", "bad", `percentageOfNodesToScore: -1`,
			`spec.percentageOfNodesToScore: Invalid value: -1: spec.percentageOfNodesToScore in body should be `+
				`greater than or equal to 0`),
		Entry("with a percentage above 100", "bad", `percentageOfNodesToScore: 101`,
			`spec.percentageOfNodesToScore: Invalid value: 101: spec.percentageOfNodesToScore in body should be less `+
				`than or equal to 100`),
		Entry("as a shadow of nothing", "bad", `mode: Shadow`,
			"spec.shadow: Invalid value: spec.shadow is required with mode Shadow, and not allowed without it"),
		Entry("if it follows another one and is no shadow", "bad", `shadow: {profileRef: {name: other}}`,
			"spec.shadow: Invalid value: spec.shadow is required with mode Shadow, and not allowed without it"),
		Entry("if it follows another one and schedules pods", "bad", `{mode: Active, shadow: {profileRef: {name: other}}}`,
			"spec.shadow: Invalid value: spec.shadow is required with mode Shadow, and not allowed without it"),
		Entry("if it is a shadow and rolls out", "bad",
			`{mode: Shadow, shadow: {profileRef: {name: other}}, rollout: {strategy: Canary}}`,
			"spec.rollout: Invalid value: spec.rollout is not allowed with mode Shadow: a shadow decides no pods"),
		Entry("with a comparison of a day", "bad", `rollout: {strategy: Canary, canary: {shadowDuration: 1d}}`,
			`spec.rollout.canary.shadowDuration: Invalid value: "1d": spec.rollout.canary.shadowDuration in body should match`),
		Entry("with a pause of another unit", "bad",
			`rollout: {strategy: Canary, canary: {steps: [{pause: {duration: 10 minutes}}]}}`,
			`spec.rollout.canary.steps[0].pause.duration: Invalid value: "10 minutes": `),
		Entry("with a roll-out without steps", "bad", `rollout: {strategy: Canary, canary: {steps: []}}`,
			"spec.rollout.canary.steps: Invalid value: 0: spec.rollout.canary.steps in body should have at least 1 "+
				"items"),
		Entry("with an empty step", "bad", `rollout: {strategy: Canary, canary: {steps: [{}]}}`,
			"a step has either setWeight or pause"),
		Entry("with another mode", "bad", `{mode: shadow, shadow: {profileRef: {name: other}}}`,
			`spec.mode: Unsupported value: "shadow": supported values: "Active", "Shadow"`),
		Entry("with no sample", "bad", `{mode: Shadow, shadow: {profileRef: {name: other}, samplePercent: 0}}`,
			"spec.shadow.samplePercent: Invalid value: 0: spec.shadow.samplePercent in body should be greater than or "+
				"equal to 1"),
		Entry("with an empty policy name", "bad", `policyRef: {name: ""}`,
			`spec.policyRef.name: Invalid value: "": spec.policyRef.name in body should be at least 1 chars long`),
		Entry("with a negative weight", "bad", `plugins: {score: {enabled: [{name: NodeResourcesFit, weight: -1}]}}`,
			`spec.plugins.score.enabled[0].weight: Invalid value: -1: spec.plugins.score.enabled[0].weight in body `+
				`should be greater than or equal to 0`),
		Entry("with a weight beyond 32 bits", "bad",
			`plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 2147483648}]}}`,
			`spec.plugins.multiPoint.enabled[0].weight in body should be less than or equal to 2147483647`),
		Entry("with a plugin that has no name", "bad", `plugins: {filter: {enabled: [{weight: 1}]}}`,
			`spec.plugins.filter.enabled[0].name: Required value`),
		Entry("with all plugins enabled", "bad", `plugins: {filter: {enabled: [{name: "*"}]}}`,
			`spec.plugins.filter.enabled: Invalid value: '*' stands for all plugins: it can be disabled but not `+
				`enabled`),
		Entry("with a plugin enabled twice", "bad",
			`plugins: {score: {enabled: [{name: A}, {name: B}, {name: A, weight: 2}]}}`,
			`spec.plugins.score.enabled: Duplicate value`),
		Entry("with a plugin disabled twice", "bad", `plugins: {score: {disabled: [{name: A}, {name: A}]}}`,
			`spec.plugins.score.disabled[1]: Duplicate value: {"name":"A"}`),
		Entry("with a plugin configured twice", "bad",
			`pluginConfig: [{name: A, args: {x: 1}}, {name: A, args: {x: 2}}]`,
			`spec.pluginConfig[1]: Duplicate value: {"name":"A"}`),
		Entry("with arguments that are not an object", "bad", `pluginConfig: [{name: A, args: "x"}]`,
			`spec.pluginConfig[0].args: Invalid value: "string": spec.pluginConfig[0].args in body must be of type `+
				`object: "string"`),
		Entry("with too many plugins at one extension point", "bad", `plugins: {filter: {enabled: [`+manyPlugins(65)+
			`]}}`,
			`spec.plugins.filter.enabled: Too many: 65: must have at most 64 items`),
	)

	It("is rejected with an unknown field", func(ctx context.Context) {
		err := create(ctx, profile("bad", `plugins: {normalizeScore: {}}`))
		Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.plugins.normalizeScore"`)))
	})

	It("accepts the maximum number of plugins", func(ctx context.Context) {
		Expect(create(ctx, profile("many", `plugins: {filter: {enabled: [`+manyPlugins(64)+`]}}`))).To(Succeed())
	})

	It("keeps all arguments of plugins, including those of out-of-tree plugins", func(ctx context.Context) {
		args := `{"big": 9007199254740993, "float": 1.5, "text": "ä\"\n<>&", "nothing": null, "empty": {}, "list": ` +
			`[], "mixed": [1, "2", {"3": [true, false, null]}]}`
		object := profile("args", `{pluginConfig: [{name: OutOfTree, args: `+args+`}]}`)
		Expect(create(ctx, object)).To(Succeed())

		var typed v1alpha1.SchedulerProfile
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), &typed)).To(Succeed())
		Expect(typed.Spec.PluginConfig[0].Args.Raw).To(MatchJSON(args))
		Expect(string(typed.Spec.PluginConfig[0].Args.Raw)).To(ContainSubstring("9007199254740993"))

		By("writing them back from Go types")
		typed.Labels = map[string]string{"touched": "true"}
		Expect(k8s.Update(ctx, &typed)).To(Succeed())
		Expect(typed.Generation).To(Equal(int64(1)), "the spec must not have changed")
	})

	It("treats arguments that are null as no arguments", func(ctx context.Context) {
		object := profile("null-args", `{pluginConfig: [{name: NodeResourcesFit, args: null}]}`)
		Expect(create(ctx, object)).To(Succeed())
		var typed v1alpha1.SchedulerProfile
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), &typed)).To(Succeed())
		Expect(typed.Spec.PluginConfig[0].Args.Raw).To(BeEmpty())
	})

	It("contains only the fields that were set when it is written from Go", func(ctx context.Context) {
		typed := &v1alpha1.SchedulerProfile{
			ObjectMeta: metav1.ObjectMeta{Name: "from-go"},
			Spec: v1alpha1.SchedulerProfileSpec{
				Plugins: &v1alpha1.Plugins{
					Score: v1alpha1.PluginSet{
						Enabled: []v1alpha1.Plugin{{Name: "NodeResourcesFit", Weight: ptr.To[int32](0)}}},
				},
				PluginConfig: []v1alpha1.PluginConfig{
					{Name: "ImageLocality"},
					{Name: "NodeResourcesFit",
						Args: runtime.RawExtension{Raw: []byte(`{"scoringStrategy":{"type":"MostAllocated"}}`)}},
				},
			},
		}
		Expect(create(ctx, typed)).To(Succeed())
		Expect(specOf(stored(ctx, profile("from-go", "")))).To(MatchJSON(`{
			"policyRef": {"name": "default"}, "revisionHistoryLimit": 10,
			"plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 0}]}},
			"pluginConfig": [{"name": "ImageLocality"}, {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]
		}`))
	})

	Describe("that is changed", func() {
		const immutable = `spec.schedulerName: Forbidden: spec.schedulerName is immutable: create another ` +
			`SchedulerProfile for another name`

		DescribeTable("keeps its scheduler name", func(ctx context.Context, name, before, after, message string) {
			Expect(create(ctx, profile(name, before))).To(Succeed())
			changed := profile(name, after)
			changed.SetResourceVersion(stored(ctx, changed).GetResourceVersion())
			err := k8s.Update(ctx, changed)
			if message == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got %v", err)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
			Entry("from unset to the name of the object", "named", ``, `schedulerName: named`, ""),
			Entry("from the name of the object to unset", "named", `schedulerName: named`, ``, ""),
			Entry("not from unset to another", "named", ``, `schedulerName: other`, immutable),
			Entry("not from one to another", "named", `schedulerName: one`, `schedulerName: two`, immutable),
			Entry("not from another to unset", "named", `schedulerName: one`, ``, immutable),
			Entry("while the rest changes", "named", `schedulerName: one`,
				`{schedulerName: one, percentageOfNodesToScore: 5}`, ""),
		)
	})

	It("has columns for its conditions, revision and policy", func(ctx context.Context) {
		object := profile("listed", "")
		Expect(create(ctx, object)).To(Succeed())
		var typed v1alpha1.SchedulerProfile
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), &typed)).To(Succeed())
		now := metav1.Now()
		typed.Status = v1alpha1.SchedulerProfileStatus{
			ObservedGeneration: 1,
			SchedulerName:      "listed",
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted,
					LastTransitionTime: now},
				{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBuildFailed,
					LastTransitionTime: now},
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBuildFailed,
					LastTransitionTime: now},
			},
			Active: &v1alpha1.ActiveProfile{
				Generation: 1, Revision: "c4f5d67b89", Since: now,
				Policy: &v1alpha1.ActivePolicy{Name: "default", Generation: 3},
				Plugins: v1alpha1.ActivePlugins{
					Filter: []string{"NodePorts"},
					Score:  []v1alpha1.WeightedPlugin{{Name: "NodeResourcesFit", Weight: 1}},
				},
			},
		}
		written := typed.Status.DeepCopy()
		Expect(k8s.Status().Update(ctx, &typed)).To(Succeed())
		Expect(typed.Generation).To(Equal(int64(1)))
		Expect(typed.Status.Active.Plugins).To(Equal(written.Active.Plugins))

		columns, rows := table(ctx, "schedulerprofiles")
		Expect(columns).To(Equal([]string{"Name", "Ready", "Scheduler Name", "Accepted", "Programmed", "Revision",
			"Policy", "Reason", "Programmed Reason", "Age"}))
		Expect(rows).To(ContainElement(HaveExactElements("listed", "False", "listed", "True", "False", "c4f5d67b89",
			"default", "Accepted", "BuildFailed", Not(BeEmpty()))))
	})
})

func manyPlugins(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("{name: %s%d}", strings.Repeat("p", 250), i))
	}
	return strings.Join(names, ", ")
}
