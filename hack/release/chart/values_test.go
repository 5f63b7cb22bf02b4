// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// added and removed return the keys of the objects that are in only one of two renderings.
func added(before, after objects) []string {
	var keys []string
	for key := range after {
		if before[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestToggles(t *testing.T) {
	const ns = ownNamespace
	people := []string{
		"ClusterRole /livesched-debugger", "ClusterRole /livesched-metrics-reader",
		"ClusterRole /livesched-policy-editor",
		"ClusterRole /livesched-profile-editor", "ClusterRole /livesched-viewer", "Role " + ns + "/livesched-client",
	}
	for name, test := range map[string]struct {
		values         string
		added, removed []string
	}{
		"no definitions": {
			values: "crds: {install: false}",
			removed: []string{"CustomResourceDefinition /schedulerprofiles.livesched.io",
				"CustomResourceDefinition /schedulingpolicies.livesched.io"},
		},
		"no roles for people": {values: "rbac: {userRoles: false}", removed: people},
		"no budget": {values: "podDisruptionBudget: {enabled: false}",
			removed: []string{"PodDisruptionBudget " + ns + "/livesched"}},
		"no quota": {values: "resourceQuota: {enabled: false}",
			removed: []string{"ResourceQuota " + ns + "/livesched-critical-pods"}},
		"no priority class": {values: `priorityClassName: ""`,
			removed: []string{"ResourceQuota " + ns + "/livesched-critical-pods"}},
		"no flow schemas": {values: "flowSchemas: {enabled: false}",
			removed: []string{"FlowSchema /livesched", "FlowSchema /livesched-leader-election"}},
		"metrics": {values: "metrics: {service: {enabled: true}}",
			added: []string{"Service " + ns + "/livesched-metrics"}},
		"network policy": {values: "networkPolicy: {enabled: true}",
			added: []string{"NetworkPolicy " + ns + "/livesched"}},
		"visibility API": {values: "visibilityAPI: {enabled: true}",
			added: []string{"APIService /v1alpha1.visibility.livesched.io", "ClusterRole /livesched-visibility-api",
				"ClusterRoleBinding /livesched-visibility-api", "Role " + ns + "/livesched-visibility-api",
				"RoleBinding " + ns + "/livesched-visibility-api", "Secret " + ns + "/livesched-visibility-cert",
				"Service " + ns + "/livesched-visibility",
				"ValidatingAdmissionPolicy /livesched-visibility-api",
				"ValidatingAdmissionPolicyBinding /livesched-visibility-api"}},
		"visibility API with a certificate of the user": {
			values: "extraArgs: [--tls-cert-file=/a, --tls-private-key-file=/b]\n" +
				"visibilityAPI: {enabled: true, caBundle: \"-----BEGIN CERTIFICATE-----\"}",
			added: []string{"APIService /v1alpha1.visibility.livesched.io", "Service " + ns + "/livesched-visibility"}},
		"one issuer of our own": {
			values: "webhook: {enabled: true, certManager: {enabled: true}}",
			added: []string{
				"Certificate " + ns + "/livesched-webhook", "Issuer " + ns + "/livesched-webhook",
				"Service " + ns + "/livesched-webhook", "ValidatingWebhookConfiguration /livesched",
			},
		},
		"another issuer": {
			values: "webhook: {enabled: true, certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: " +
				"internal}}}",
			added: []string{
				"Certificate " + ns + "/livesched-webhook", "Service " + ns + "/livesched-webhook",
				"ValidatingWebhookConfiguration /livesched",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before, after := render(t, ""), render(t, test.values)
			g.Expect(added(before, after)).To(Equal(test.added))
			g.Expect(added(after, before)).To(Equal(test.removed))
		})
	}
	t.Run("no roles at all", func(t *testing.T) {
		g := NewWithT(t)
		for key := range render(t, "rbac: {create: false, userRoles: false}") {
			g.Expect(key).NotTo(MatchRegexp("^(Cluster)?Role"))
		}
	})
	t.Run("definitions that are not kept", func(t *testing.T) {
		g := NewWithT(t)
		const key, policy = "CustomResourceDefinition /schedulerprofiles.livesched.io", "helm.sh/resource-policy"
		g.Expect(render(t, "")[key].GetAnnotations()).To(HaveKeyWithValue(policy, "keep"))
		g.Expect(render(t, "crds: {keep: false}")[key].GetAnnotations()).NotTo(HaveKey(policy))
	})
}

func TestVisibilityAuthority(t *testing.T) {
	g := NewWithT(t)
	const values = "visibilityAPI: {enabled: true, caBundle: \"-----BEGIN CERTIFICATE-----\"}\n"
	all := render(t, values+"extraArgs: [--tls-cert-file=/a, --tls-private-key-file=/b]")
	spec, _ := all["APIService /v1alpha1.visibility.livesched.io"].Object["spec"].(map[string]any)
	g.Expect(spec).To(And(HaveKeyWithValue("caBundle", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"),
		HaveKeyWithValue("group", "visibility.livesched.io")))
	_, err := template(t, ownNamespace, values)
	g.Expect(err).To(MatchError(ContainSubstring("visibilityAPI.caBundle: verifies the certificate of --tls-cert-file")))
	_, err = template(t, ownNamespace, "visibilityAPI: {enabled: true, caBundle: nonsense}")
	g.Expect(err).To(MatchError(ContainSubstring("visibilityAPI")))
}

func TestImage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, image := range map[string]string{
		"image: {repository: r.example/livesched}":          "r.example/livesched:latest",
		"image: {repository: r.example/livesched, tag: v1}": "r.example/livesched:v1",
		"image: {repository: r.example/livesched, tag: v1, digest: \"" + digest + "\"}": "r.example/livesched@" +
			digest,
	} {
		_, container := render(t, values).pod(t)
		NewWithT(t).Expect(container["image"]).To(Equal(image))
	}
}

func TestGoMemLimit(t *testing.T) {
	for limit, want := range map[string]string{
		"1Gi": "966367641", "1.5Gi": "1449551462", "500M": "450000000", "2000000000": "1800000000",
		`"2000000000"`: "1800000000", "100Mi": "94371840",
	} {
		_, container := render(t, "resources: {limits: {memory: "+limit+"}}").pod(t)
		NewWithT(t).Expect(container["env"]).To(Equal([]any{map[string]any{"name": "GOMEMLIMIT", "value": want}}),
			limit)
	}
	t.Run("another percentage", func(t *testing.T) {
		_, container := render(t, "resources: {limits: {memory: 1000}}\ngoMemLimitPercent: 50").pod(t)
		NewWithT(t).Expect(container["env"]).To(ContainElement(HaveKeyWithValue("value", "500")))
	})
	t.Run("one that is given wins", func(t *testing.T) {
		_, container := render(t, "resources: {limits: {memory: 1Gi}}\nextraEnv: [{name: GOMEMLIMIT, value: 700MiB}]").
			pod(t)
		NewWithT(t).Expect(container["env"]).To(Equal([]any{map[string]any{"name": "GOMEMLIMIT", "value": "700MiB"}}))
	})
	t.Run("without a limit there is none", func(t *testing.T) {
		_, container := render(t, "").pod(t)
		NewWithT(t).Expect(container).NotTo(HaveKey("env"))
	})
	t.Run("a limit that is no quantity", func(t *testing.T) {
		_, err := template(t, ownNamespace, "resources: {limits: {memory: much}}")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`resources.limits.memory: "much" is not a number`)))
	})
}

// everything sets each value that adds to the pod.
const everything = `
imagePullSecrets: [{name: registry}]
replicas: 3
affinity: {nodeAffinity: {}}
topologySpreadConstraints:
- {topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}
- {topologyKey: row, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
extraArgs: [--max-concurrent-binds=128, -v=2]
extraEnv: [{name: GOGC, value: "50"}]
extraVolumes: [{name: tls, secret: {secretName: tls}}]
extraVolumeMounts: [{name: tls, mountPath: /tls}]
podLabels: {team: a}
podAnnotations: {note: b}
commonLabels: {owner: c}
webhook: {enabled: true, certManager: {enabled: true}}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
networkPolicy:
  enabled: true
  webhookFrom: [{ipBlock: {cidr: 10.0.0.0/24}}]
  securePortFrom: [{namespaceSelector: {}}]
`

func TestPodValues(t *testing.T) {
	g := NewWithT(t)
	all := render(t, everything)
	spec, container := all.pod(t)
	g.Expect(spec["imagePullSecrets"]).To(HaveLen(1))
	g.Expect(spec["topologySpreadConstraints"]).To(HaveExactElements(
		And(HaveKeyWithValue("labelSelector", HaveKeyWithValue("matchLabels", HaveKey("a"))),
			Not(HaveKey("matchLabelKeys"))),
		And(HaveKeyWithValue("labelSelector", HaveKeyWithValue("matchLabels", HaveKey("app.kubernetes.io/name"))),
			HaveKey("matchLabelKeys"))))
	g.Expect(container["args"]).
		To(ContainElements("--webhook-cert-dir=/var/run/livesched/webhook", "--max-concurrent-binds=128", "-v=2"))
	g.Expect(container["env"]).To(HaveLen(1))
	g.Expect(container["volumeMounts"]).To(HaveLen(2))
	g.Expect(spec["volumes"]).To(HaveLen(2))
	deployment := all["Deployment "+ownNamespace+"/livesched"]
	g.Expect(deployment.Object["spec"]).To(HaveKeyWithValue("template", HaveKeyWithValue("metadata", And(
		HaveKeyWithValue("labels", Equal(map[string]any{"team": "a", "app.kubernetes.io/name": "livesched"})),
		HaveKeyWithValue("annotations", HaveKeyWithValue("note", "b"))))))
	for key, object := range all {
		g.Expect(object.GetLabels()).To(HaveKeyWithValue("owner", "c"), key)
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		g.Expect(all[kind+" "+ownNamespace+"/livesched"].GetLabels()).To(HaveKeyWithValue("release", "prometheus"))
	}
	g.Expect(all["ValidatingWebhookConfiguration /livesched"].GetAnnotations()).
		To(HaveKeyWithValue("cert-manager.io/inject-ca-from", ownNamespace+"/livesched-webhook"))
	g.Expect(all["NetworkPolicy "+ownNamespace+"/livesched"].Object["spec"]).
		To(HaveKeyWithValue("ingress", HaveExactElements(
			HaveKey("from"), Not(HaveKey("from")), HaveKey("from"))))
}

// The chart sets only flags that livesched has. Tests of the command compare that page with it.
func TestFlags(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "flags.md"))
	g.Expect(err).NotTo(HaveOccurred())
	documented := map[string]bool{}
	for _, match := range regexp.MustCompile("`(--?[a-z-]+)").FindAllStringSubmatch(string(page), -1) {
		documented[match[1]] = true
	}
	_, container := render(t, everything).pod(t)
	for _, arg := range container["args"].([]any) {
		flag, _, _ := strings.Cut(arg.(string), "=")
		g.Expect(slices.Collect(maps.Keys(documented))).To(ContainElement(flag))
	}
}
