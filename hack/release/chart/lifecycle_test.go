// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/controlplane"
)

// quotaAdmission is what GKE and others have: pods with a critical priority class need a quota.
const quotaAdmission = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [system-cluster-critical, system-node-critical]
`

// cluster is a control plane with kube-controller-manager, and Helm for it.
type cluster struct {
	client.Client
	helm *action.Configuration
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	admission := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(admission, []byte(quotaAdmission), 0o600); err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Progress: t.Output(), WithControllerManager: true,
		APIServerFlags: []string{"--admission-control-config-file=" + admission},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{helm: &action.Configuration{}}
	if c.Client, err = client.New(plane.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, cache, namespace := plane.Kubeconfig(), t.TempDir(), ownNamespace
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &kubeconfig, &cache, &namespace
	if err := c.helm.Init(flags, ownNamespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	return c
}

// previous returns the chart as an older version has it: its definition of profiles lacks a field,
// livesched has no right to delete pods, and there is no budget.
func previous(t *testing.T) *chart.Chart {
	t.Helper()
	g := NewWithT(t)
	old := load(t)
	old.Metadata.Version = "0.0.1"
	var templates []*chart.File
	for _, file := range old.Templates {
		if !strings.HasSuffix(file.Name, "poddisruptionbudget.yaml") {
			templates = append(templates, file)
		}
	}
	g.Expect(templates).To(HaveLen(len(old.Templates) - 1))
	old.Templates = templates
	for name, cut := range map[string][2]string{
		"files/crd/bases/livesched.io_schedulerprofiles.yaml": {"revisionHistoryLimit:", "formerHistoryLimit:"},
		"files/rbac/role.yaml": {"  - pods\n  verbs:\n  - delete\n",
			"  - pods\n  verbs:\n"},
	} {
		changed := false
		for _, file := range old.Files {
			if file.Name == name {
				data := bytes.Replace(file.Data, []byte(cut[0]), []byte(cut[1]), 1)
				changed = !bytes.Equal(data, file.Data)
				file.Data = data
			}
		}
		g.Expect(changed).To(BeTrue(), name)
	}
	return old
}

// TestLifecycle installs an older version, upgrades to this one, rolls back, uninstalls, and
// installs again, in a namespace that enforces the restricted pod security standard.
func TestLifecycle(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	c := startCluster(t)
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	g.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ctx := t.Context()
	g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ownNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})).To(Succeed())

	install := action.NewInstall(c.helm)
	install.ReleaseName, install.Namespace = "livesched", ownNamespace
	_, err := install.RunWithContext(ctx, previous(t), values(t, "webhook: {enabled: true}"))
	g.Expect(err).NotTo(HaveOccurred())
	c.expectPods(ctx, g, 2, "")
	c.expectQuotaNeeded(ctx, g)
	g.Expect(c.mayDeletePods(ctx, g)).To(BeFalse())
	g.Expect(c.knowsHistoryLimit(ctx, g)).To(BeFalse())
	c.writeAsLivesched(ctx, g)
	before := c.createProfile(ctx, g)

	upgrade := action.NewUpgrade(c.helm)
	upgrade.Namespace = ownNamespace
	_, err = upgrade.RunWithContext(ctx, "livesched", load(t),
		values(t, "{replicas: 3, webhook: {enabled: true}, resources: {limits: {memory: 1Gi}}}"))
	g.Expect(err).NotTo(HaveOccurred())
	c.expectPods(ctx, g, 3, "966367641")
	g.Expect(c.mayDeletePods(ctx, g)).To(BeTrue())
	g.Expect(c.knowsHistoryLimit(ctx, g)).To(BeTrue(), "an upgrade upgrades the definitions")
	c.expectKept(ctx, g, before)

	rollback := action.NewRollback(c.helm)
	rollback.Version = 1
	g.Expect(rollback.Run("livesched")).To(Succeed())
	c.expectPods(ctx, g, 2, "")
	g.Expect(c.mayDeletePods(ctx, g)).To(BeFalse())
	c.expectKept(ctx, g, before)

	_, err = action.NewUninstall(c.helm).Run("livesched")
	g.Expect(err).NotTo(HaveOccurred())
	c.expectPods(ctx, g, 0, "")
	g.Expect(c.profile(ctx, g)).To(Equal(before), "a profile survives the release")

	again := action.NewInstall(c.helm)
	again.ReleaseName, again.Namespace = "livesched", ownNamespace
	_, err = again.RunWithContext(ctx, load(t), values(t, ""))
	g.Expect(err).NotTo(HaveOccurred(), "the definitions that stayed are no obstacle")
	c.expectPods(ctx, g, 2, "")
	g.Expect(c.profile(ctx, g)).To(Equal(before))
}

// expectPods waits until kube-controller-manager has created as many pods, all of the newest
// template.
func (c *cluster) expectPods(ctx context.Context, g Gomega, want int, goMemLimit string) {
	g.Eventually(func(g Gomega) {
		deployments := &appsv1.DeploymentList{}
		g.Expect(c.List(ctx, deployments, client.InNamespace(ownNamespace))).To(Succeed())
		for _, deployment := range deployments.Items {
			for _, condition := range deployment.Status.Conditions {
				g.Expect(condition.Type).NotTo(Equal(appsv1.DeploymentReplicaFailure), condition.Message)
			}
		}
		pods := &corev1.PodList{}
		g.Expect(c.List(ctx, pods, client.InNamespace(ownNamespace))).To(Succeed())
		for _, pod := range pods.Items {
			c.becomesReady(ctx, g, &pod)
		}
		g.Expect(pods.Items).To(HaveLen(want))
		for _, pod := range pods.Items {
			g.Expect(pod.Spec.PriorityClassName).To(Equal("system-cluster-critical"))
			if goMemLimit == "" {
				g.Expect(pod.Spec.Containers[0].Env).To(BeEmpty())
			} else {
				g.Expect(pod.Spec.Containers[0].Env).To(HaveExactElements(HaveField("Value", goMemLimit)))
			}
		}
	}).WithContext(ctx).Should(Succeed())
}

// becomesReady does what a kubelet does, so that a rollout goes on.
func (c *cluster) becomesReady(ctx context.Context, g Gomega, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodRunning {
		return
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	err := c.Status().Update(ctx, pod)
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// expectQuotaNeeded checks that the API server refuses pods of livesched where the quota is
// missing.
func (c *cluster) expectQuotaNeeded(ctx context.Context, g Gomega) {
	pods := &corev1.PodList{}
	g.Expect(c.List(ctx, pods, client.InNamespace(ownNamespace))).To(Succeed())
	pod := pods.Items[0].DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{Name: "elsewhere", Namespace: metav1.NamespaceDefault}
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "default", ""
	g.Expect(c.Create(ctx, pod, client.DryRunAll)).
		To(MatchError(ContainSubstring("insufficient quota to match these scopes")))
}

func (c *cluster) mayDeletePods(ctx context.Context, g Gomega) bool {
	role := &rbacv1.ClusterRole{}
	g.Expect(c.Get(ctx, types.NamespacedName{Name: "livesched"}, role)).To(Succeed())
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if resource == "pods" && verb == "delete" {
					return true
				}
			}
		}
	}
	return false
}

// knowsHistoryLimit tells whether the definition of profiles has the field that previous lacks.
func (c *cluster) knowsHistoryLimit(ctx context.Context, g Gomega) bool {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	g.Expect(c.Get(ctx, types.NamespacedName{Name: "schedulerprofiles.livesched.io"}, definition)).To(Succeed())
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	g.Expect(err).NotTo(HaveOccurred())
	_, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties",
		"spec", "properties", "revisionHistoryLimit")
	g.Expect(err).NotTo(HaveOccurred())
	return found
}

// writeAsLivesched writes what livesched writes into objects of the chart.
func (c *cluster) writeAsLivesched(ctx context.Context, g Gomega) {
	g.Expect(c.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ownNamespace,
		Name: "livesched-serving-certs"}},
		client.RawPatch(types.MergePatchType, []byte(`{"data":{"replica":"certificate"}}`)))).To(Succeed())
	g.Expect(c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ownNamespace,
		Name: "livesched-webhook-cert"}},
		client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.crt":"Y2VydA=="}}`)))).To(Succeed())
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	g.Expect(c.Get(ctx, types.NamespacedName{Name: "livesched"}, configuration)).To(Succeed())
	// the API server verifies that it is one
	authority, _, err := certutil.GenerateSelfSignedCertKey("webhook", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	configuration.Webhooks[0].ClientConfig.CABundle = authority
	g.Expect(c.Update(ctx, configuration)).To(Succeed())
}

// expectKept checks that neither the profile nor what livesched wrote has changed.
func (c *cluster) expectKept(ctx context.Context, g Gomega, before metav1.ObjectMeta) {
	certificates, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	g.Expect(c.Get(ctx, types.NamespacedName{Namespace: ownNamespace, Name: "livesched-serving-certs"}, certificates)).
		To(Succeed())
	g.Expect(certificates.Data).To(HaveKey("replica"))
	g.Expect(c.Get(ctx, types.NamespacedName{Namespace: ownNamespace, Name: "livesched-webhook-cert"}, secret)).
		To(Succeed())
	g.Expect(secret.Data).To(HaveKey("tls.crt"))
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	g.Expect(c.Get(ctx, types.NamespacedName{Name: "livesched"}, configuration)).To(Succeed())
	g.Expect(configuration.Webhooks[0].ClientConfig.CABundle).NotTo(BeEmpty())
	g.Expect(c.profile(ctx, g)).To(Equal(before))
}

func newProfile() *unstructured.Unstructured {
	profile := &unstructured.Unstructured{}
	profile.SetGroupVersionKind(schema.GroupVersionKind{Group: "livesched.io", Version: "v1alpha1",
		Kind: "SchedulerProfile"})
	profile.SetName("binpack")
	return profile
}

// createProfile waits until the API server serves the definition, and creates a profile.
func (c *cluster) createProfile(ctx context.Context, g Gomega) metav1.ObjectMeta {
	g.Eventually(func(g Gomega) {
		err := c.Create(ctx, newProfile())
		g.Expect(err == nil || meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		g.Expect(err).NotTo(HaveOccurred())
	}).WithContext(ctx).Should(Succeed())
	return c.profile(ctx, g)
}

// profile returns what identifies the profile, and changes with it.
func (c *cluster) profile(ctx context.Context, g Gomega) metav1.ObjectMeta {
	profile := newProfile()
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(profile), profile)).To(Succeed())
	return metav1.ObjectMeta{UID: profile.GetUID(), Generation: profile.GetGeneration()}
}
