// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func kustomize(t *testing.T, dirs ...string) objects {
	t.Helper()
	built := objects{}
	for _, dir := range dirs {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", dir))
		if err != nil {
			t.Fatal(err)
		}
		text, err := resources.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(built, decode(t, text))
	}
	return built
}

// inCommon removes what only one of the two has: the chart labels its objects and asks Helm to
// keep the definitions, and Helm creates the namespace.
func inCommon(all objects) objects {
	delete(all, "Namespace /"+ownNamespace)
	without := func(all map[string]string, names ...string) map[string]string {
		for _, name := range names {
			delete(all, name)
		}
		if len(all) == 0 {
			return nil
		}
		return all
	}
	for _, object := range all {
		object.SetLabels(without(object.GetLabels(), "helm.sh/chart", "app.kubernetes.io/name",
			"app.kubernetes.io/instance",
			"app.kubernetes.io/version", "app.kubernetes.io/managed-by"))
		object.SetAnnotations(without(object.GetAnnotations(), "helm.sh/resource-policy"))
	}
	return all
}

func TestSameAsKustomize(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		dirs   []string
	}{
		"config/default":             {"", []string{"default"}},
		"config/with-webhook":        {"webhook: {enabled: true}", []string{"with-webhook"}},
		"config/with-visibility-api": {"visibilityAPI: {enabled: true}", []string{"with-visibility-api"}},
		"config/tenancy":             {"schedulerNames: {restrict: true}", []string{"default", "tenancy"}},
		"config/prometheus": {
			"metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
			[]string{"default", "prometheus"},
		},
		"config/extender-secret": {
			"extenderSecrets: [{namespace: gpus, names: [gpu-extender-tls]}]", []string{"default", "extender-secret"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rendered, built := inCommon(render(t, "image: {tag: latest}\n"+test.values)),
				inCommon(kustomize(t, test.dirs...))
			g.Expect(slices.Sorted(maps.Keys(rendered))).To(Equal(slices.Sorted(maps.Keys(built))))
			for key, object := range built {
				g.Expect(cmp.Diff(object.Object, rendered[key].Object)).
					To(BeEmpty(), "%s: - is of config/, + is of charts/livesched", key)
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	g := NewWithT(t)
	manifest, err := template(t, "elsewhere",
		"webhook: {enabled: true}\nschedulerNames: {restrict: true}\nnetworkPolicy: {enabled: true}\n"+
			"visibilityAPI: {enabled: true}")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manifest).NotTo(ContainSubstring(ownNamespace),
		"everything is in the namespace of the release, and refers to it")
	g.Expect(manifest).To(ContainSubstring("system:serviceaccount:elsewhere:livesched"),
		"the admission policy of the webhook")
}
