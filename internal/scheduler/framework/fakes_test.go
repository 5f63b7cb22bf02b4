// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// The fakes of this file do what the test specifies. Those whose function is nil succeed.

type named string

func (n named) Name() string { return string(n) }

type preFilter struct {
	named
	run         func() (*fwk.PreFilterResult, *fwk.Status)
	add, remove func(fwk.PodInfo, fwk.NodeInfo) *fwk.Status
}

func (p *preFilter) PreFilter(context.Context, fwk.CycleState, *corev1.Pod,
	[]fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.run == nil {
		return nil, nil
	}
	return p.run()
}

func (p *preFilter) PreFilterExtensions() fwk.PreFilterExtensions {
	if p.add == nil && p.remove == nil {
		return nil
	}
	return p
}

func (p *preFilter) AddPod(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, pod fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	return p.add(pod, node)
}

func (p *preFilter) RemovePod(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, pod fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	return p.remove(pod, node)
}

type filter struct {
	named
	run func(fwk.NodeInfo) *fwk.Status
}

func (p *filter) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.run == nil {
		return nil
	}
	return p.run(node)
}

type postFilter struct {
	named
	run func() (*fwk.PostFilterResult, *fwk.Status)
}

func (p *postFilter) PostFilter(context.Context, fwk.CycleState, *corev1.Pod,
	fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return p.run()
}

type preScore struct {
	named
	run func() *fwk.Status
}

func (p *preScore) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.run()
}

type score struct {
	named
	run       func(node string) (int64, *fwk.Status)
	normalize func(fwk.NodeScoreList) *fwk.Status
}

func (p *score) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.run(node.Node().Name)
}

func (p *score) ScoreExtensions() fwk.ScoreExtensions {
	if p.normalize == nil {
		return nil
	}
	return p
}

func (p *score) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	return p.normalize(scores)
}

type reserve struct {
	named
	run  func() *fwk.Status
	undo func()
}

func (p *reserve) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	if p.run == nil {
		return nil
	}
	return p.run()
}

func (p *reserve) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {
	if p.undo != nil {
		p.undo()
	}
}

type permit struct {
	named
	run func() (*fwk.Status, time.Duration)
}

func (p *permit) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	return p.run()
}

type preBind struct {
	named
	flight func() (*fwk.PreBindPreFlightResult, *fwk.Status)
	run    func(context.Context) *fwk.Status
}

func (p *preBind) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod,
	string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if p.flight == nil {
		return nil, nil
	}
	return p.flight()
}

func (p *preBind) PreBind(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	if p.run == nil {
		return nil
	}
	return p.run(ctx)
}

type bind struct {
	named
	run func() *fwk.Status
}

func (p *bind) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return p.run() }

type postBind struct {
	named
	run func()
}

func (p *postBind) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) { p.run() }

// quiet returns a context whose logger discards everything.
func quiet(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), logr.Discard())
}

func makePod(name string) *corev1.Pod {
	return objects.Stored(metav1.NamespaceDefault, name)
}

func makeNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// makeNodes returns the nodes as in a snapshot without pods.
func makeNodes(names ...string) []fwk.NodeInfo {
	var nodes []fwk.NodeInfo
	for _, name := range names {
		node := schedframework.NewNodeInfo()
		node.SetNode(makeNode(name))
		nodes = append(nodes, node)
	}
	return nodes
}

// newTestFramework returns a framework for plugins on an empty cluster.
func newTestFramework(plugins *Plugins) *Framework {
	return New(Config{ProfileName: "test", Plugins: plugins, Snapshot: schedcache.NewEmptySnapshot()})
}

func newState() *schedframework.CycleState { return schedframework.NewCycleState() }

func unschedulable(reason string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }

func unresolvable(reason string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// describe formats a status on one line: code, plugin in brackets, message.
func describe(status *fwk.Status) string {
	if status.IsSuccess() {
		return "Success"
	}
	out := status.Code().String()
	if status.Plugin() != "" {
		out += "[" + status.Plugin() + "]"
	}
	if status.Message() != "" {
		out += ": " + status.Message()
	}
	return out
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
