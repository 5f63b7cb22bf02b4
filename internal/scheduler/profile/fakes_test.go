// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// fake is an out-of-tree plugin that does what its template specifies at the points where builds
// call plugins.
type fake struct {
	name    string
	ctx     context.Context // the context that it was built with
	handle  fwk.Handle
	events  func() ([]fwk.ClusterEventWithHint, error)
	onClose func() error
	closes  atomic.Int32
}

func (f *fake) Name() string { return f.name }

func (f *fake) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (f *fake) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if f.events == nil {
		return nil, nil
	}
	return f.events()
}

func (f *fake) Close() error {
	f.closes.Add(1)
	if f.onClose == nil {
		return nil
	}
	return f.onClose()
}

// fakes makes the factories of fakes and keeps the fakes.
type fakes struct {
	mu   sync.Mutex
	made []*fake
}

// factory returns the factory of a fake that adjust changes, or that fails with adjust's error.
func (fs *fakes) factory(name string, adjust func(*fake) error) frameworkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		f := &fake{name: name, ctx: ctx, handle: handle}
		if adjust != nil {
			if err := adjust(f); err != nil {
				return nil, err
			}
		}
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.made = append(fs.made, f)
		return f, nil
	}
}

// expectClosed checks all fakes of each name: each was closed once and its context has ended.
func (fs *fakes) expectClosed(t *testing.T, names ...string) {
	t.Helper()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var made []string
	for _, f := range fs.made {
		made = append(made, f.name)
		if closes := f.closes.Load(); closes != 1 {
			t.Errorf("plugin %s was closed %d times", f.name, closes)
		}
		if f.ctx.Err() == nil {
			t.Errorf("the context of plugin %s has not ended", f.name)
		}
	}
	if len(made) != len(names) {
		t.Errorf("made were %v, not %v", made, names)
	}
}

// registry has the fakes First and Last, which do nothing, and one that is built between them.
func (fs *fakes) registry(adjust func(*fake) error) framework.Registry {
	return framework.Registry{
		"AFirst": fs.factory("AFirst", nil),
		"Broken": fs.factory("Broken", adjust),
		"ZLast":  fs.factory("ZLast", nil),
	}
}
