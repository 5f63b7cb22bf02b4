// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// extended resolves a profile and gives it extenders.
func (e *testEnv) extended(t *testing.T, enabled []string, extenders ...resolve.Extender) *resolve.Profile {
	t.Helper()
	cfg := *e.resolve(t, object("mine", enabled...))
	cfg.Extenders = extenders
	return &cfg
}

// wakers returns the resources whose events requeue a pod that extenders rejected.
func wakers(table queue.HintMap) []fwk.EventResource {
	var found []fwk.EventResource
	for event, hints := range table {
		if slices.ContainsFunc(hints,
			func(h queue.Hint) bool { return h.Plugin == schedframework.ExtenderName && h.Fn == nil }) {
			found = append(found, event.Resource)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestExtendersBelongToAGeneration(t *testing.T) {
	var open atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"NodeNames": []}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()

	fs := &fakes{}
	var seen []fwk.Extender
	e := newTestEnv(t, framework.Registry{"Curious": fs.factory("Curious", func(f *fake) error {
		seen = f.handle.Extenders()
		return nil
	})})
	cfg := e.extended(t, []string{"Curious"},
		resolve.Extender{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true, Timeout: time.Minute},
		resolve.Extender{URLPrefix: "http://second.example"})
	p, err := e.builder().Build(e.ctx, cfg)
	must(t, err)
	if len(seen) != 2 || seen[0].Name() != s.URL || seen[1].Name() != "http://second.example" {
		t.Errorf("a plugin sees %v when it is built", seen)
	}
	for _, resource := range []fwk.EventResource{fwk.Node, fwk.AssignedPod, fwk.PersistentVolumeClaim,
		fwk.ResourceClaim, fwk.StorageClass} {
		if !slices.Contains(wakers(p.Queue.Hints), resource) {
			t.Errorf("events of %s wake no pod that an extender refused", resource)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	bound := []fwk.Extender{p.Extenders(ctx)[0], p.handle.Within(ctx).Extenders()[0]}
	if _, _, _, err := bound[0].Filter(&corev1.Pod{}, nil); err != nil || open.Load() != 1 {
		t.Errorf("a call: %v; %d connections", err, open.Load())
	}
	cancel()
	for _, e := range bound {
		if _, _, _, err := e.Filter(&corev1.Pod{}, nil); err == nil {
			t.Error("a call went on after its context")
		}
	}
	p.Discard(logr.Discard())
	<-p.Closed()
	eventually(t, open.Load).Should(gomega.BeZero())
	if _, _, _, err := seen[0].Filter(&corev1.Pod{}, nil); err != nil {
		t.Errorf("an extender of a generation that is gone: %v", err)
	}
	eventually(t, open.Load).Should(gomega.BeZero())
	e.expectNothingLeft(t)
}

func TestWithoutExtendersNothingWakesPodsForThem(t *testing.T) {
	e := newTestEnv(t, nil)
	p := e.build(t, object("mine"))
	if found := wakers(p.Queue.Hints); len(found) > 0 || p.Extenders(t.Context()) != nil ||
		len(p.handle.Extenders()) > 0 || p.handle.Within(t.Context()) != fwk.Handle(p.handle) {
		t.Errorf("events of %v wake pods; extenders %v", found, p.Extenders(t.Context()))
	}
}

func TestExtendersAreNotCalledAfterTheTerm(t *testing.T) {
	e := newTestEnv(t, nil)
	e.Term = lease.NewTerm(time.Hour)
	p, err := e.builder().Build(e.ctx, e.extended(t, nil,
		resolve.Extender{URLPrefix: "http://127.0.0.1:1", BindVerb: "bind", Timeout: time.Minute}))
	must(t, err)
	defer func() {
		p.Release(logr.Discard())
		<-p.Closed()
	}()
	e.Term.Renew(time.Now())
	e.Term.End()
	if err := p.Extenders(e.ctx)[0].Bind(&corev1.Binding{}); !errors.Is(err, lease.ErrOver) {
		t.Error(err)
	}
}
