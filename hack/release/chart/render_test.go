// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// root is the top of the repository.
	root = "../../.."
	// ownNamespace is the namespace in which config/ runs livesched.
	ownNamespace = "livesched-system"
)

// kubeVersion is the version of the cluster that the chart is rendered for.
var kubeVersion = &chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}

// path returns the path of the chart.
func path() string { return filepath.Join(root, "charts", "livesched") }

// load reads the chart. The caller may change it.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(path())
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// values reads values in YAML, as they are in a file for `helm install -f`.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	read, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// template does what `helm template` does: it renders the chart without a cluster.
func template(t *testing.T, namespace, text string) (string, error) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{Log: t.Logf})
	install.DryRun, install.ClientOnly = true, true
	install.ReleaseName, install.Namespace = "livesched", namespace
	install.KubeVersion = kubeVersion
	release, err := install.Run(load(t), values(t, text))
	if err != nil {
		return "", err
	}
	return release.Manifest, nil
}

// objects has objects by their kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// render returns the objects of the chart with these values.
func render(t *testing.T, text string) objects {
	t.Helper()
	manifest, err := template(t, ownNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, []byte(manifest))
}

func decode(t *testing.T, manifest []byte) objects {
	t.Helper()
	decoded := objects{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return decoded
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		if decoded[key] != nil {
			t.Fatalf("%s is rendered twice", key)
		}
		decoded[key] = object
	}
}

// pod returns the pod template's spec and the container of livesched.
func (o objects) pod(t *testing.T) (spec, container map[string]any) {
	t.Helper()
	spec, _, err := unstructured.NestedMap(o["Deployment "+ownNamespace+"/livesched"].Object, "spec", "template",
		"spec")
	if err != nil {
		t.Fatal(err)
	}
	return spec, spec["containers"].([]any)[0].(map[string]any)
}
