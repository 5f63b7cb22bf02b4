// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// TestMain silences kube-scheduler's defaulting, which the tests compare with and which logs every
// plugin that it overrides.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func registered(t testing.TB, others ...string) sets.Set[string] {
	t.Helper()
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	return sets.KeySet(registry).Insert(others...)
}

// defaultHosts are the hosts that livesched allows extenders to be at by default.
func defaultHosts(t testing.TB) resolve.AllowedHosts {
	t.Helper()
	hosts, err := resolve.ParseAllowedHosts(resolve.DefaultAllowedHosts())
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// converted converts a text and fails the test if that fails.
func converted(t testing.TB, text string, o convert.Options) *convert.Result {
	t.Helper()
	documents, err := manifests.Parse("input", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	result, err := convert.Convert(documents, o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// resolve resolves the objects of a result.
func resolveConverted(result *convert.Result, names sets.Set[string]) *resolve.Resolution {
	return resolve.Objects(resolve.Input{Profiles: result.Profiles, Policies: result.Policies, SecretsUnknown: true,
		AllowedHosts: resolve.AnyHost(), Registered: names})
}

// load loads a configuration of v1 with kube-scheduler's code, defaulted and validated as in its
// main program (cmd/kube-scheduler/app/options).
func load(configuration map[string]any) (*schedconfig.KubeSchedulerConfiguration, error) {
	text, err := json.Marshal(configuration)
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	loaded := object.(*schedconfig.KubeSchedulerConfiguration)
	loaded.APIVersion = "kubescheduler.config.k8s.io/v1"
	if aggregate := validation.ValidateKubeSchedulerConfiguration(loaded); aggregate != nil {
		return nil, aggregate
	}
	return loaded, nil
}
