// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

func TestLint(t *testing.T) {
	for name, text := range map[string]string{"defaults": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			for _, message := range lint.AllWithKubeVersion(path(), values(t, text), ownNamespace, kubeVersion).
				Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

// Every property of the schema has a default, and so a description in the README. The schema
// refuses the reverse, when the chart is rendered.
func TestSchemaHasNoOtherNames(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(path(), "values.schema.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var schema map[string]any
	g.Expect(json.Unmarshal(text, &schema)).To(Succeed())
	properties := schema["properties"].(map[string]any)
	delete(properties, "global")
	expectDefaults(g, "", properties, load(t).Values)
}

func expectDefaults(g Gomega, parent string, properties, defaults map[string]any) {
	for name, property := range properties {
		g.Expect(defaults).To(HaveKey(name), "values.yaml has no %s%s", parent, name)
		inner, _ := property.(map[string]any)["properties"].(map[string]any)
		section, _ := defaults[name].(map[string]any)
		// An empty section takes fields of Kubernetes' API; resources do, too.
		if inner != nil && len(section) > 0 && name != "resources" {
			expectDefaults(g, parent+name+".", inner, section)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for text, message := range map[string]string{
		"replica: 3":                                            "replica",
		"image: {name: livesched}":                              "name",
		"image: {repository: ''}":                               "repository",
		"image: {digest: 0123}":                                 "digest",
		"image: {pullPolicy: Sometimes}":                        "pullPolicy",
		"replicas: two":                                         "replicas",
		"replicas: -1":                                          "replicas",
		"webhook: {certmanager: {enabled: true}}":               "certmanager",
		"crds: {enabled: false}":                                "enabled",
		"resources: {limit: {memory: 1Gi}}":                     "limit",
		"tolerations: [{effects: NoSchedule}]":                  "effects",
		"topologySpreadConstraints: [{topologyKey: zone}]":      "maxSkew",
		"extraArgs: [max-concurrent-binds=1]":                   "extraArgs",
		"extenderSecrets: [{namespace: gpus, names: []}]":       "names",
		"extenderSecrets: [{names: [tls]}]":                     "namespace",
		"podDisruptionBudget: {enabled: true, minAvailable: 1}": "minAvailable",
		"podDisruptionBudget: {maxUnavailable: half}":           "maxUnavailable",
		"commonLabels: {app.kubernetes.io/name: other}":         "propertyName",
		"podLabels: {app.kubernetes.io/name: other}":            "propertyName",
		"goMemLimitPercent: 900":                                "goMemLimitPercent",
	} {
		t.Run(strings.ReplaceAll(text, "/", " "), func(t *testing.T) {
			_, err := template(t, ownNamespace, text)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("schema"), ContainSubstring(message))))
		})
	}
	t.Run("but takes values for all charts", func(t *testing.T) {
		_, err := template(t, ownNamespace, "global: {region: a}")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
}
