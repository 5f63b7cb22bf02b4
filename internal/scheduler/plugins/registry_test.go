// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
)

func factory(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil }

func TestNewRegistry(t *testing.T) {
	t.Run("an out-of-tree plugin stands beside every in-tree one", func(t *testing.T) {
		got, err := plugins.NewRegistry(framework.Registry{"Mine": factory})
		if err != nil {
			t.Fatal(err)
		}
		if got["Mine"] == nil {
			t.Error("the out-of-tree plugin is missing")
		}
		for name := range schedplugins.NewInTreeRegistry() {
			if got[name] == nil {
				t.Errorf("the in-tree plugin %q is missing", name)
			}
		}
	})
	t.Run("a name that an in-tree plugin has is refused, and named", func(t *testing.T) {
		_, err := plugins.NewRegistry(framework.Registry{"NodeName": factory})
		if err == nil || !strings.Contains(err.Error(), `"NodeName"`) {
			t.Errorf("got error %v, want one that names NodeName", err)
		}
	})
}
