// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func factory(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil }

func TestNewRegistry(t *testing.T) {
	t.Run("an out-of-tree plugin is added to the in-tree ones", func(t *testing.T) {
		got, err := plugins.NewRegistry(framework.Registry{"Mine": factory})
		if err != nil {
			t.Fatal(err)
		}
		if got["Mine"] == nil {
			t.Error("the out-of-tree plugin is missing")
		}
		for name := range resolve.BuiltIn() {
			if got[name] == nil {
				t.Errorf("the plugin %q is missing", name)
			}
		}
		if want := resolve.BuiltIn().Len() + 1; len(got) != want {
			t.Errorf("got %d plugins, want %d", len(got), want)
		}
	})
	t.Run("a name that is taken is rejected, and the error names it", func(t *testing.T) {
		for _, name := range []string{"NodeName", "NodeLabel"} {
			_, err := plugins.NewRegistry(framework.Registry{name: factory})
			if err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
				t.Errorf("got error %v, want one that names %s", err, name)
			}
		}
	})
}
