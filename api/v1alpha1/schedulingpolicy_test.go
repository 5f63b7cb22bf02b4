// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

var _ = Describe("A SchedulingPolicy", func() {
	It("needs no spec, and has the defaults of kube-scheduler except that every node is scored",
		func(ctx context.Context) {
			object := policy("bare", "")
			Expect(create(ctx, object)).To(Succeed())
			Expect(specOf(stored(ctx, object))).To(MatchJSON(`{
			"podInitialBackoff": "1s", "podMaxBackoff": "10s", "podMaxInUnschedulablePods": "5m0s",
			"percentageOfNodesToScore": 0, "parallelism": 16, "revisionHistoryLimit": 10
		}`))
		})

	It("accepts a legacy policy", func(ctx context.Context) {
		spec := `
algorithmSource:
  policy:
    predicates:
    - name: PodFitsResources
    - name: Zones
      argument: {serviceAffinity: {labels: [zone, region]}}
    - name: NotRetiring
      argument: {labelsPresence: {labels: [retiring], presence: false}}
    priorities:
    - {name: LeastRequestedPriority, weight: 1}
    - name: RackSpread
      weight: 2
      argument: {serviceAntiAffinity: {label: rack}}
    - name: PreferFast
      weight: 3
      argument: {labelPreference: {label: fast, presence: true}}
    - name: Packed
      weight: 4
      argument:
        requestedToCapacityRatioArguments:
          shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
          resources: [{name: example.com/gpu, weight: 3}, {name: cpu}]
    hardPodAffinitySymmetricWeight: 10
    alwaysCheckAllPredicates: true
queueSort: {name: PrioritySort, args: {anything: [1, {"2": null}]}}
podInitialBackoff: 1.5s
podMaxBackoff: 1m30s
podMaxInUnschedulablePods: 1h
percentageOfNodesToScore: 50
parallelism: 1
extenders:
- urlPrefix: https://extender.example.com:8443/scheduler
  filterVerb: filter
  preemptVerb: preempt
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 5
  enableHTTPS: true
  tlsConfig: {insecure: false, serverName: extender, secretRef: {namespace: livesched-system, name: extender-tls}}
  httpTimeout: 100ms
  nodeCacheCapable: true
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
  ignorable: true
revisionHistoryLimit: 100
`
		object := policy("legacy", spec)
		Expect(create(ctx, object)).To(Succeed())
		Expect(stored(ctx, object).Object["spec"]).To(BeComparableTo(parse(spec)))

		By("reading and writing it as Go types")
		var typed v1alpha1.SchedulingPolicy
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), &typed)).To(Succeed())
		Expect(typed.Spec.PodInitialBackoff.Duration).To(Equal(1500 * time.Millisecond))
		typed.Labels = map[string]string{"touched": "true"}
		Expect(k8s.Update(ctx, &typed)).To(Succeed())
	})

	DescribeTable("distinguishes an absent list from an empty one", func(ctx context.Context, spec string,
		absent bool) {
		object := policy("lists", spec)
		Expect(create(ctx, object)).To(Succeed())

		var typed v1alpha1.SchedulingPolicy
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), &typed)).To(Succeed())
		Expect(typed.Spec.AlgorithmSource.Policy.Predicates == nil).To(Equal(absent))
		Expect(typed.Spec.AlgorithmSource.Policy.Priorities == nil).To(Equal(absent))

		By("writing it back from Go types")
		written := typed.DeepCopy()
		written.Labels = map[string]string{"touched": "true"}
		Expect(k8s.Update(ctx, written)).To(Succeed())
		Expect(written.Generation).To(Equal(int64(1)), "the spec must not have changed")
		Expect(stored(ctx, object).Object["spec"]).
			To(HaveKeyWithValue("algorithmSource", parse(spec)["algorithmSource"]))

		By("converting it to an unstructured object and back")
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
		Expect(err).NotTo(HaveOccurred())
		var back v1alpha1.SchedulingPolicy
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &back)).To(Succeed())
		Expect(back.Spec).To(Equal(typed.Spec))
	},
		Entry("absent", `algorithmSource: {policy: {}}`, true),
		Entry("empty", `algorithmSource: {policy: {predicates: [], priorities: []}}`, false),
	)

	DescribeTable("is rejected", func(ctx context.Context, spec, message string) {
		err := create(ctx, policy("bad", spec))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got %v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("with an empty algorithm source", `algorithmSource: {}`,
			`spec.algorithmSource: Invalid value: exactly one of provider and policy must be set`),
		Entry("with two algorithm sources", `algorithmSource: {provider: DefaultProvider, policy: {}}`,
			`spec.algorithmSource: Invalid value: exactly one of provider and policy must be set`),
		Entry("with an unknown provider", `algorithmSource: {provider: Best}`,
			`spec.algorithmSource.provider: Unsupported value: "Best": supported values: "DefaultProvider", `+
				`"ClusterAutoscalerProvider"`),
		Entry("with a symmetric weight of 0", `algorithmSource: {policy: {hardPodAffinitySymmetricWeight: 0}}`,
			`spec.algorithmSource.policy.hardPodAffinitySymmetricWeight in body should be greater than or equal to 1`),
		Entry("with a symmetric weight above 100", `algorithmSource: {policy: {hardPodAffinitySymmetricWeight: 101}}`,
			`spec.algorithmSource.policy.hardPodAffinitySymmetricWeight in body should be less than or equal to 100`),
		Entry("with a predicate that has two arguments", `algorithmSource: {policy: {predicates: [{name: A, `+
			`argument: {serviceAffinity: {labels: [a]}, labelsPresence: {labels: [a]}}}]}}`,
			`spec.algorithmSource.policy.predicates[0].argument: Invalid value: exactly one of serviceAffinity and `+
				`labelsPresence must be set`),
		Entry("with a predicate that has an empty argument",
			`algorithmSource: {policy: {predicates: [{name: A, argument: {}}]}}`,
			`spec.algorithmSource.policy.predicates[0].argument: Invalid value: exactly one of serviceAffinity and `+
				`labelsPresence must be set`),
		Entry("with a service affinity without labels",
			`algorithmSource: {policy: {predicates: [{name: A, argument: {serviceAffinity: {labels: []}}}]}}`,
			`labels in body should have at least 1 items`),
		Entry("with a priority without a weight", `algorithmSource: {policy: {priorities: [{name: A}]}}`,
			`spec.algorithmSource.policy.priorities[0].weight: Required value`),
		Entry("with a priority that has the weight 0",
			`algorithmSource: {policy: {priorities: [{name: A, weight: 0}]}}`,
			`spec.algorithmSource.policy.priorities[0].weight in body should be greater than or equal to 1`),
		Entry("with a priority that has two arguments", `algorithmSource: {policy: {priorities: [{name: A, weight: `+
			`1, argument: {serviceAntiAffinity: {label: a}, labelPreference: {label: a}}}]}}`,
			`exactly one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments must be set`),
		Entry("with a shape without points", `algorithmSource: {policy: {priorities: [{name: A, weight: 1, argument: `+
			`{requestedToCapacityRatioArguments: {shape: []}}}]}}`,
			`shape in body should have at least 1 items`),
		Entry("with a shape point out of range", `algorithmSource: {policy: {priorities: [{name: A, weight: 1, `+
			`argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 101, score: 11}]}}}]}}`,
			`shape[0].score in body should be less than or equal to 10`),
		Entry("with a queue sort that has no name", `queueSort: {}`, `spec.queueSort.name: Required value`),
		Entry("with a percentage below 0", `percentageOfNodesToScore: -1`,
			`spec.percentageOfNodesToScore in body should be greater than or equal to 0`),
		Entry("with a percentage above 100", `percentageOfNodesToScore: 101`,
			`spec.percentageOfNodesToScore in body should be less than or equal to 100`),
		Entry("with a parallelism of 0", `parallelism: 0`,
			`spec.parallelism in body should be greater than or equal to 1`),
		Entry("with a backoff of 0", `podInitialBackoff: 0s`,
			`spec.podInitialBackoff: Invalid value: "0s": must be longer than 0s`),
		Entry("with a backoff that is not a duration", `podInitialBackoff: 1 day`,
			`spec.podInitialBackoff in body should match`),
		Entry("with a negative backoff", `podMaxBackoff: -1s`, `spec.podMaxBackoff in body should match`),
		Entry("with a maximum below the initial backoff", `{podInitialBackoff: 20s, podMaxBackoff: 19.9s}`,
			`spec.podMaxBackoff: Invalid value: podMaxBackoff must not be shorter than podInitialBackoff`),
		Entry("with an initial backoff above the default maximum", `podInitialBackoff: 11s`,
			`spec.podMaxBackoff: Invalid value: podMaxBackoff must not be shorter than podInitialBackoff`),
		Entry("with a time of 0 for unschedulable pods", `podMaxInUnschedulablePods: 0ms`,
			`spec.podMaxInUnschedulablePods: Invalid value: "0ms": must be longer than 0s`),
		Entry("with an extender whose URL has no scheme", `extenders: [{urlPrefix: "localhost:8888"}]`,
			`spec.extenders[0].urlPrefix in body should match`),
		Entry("with an extender whose URL has a password", `extenders: [{urlPrefix: "https://me:secret@a"}]`,
			`spec.extenders[0].urlPrefix in body should match`),
		Entry("with an extender whose URL has a user", `extenders: [{urlPrefix: "https://me@a/b"}]`,
			`spec.extenders[0].urlPrefix in body should match`),
		Entry("with an extender whose URL has a query", `extenders: [{urlPrefix: "https://a/b?c"}]`,
			`spec.extenders[0].urlPrefix in body should match`),
		Entry("with an extender whose URL has a fragment", `extenders: [{urlPrefix: "https://a#b"}]`,
			`spec.extenders[0].urlPrefix in body should match`),
		Entry("with a verb that leaves the URL", `extenders: [{urlPrefix: "https://a/b", filterVerb: "../c"}]`,
			`spec.extenders[0].filterVerb in body should match`),
		Entry("with a verb that leaves the URL in the middle",
			`extenders: [{urlPrefix: "https://a/b", preemptVerb: "c/../../d"}]`,
			`spec.extenders[0].preemptVerb in body should match`),
		Entry("with a verb that is a URL",
			`extenders: [{urlPrefix: "https://a", weight: 1, prioritizeVerb: "http://b/c"}]`,
			`spec.extenders[0].prioritizeVerb in body should match`),
		Entry("with a verb that has a query", `extenders: [{urlPrefix: "https://a", bindVerb: "c?d=e"}]`,
			`spec.extenders[0].bindVerb in body should match`),
		Entry("with a verb that begins with a slash", `extenders: [{urlPrefix: "https://a", bindVerb: "/c"}]`,
			`spec.extenders[0].bindVerb in body should match`),
		Entry("with an extender that has a timeout above 15s",
			`extenders: [{urlPrefix: "http://a", httpTimeout: 15s1ms}]`,
			`spec.extenders[0].httpTimeout: Invalid value: "15s1ms": must be at most 15s`),
		Entry("with an extender that scores without a weight",
			`extenders: [{urlPrefix: "http://a", prioritizeVerb: score}]`,
			`spec.extenders[0].weight: Invalid value: weight must be greater than 0 with a prioritizeVerb`),
		Entry("with two extenders that bind",
			`extenders: [{urlPrefix: "http://a", bindVerb: bind}, {urlPrefix: "http://b", bindVerb: bind}]`,
			`spec.extenders: Invalid value: only one extender can have a bindVerb`),
		Entry("with an extender that manages a resource twice",
			`extenders: [{urlPrefix: "http://a", managedResources: [{name: a.b/c}, {name: a.b/c}]}]`,
			`spec.extenders[0].managedResources[1]: Duplicate value: {"name":"a.b/c"}`),
		Entry("with an extender that manages a built-in resource",
			`extenders: [{urlPrefix: "http://a", managedResources: [{name: kubernetes.io/c}]}]`,
			`must be an extended resource, outside of kubernetes.io`),
		Entry("with an extender that manages cpu",
			`extenders: [{urlPrefix: "http://a", managedResources: [{name: cpu}]}]`,
			`spec.extenders[0].managedResources[0].name in body should match`),
		Entry("with a Secret that has no namespace",
			`extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {name: tls}}}]`,
			`spec.extenders[0].tlsConfig.secretRef.namespace: Required value`),
		Entry("with an extender that has a timeout of 0", `extenders: [{urlPrefix: "http://a", httpTimeout: 0s}]`,
			`spec.extenders[0].httpTimeout: Invalid value: "0s": must be longer than 0s`),
	)

	It("gives extenders a timeout of five seconds by default", func(ctx context.Context) {
		object := policy("timeout", `extenders: [{urlPrefix: "http://a", filterVerb: filter}]`)
		Expect(create(ctx, object)).To(Succeed())
		Expect(stored(ctx, object).Object["spec"]).To(HaveKeyWithValue("extenders",
			[]any{map[string]any{"urlPrefix": "http://a", "filterVerb": "filter", "httpTimeout": "5s"}}))
	})

	It("replaces its algorithm source when an apply omits the old one", func(ctx context.Context) {
		apply := func(spec string) {
			GinkgoHelper()
			raw, err := json.Marshal(policy("source", spec))
			Expect(err).NotTo(HaveOccurred())
			Expect(k8s.Patch(ctx, policy("source", ""), client.RawPatch("application/apply-patch+yaml", raw),
				client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
		}
		apply(``)
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, policy("source", ""))).To(Succeed()) })
		apply(`algorithmSource: {policy: {}}`)
		apply(`algorithmSource: {provider: ClusterAutoscalerProvider}`)
		apply(`algorithmSource: {policy: {predicates: []}}`)
		Expect(stored(ctx, policy("source", "")).Object["spec"]).To(HaveKeyWithValue("algorithmSource",
			map[string]any{"policy": map[string]any{"predicates": []any{}}}))
	})

	It("has columns for its conditions and profiles", func(ctx context.Context) {
		typed := &v1alpha1.SchedulingPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "listed"},
			Spec: v1alpha1.SchedulingPolicySpec{
				AlgorithmSource: &v1alpha1.AlgorithmSource{Provider: ptr.To(v1alpha1.ClusterAutoscalerProvider)}},
		}
		Expect(create(ctx, typed)).To(Succeed())
		typed.Status = v1alpha1.SchedulingPolicyStatus{
			ObservedGeneration: 1,
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid,
					LastTransitionTime: metav1.Now()},
				{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonKeptLastGood,
					LastTransitionTime: metav1.Now()},
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid,
					LastTransitionTime: metav1.Now()},
			},
			Profiles: []string{"binpack", "spread"}, ProfileCount: 2,
		}
		Expect(k8s.Status().Update(ctx, typed)).To(Succeed())

		columns, rows := table(ctx, "schedulingpolicies")
		Expect(columns).To(Equal([]string{"Name", "Ready", "Accepted", "Programmed", "Profiles", "Reason",
			"Programmed Reason", "Age"}))
		Expect(rows).To(ContainElement(HaveExactElements("listed", "False", "False", "False", "2", "Invalid",
			"KeptLastGood", Not(BeEmpty()))))
	})

	// As after an update of the custom resource definitions.
	It("that is stored and no longer allowed can be given a condition, and metadata", func(ctx context.Context) {
		const spec = `extenders: [{urlPrefix: "https://me:secret@a", filterVerb: "../b", httpTimeout: 1h}]`
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		respec := func(ctx context.Context, change func(spec map[string]any)) {
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "schedulingpolicies.livesched.io"}, crd)).To(Succeed())
				change(crd.Object)
				g.Expect(k8s.Update(ctx, crd)).To(Succeed())
			}).WithContext(ctx).Should(Succeed())
		}
		var strict map[string]any
		respec(ctx, func(crd map[string]any) {
			strict, _, _ = unstructured.NestedMap(crd, "spec")
			version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
			fields, found, err := unstructured.NestedFieldNoCopy(version, "schema", "openAPIV3Schema", "properties",
				"spec", "properties", "extenders", "items", "properties")
			Expect(found, err).To(BeTrue())
			for _, name := range []string{"urlPrefix", "filterVerb", "httpTimeout"} {
				field := fields.(map[string]any)[name].(map[string]any)
				delete(field, "x-kubernetes-validations")
				if name != "httpTimeout" {
					delete(field, "pattern")
				}
			}
		})
		restore := func(ctx context.Context) {
			respec(ctx, func(crd map[string]any) { crd["spec"] = strict })
			Eventually(func() error { return k8s.Create(ctx, policy("refused", spec), client.DryRunAll) }).
				ShouldNot(Succeed())
		}
		DeferCleanup(restore)
		Eventually(func() error { return create(ctx, policy("stored", spec)) }).WithContext(ctx).Should(Succeed())
		restore(ctx)

		object := &v1alpha1.SchedulingPolicy{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: "stored"}, object)).To(Succeed())
		object.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid,
			Message: "no", LastTransitionTime: metav1.Now(),
		}}
		Expect(k8s.Status().Update(ctx, object)).To(Succeed())
		labelled := stored(ctx, policy("stored", spec))
		labelled.SetLabels(map[string]string{"a": "b"})
		Expect(k8s.Update(ctx, labelled)).To(Succeed())
	})
})
