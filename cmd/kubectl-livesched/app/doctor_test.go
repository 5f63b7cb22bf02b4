// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/config/rbac"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// finding is one line of the output.
type finding struct{ Check, State, Message, Advice string }

// examine runs doctor as a user, "" for the administrator, and returns its findings and exit code.
func examine(ctx context.Context, user string, flags ...string) ([]finding, int) {
	GinkgoHelper()
	args := append([]string{"doctor", "-o", "json"}, flags...)
	if user != "" {
		args = append(args, "--as", user)
	}
	got := kubectl(ctx, args...)
	var findings []finding
	Expect(json.Unmarshal([]byte(got.out), &findings)).To(Succeed(), got.errOut)
	return findings, got.code
}

func found(check, state, message string) gomegatypes.GomegaMatcher {
	return ContainElement(And(HaveField("Check", check), HaveField("State", state),
		HaveField("Message", ContainSubstring(message))))
}

// lent creates objects until the end of the spec.
func lent(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		create(ctx, object)
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
		})
	}
}

// replica creates a pod of livesched.
func replica(ctx context.Context, name string, image string, ready corev1.ConditionStatus) {
	GinkgoHelper()
	pod := objects.Pod("livesched-system", name, "", "1", "1Gi")
	pod.Labels = map[string]string{"app.kubernetes.io/name": "livesched"}
	pod.Spec.Containers[0].Image = image
	pod.Spec.NodeName = "somewhere"
	lent(ctx, pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
}

func leaseOf(namespace, name, holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

// grant gives the ServiceAccount of livesched its permissions.
func grant(ctx context.Context) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{}
	Expect(yaml.Unmarshal(rbac.Role, role)).To(Succeed())
	lent(ctx, role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "livesched"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "livesched"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "livesched-system", Name: "livesched"}},
	})
}

// schemaOf returns the schema of the only version of a definition.
func schemaOf(definition *unstructured.Unstructured) map[string]any {
	GinkgoHelper()
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	Expect(err).NotTo(HaveOccurred())
	schema, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	Expect(err).NotTo(HaveOccurred())
	return schema
}

var _ = Describe("doctor", func() {
	It("finds nothing wrong with a good installation", func(ctx context.Context) {
		livesched := startSecurely(ctx,
			func(o *liveschedapp.Options) { o.LeaderElect, o.LeaderElectionNamespace = true, "livesched-system" })
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace("livesched-system"))).To(Succeed())
		})
		grant(ctx)
		replica(ctx, "livesched-0", "livesched:v1", corev1.ConditionTrue)
		replica(ctx, "livesched-1", "livesched:v1", corev1.ConditionTrue)
		p := profile("good")
		create(ctx, policy("default", 4), p)
		expectProgrammed(ctx, p)
		create(ctx, objects.Pod("default", "stuck", "good", "1", "1Gi"))
		Eventually(func(g Gomega) {
			events := &eventsv1.EventList{}
			g.Expect(k8s.List(ctx, events, client.MatchingFields{"reportingController": "good"})).To(Succeed())
			g.Expect(events.Items).NotTo(BeEmpty())
			findings, code := examine(ctx, "", livesched...)
			g.Expect(findings).To(HaveEach(HaveField("State", "ok")))
			g.Expect(code).To(BeZero())
		}).WithContext(ctx).Should(Succeed())
		got := kubectl(ctx, append([]string{"doctor"}, livesched...)...)
		Expect(got.out).To(And(
			MatchRegexp(`(?m)^ok +definitions +schedulerprofiles.livesched.io is the definition of this plugin$`),
			MatchRegexp(`(?m)^ok +API server +the API server \(v1\.\d+`),
			MatchRegexp(`(?m)^ok +rights +ServiceAccount livesched-system/livesched has the permissions`),
			MatchRegexp(`(?m)^ok +replicas +2 replicas are ready$`),
			MatchRegexp(`(?m)^ok +leader +\S+ leads, and renewed the Lease \d+s ago$`),
			MatchRegexp(`(?m)^ok +secure port +the leader answers, and schedules the pods of 1 profile$`),
			MatchRegexp(`(?m)^ok +webhook +the webhook is not installed`),
			MatchRegexp(`(?m)^ok +other schedulers +nothing found$`),
			MatchRegexp(`(?m)^ok +profiles +all SchedulerProfiles \(1\) and SchedulingPolicies \(1\) are active$`)))

		By("not asking livesched, or in vain")
		findings, code := examine(ctx, "")
		Expect(findings).To(found("secure port", "unknown",
			"livesched was not asked: no pod of livesched runs in namespace livesched-system"))
		Expect(code).To(Equal(2))
		findings, code = examine(ctx, "", "--livesched-url=https://127.0.0.1:1")
		Expect(findings).To(found("secure port", "failed",
			"the leader does not answer: https://127.0.0.1:1 cannot be reached"))
		Expect(code).To(Equal(1))
		findings, _ = examine(ctx, "somebody", livesched...)
		Expect(findings).To(found("secure port", "unknown",
			"livesched was not asked: livesched does not support impersonation"))
		Expect(kubectl(ctx, "doctor", "--livesched-ca=x").errOut).
			To(ContainSubstring("--livesched-ca (LIVESCHED_CA): has no effect"))
	}, SpecTimeout(5*time.Minute))

	It("finds an installation that is not there", func(ctx context.Context) {
		findings, code := examine(ctx, "")
		Expect(code).To(Equal(1))
		Expect(findings).To(And(
			found("rights", "failed",
				"ServiceAccount livesched-system/livesched may not list namespaces, watch namespaces"),
			found("replicas", "warning", "there are no pods with the label"),
			found("leader", "failed", "there is no Lease livesched-system/livesched")))
	})

	It("finds definitions of another version, or that are not served", func(ctx context.Context) {
		definition := &unstructured.Unstructured{}
		definition.SetAPIVersion("apiextensions.k8s.io/v1")
		definition.SetKind("CustomResourceDefinition")
		name := client.ObjectKey{Name: "schedulingpolicies.livesched.io"}
		// change changes the only version of the definition.
		change := func(change func(version map[string]any)) {
			Eventually(func(g Gomega) { // the API server writes the status
				g.Expect(k8s.Get(ctx, name, definition)).To(Succeed())
				versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
				g.Expect(err).NotTo(HaveOccurred())
				change(versions[0].(map[string]any))
				g.Expect(unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions")).To(Succeed())
				g.Expect(k8s.Update(ctx, definition)).To(Succeed())
			}).WithContext(ctx).Should(Succeed())
		}
		Expect(k8s.Get(ctx, name, definition)).To(Succeed())
		description, _, err := unstructured.NestedString(schemaOf(definition), "description")
		Expect(err).NotTo(HaveOccurred())
		describe := func(text string) func(map[string]any) {
			return func(version map[string]any) {
				Expect(unstructured.SetNestedField(version, text, "schema", "openAPIV3Schema", "description")).
					To(Succeed())
			}
		}
		change(describe("An older one."))
		defer change(describe(description))
		findings, _ := examine(ctx, "")
		Expect(findings).To(And(
			found("definitions", "warning",
				"schedulingpolicies.livesched.io differs from the definition of this plugin"),
			found("definitions", "ok", "schedulerprofiles.livesched.io is the definition of this plugin")))

		change(func(version map[string]any) { version["served"] = false })
		defer func() {
			change(func(version map[string]any) { version["served"] = true })
			Eventually(func() error { return k8s.List(ctx, &v1alpha1.SchedulingPolicyList{}) }).WithContext(ctx).
				Should(Succeed())
		}()
		findings, code := examine(ctx, "")
		Expect(findings).To(found("definitions", "failed", "schedulingpolicies.livesched.io does not serve v1alpha1"))
		Expect(code).To(Equal(1))
	})

	It("finds permissions that are missing", func(ctx context.Context) {
		grant(ctx)
		role := &rbacv1.ClusterRole{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: "livesched"}, role)).To(Succeed())
		role.Rules[0].Verbs = []string{"list"}
		Expect(k8s.Update(ctx, role)).To(Succeed())
		Eventually(func(g Gomega) { // the authorizer follows with a watch
			findings, _ := examine(ctx, "")
			g.Expect(findings).To(ContainElement(And(HaveField("Check", "rights"), HaveField("State", "failed"),
				HaveField("Message", Equal("ServiceAccount livesched-system/livesched may not watch namespaces, "+
					"watch nodes, watch replicationcontrollers, watch services")))))
		}).WithContext(ctx).Should(Succeed())
	})

	It("checks the permissions of the user that livesched authenticates as", func(ctx context.Context) {
		rights := func() finding {
			var findings []finding
			got := kubectl(ctx, "doctor", "-o", "json", "--livesched-namespace=kube-system",
				"--livesched-user=system:kube-scheduler")
			Expect(json.Unmarshal([]byte(got.out), &findings)).To(Succeed(), got.errOut)
			at := slices.IndexFunc(findings, func(f finding) bool { return f.Check == "rights" })
			return findings[at]
		}
		Expect(rights()).To(And(HaveField("State", "failed"),
			HaveField("Message",
				HavePrefix("User system:kube-scheduler may not list schedulerprofiles.livesched.io, "))))
		text, err := os.ReadFile(filepath.Join(testcluster.Root(), "config", "kubeadm", "rbac.yaml"))
		Expect(err).NotTo(HaveOccurred())
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(document), object)).To(Succeed())
			lent(ctx, object)
		}
		Eventually(rights).Should(And(HaveField("State", "ok"), // the authorizer follows with a watch
			HaveField("Message", "User system:kube-scheduler has the permissions of config/rbac/role.yaml")))
	})

	It("finds replicas that are not ready, alone or of different versions, and a leader that is gone",
		func(ctx context.Context) {
			replica(ctx, "livesched-0", "livesched:v1", corev1.ConditionTrue)
			lease := leaseOf("livesched-system", "livesched", "livesched-0_x", time.Now().Add(-time.Hour))
			lent(ctx, lease)
			findings, _ := examine(ctx, "")
			Expect(findings).To(And(
				found("replicas", "warning", "there is one replica"),
				found("leader", "failed", "the leader livesched-0_x has not renewed the Lease "+
					"livesched-system/livesched for 60m: no pods are scheduled")))

			replica(ctx, "livesched-1", "livesched:v2", corev1.ConditionFalse)
			lease.Spec.HolderIdentity = ptr.To("")
			Expect(k8s.Update(ctx, lease)).To(Succeed())
			findings, _ = examine(ctx, "")
			Expect(findings).To(And(
				found("replicas", "failed", "the replica livesched-1 is not ready"),
				found("replicas", "warning", "the replicas run different images: livesched:v1, livesched:v2"),
				found("leader", "failed", "no replica holds the Lease")))
		})

	It("finds a webhook that cannot be called", func(ctx context.Context) {
		key := client.ObjectKey{Namespace: "livesched-system", Name: "livesched-webhook"}
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "livesched"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.livesched.io", AdmissionReviewVersions: []string{"v1"},
				SideEffects:   ptr.To(admissionregistrationv1.SideEffectClassNone),
				FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					Service: &admissionregistrationv1.ServiceReference{Namespace: key.Namespace, Name: key.Name}},
			}},
		}
		lent(ctx, configuration)
		findings, _ := examine(ctx, "")
		Expect(findings).To(And(
			found("webhook", "failed", "validate.livesched.io has no caBundle"),
			found("webhook", "failed", "the Service livesched-system/livesched-webhook of the webhook is missing")))

		By("installing what is missing")
		bundle, _, err := certutil.GenerateSelfSignedCertKey("livesched", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		configuration.Webhooks[0].ClientConfig.CABundle = bundle
		Expect(k8s.Update(ctx, configuration)).To(Succeed())
		lent(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 443}}},
		})
		findings, _ = examine(ctx, "")
		Expect(findings).To(found("webhook", "failed",
			"the Service livesched-system/livesched-webhook of the webhook has no ready endpoint"))
		lent(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
				Labels: map[string]string{discoveryv1.LabelServiceName: key.Name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		})
		findings, _ = examine(ctx, "")
		Expect(findings).To(found("webhook", "ok", "validate.livesched.io has an authority, and pods that answer"))
	})

	It("finds other schedulers of the same pods", func(ctx context.Context) {
		replica(ctx, "livesched-0", "livesched:v1", corev1.ConditionTrue)
		create(ctx, profile("default-scheduler"), profile("shared"))
		lent(ctx, leaseOf("kube-system", "kube-scheduler", "control-plane-1_x", time.Now()))
		event := func(name, host string, at time.Time) *eventsv1.Event {
			return &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, EventTime: metav1.NewMicroTime(at),
				ReportingController: "shared", ReportingInstance: "shared-" + host, Action: "Binding",
				Reason: "Scheduled", Type: corev1.EventTypeNormal,
				Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "x"},
			}
		}
		lent(ctx, event("own", "livesched-0", time.Now()), event("old", "long-gone", time.Now().Add(-time.Hour)))
		findings, _ := examine(ctx, "")
		Expect(findings).To(found("other schedulers", "failed",
			`kube-scheduler runs (control-plane-1_x renewed the Lease kube-system/kube-scheduler), and a profile has `+
				`the scheduler name "default-scheduler"`))
		Expect(findings).NotTo(found("other schedulers", "failed", "reports about pods"))

		waits := profile("default-scheduler")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(waits), waits)).To(Succeed())
		meta.SetStatusCondition(&waits.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonSchedulerNameInUse,
		})
		Expect(k8s.Status().Update(ctx, waits)).To(Succeed())
		findings, _ = examine(ctx, "")
		Expect(findings).To(found("other schedulers", "warning",
			`so the profile with the scheduler name "default-scheduler" waits`))

		lent(ctx, event("other", "second-scheduler-7d9f", time.Now()))
		findings, code := examine(ctx, "")
		Expect(code).To(Equal(1))
		Expect(findings).To(found("other schedulers", "failed",
			`second-scheduler-7d9f, not a replica of livesched, reports about pods with the scheduler name "shared"`))
	})

	It("finds profiles that are rejected, shadowed, or waiting", func(ctx context.Context) {
		create(ctx, profile("unseen"))
		findings, _ := examine(ctx, "")
		Expect(findings).To(found("profiles", "failed", "livesched has not processed schedulerprofile/unseen"))

		startLivesched(ctx)
		elder := profile("elder")
		create(ctx, elder)
		expectProgrammed(ctx, elder)
		create(ctx,
			profile("younger", func(spec *v1alpha1.SchedulerProfileSpec) { spec.SchedulerName = "elder" }),
			profile("broken", weight("NoSuchPlugin", 1)),
			profile("early", func(spec *v1alpha1.SchedulerProfileSpec) { spec.PolicyRef.Name = "later" }))
		Eventually(func(g Gomega) {
			findings, code := examine(ctx, "")
			g.Expect(code).To(Equal(1))
			g.Expect(findings).To(And(
				found("profiles", "failed", `schedulerprofile/younger is shadowed by another: spec.schedulerName: `+
					`the older SchedulerProfile "elder"`),
				found("profiles", "failed", "schedulerprofile/broken is rejected (UnknownPlugin)"),
				found("profiles", "warning", "schedulerprofile/early is not active (PolicyNotFound)"),
				Not(found("profiles", "failed", "unseen"))))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("says what it may not read, and does not call that a success or a failure", func(ctx context.Context) {
		findings, code := examine(ctx, "somebody")
		Expect(code).To(Equal(2), fmt.Sprint(findings))
		unmade := []string{"definitions", "rights", "replicas", "leader", "webhook", "other schedulers", "profiles"}
		for _, check := range unmade {
			Expect(findings).To(found(check, "unknown", "you may not read"), check)
		}
		Expect(findings).NotTo(ContainElement(HaveField("State", "failed")))
		got := kubectl(ctx, "doctor", "--as=somebody")
		Expect(got.errOut).To(Equal("error: 8 of 9 checks could not be made: definitions, rights, replicas, leader, " +
			"secure port, webhook, other schedulers, profiles\n"))
		Expect(got.out).To(And(
			HaveSuffix("\n-> definitions, rights, webhook: ask for the permission, or run this as a user who has it\n"+
				"-> replicas, leader: the Role livesched-client in livesched-system permits it\n"+
				"-> other schedulers, profiles: the ClusterRole livesched-viewer permits it, with a "+
				"ClusterRoleBinding\n"),
			MatchRegexp(`(?m)^unknown +definitions +you may not read CustomResourceDefinitions$`)))
		Expect(strings.Count(got.out, "->")).To(Equal(3))
		Expect(strings.Count(got.out, "CustomResourceDefinitions")).To(Equal(1), got.out)

		By("asking livesched with a user who may not")
		livesched := startSecurely(ctx)
		got = kubectlAs(ctx, newUser(ctx, "examines"), append([]string{"doctor"}, livesched...)...)
		Expect(got.code).To(Equal(2))
		Expect(got.out).To(ContainSubstring(`you may not ask livesched: queues.livesched.io is forbidden: User ` +
			`"system:serviceaccount:livesched-system:examines" cannot list resource "queues"`))
		Expect(got.out).To(ContainSubstring("at the cluster scope: the ClusterRole livesched-viewer permits it, with " +
			"a ClusterRoleBinding\n"))
	}, SpecTimeout(5*time.Minute))
})
