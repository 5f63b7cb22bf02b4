// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
)

func quiet(t testing.TB) context.Context { return klog.NewContext(t.Context(), logr.Discard()) }

// oracle is kube-scheduler with a cluster in its cache, and a livesched Scheduler with plugins of
// the same kind and arguments on the same snapshot. Neither is running: no informer, no queue. The
// package differential compares livesched as a whole, with its own cache; here, the algorithm alone
// is compared, including extenders.
type oracle struct {
	t         testing.TB
	ctx       context.Context
	upstream  *scheduler.Scheduler
	framework schedframework.Framework
	factory   informers.SharedInformerFactory
	snapshot  *schedcache.Snapshot

	ours    *Decider
	profile Params

	checkAllFilters bool

	// The nodes that each side passed last to Score plugins.
	upstreamSaw, oursSaw *spy
}

// spy is a plugin that remembers the nodes that passed all filters.
type spy struct{ nodes []fwk.NodeInfo }

func (*spy) Name() string { return "Spy" }

func (s *spy) PreScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s.nodes = slices.Clone(nodes)
	return fwk.NewStatus(fwk.Skip)
}

func (s *spy) names() []string {
	var names []string
	for _, node := range s.nodes {
		names = append(names, node.Node().Name)
	}
	slices.Sort(names)
	return names
}

// setup is the configuration of an oracle.
type setup struct {
	percentage  int32
	parallelism int32
	change      func(*schedconfig.KubeSchedulerProfile) // nil: the default profile
	extenders   func() []fwk.Extender                   // called once per side
	noNodeNames bool                                    // pods do not name nodes in their affinity

	checkAllFilters bool // on our side
}

// newOracle returns an oracle of an empty cluster. Its goroutines end with ctx.
func newOracle(ctx context.Context, t testing.TB, s setup) *oracle {
	t.Helper()
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := cfg.Profiles[0]
	profile.PercentageOfNodesToScore = &s.percentage
	profile.Plugins.PreScore.Enabled = append(profile.Plugins.PreScore.Enabled, schedconfig.Plugin{Name: "Spy"})
	if s.change != nil {
		s.change(&profile)
	}
	o := &oracle{t: t, ctx: ctx, checkAllFilters: s.checkAllFilters, upstreamSaw: &spy{}, oursSaw: &spy{}}
	spying := func(s *spy) frameworkruntime.Registry {
		return frameworkruntime.Registry{"Spy": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return s, nil
		}}
	}
	client := fakeclient.NewClientset()
	o.factory = objects.NewInformers(client)
	o.upstream, err = scheduler.New(ctx, client, o.factory, nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(10) },
		scheduler.WithProfiles(*profile.DeepCopy()), scheduler.WithParallelism(s.parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(spying(o.upstreamSaw)))
	if err != nil {
		t.Fatal(err)
	}
	o.framework = o.upstream.Profiles[profile.SchedulerName]
	o.snapshot = o.framework.SnapshotSharedLister().(*schedcache.Snapshot)

	registry := frameworkplugins.NewInTreeRegistry()
	if err := registry.Merge(spying(o.oursSaw)); err != nil {
		t.Fatal(err)
	}
	o.profile = Params{
		Framework: framework.New(framework.Config{
			ProfileName: profile.SchedulerName,

			CheckAllFilters: s.checkAllFilters,

			Plugins:      o.build(&profile, registry),
			Snapshot:     o.snapshot,
			Parallelizer: framework.NewParallelizer(int(s.parallelism)),
			Nominator:    upstreamNominator{o.upstream.SchedulingQueue},
		}),
		PercentageOfNodesToScore: s.percentage,
	}
	if s.extenders != nil {
		o.upstream.Extenders, o.profile.Extenders = s.extenders(), s.extenders()
	}
	o.ours = New(Config{Snapshot: o.snapshot})
	return o
}

// upstreamNominator is kube-scheduler's queue. It has no numbers, and the scalar path does not need
// them.
type upstreamNominator struct{ fwk.PodNominator }

func (upstreamNominator) Nominations(*corev1.Pod, uint64) framework.NominationChanges {
	panic("not expected")
}

// build makes livesched's plugins.
func (o *oracle) build(profile *schedconfig.KubeSchedulerProfile, registry framework.Registry) *framework.Plugins {
	o.t.Helper()
	args := map[string]runtime.Object{}
	for _, pc := range profile.PluginConfig {
		args[pc.Name] = pc.Args
	}
	instances := map[string]fwk.Plugin{}
	for name := range framework.Needed(profile.Plugins) {
		pl, err := registry[name](o.ctx, args[name], o.framework)
		if err != nil {
			o.t.Fatal(err)
		}
		instances[name] = pl
	}
	plugins, err := framework.Expand(profile.Plugins, instances)
	if err != nil {
		o.t.Fatal(err)
	}
	return plugins
}

// fill puts a random cluster into the cache and the informers' stores.
func (o *oracle) fill(g *generator, nodes, podsPerNode int) []*corev1.Node {
	o.t.Helper()
	logger := klog.FromContext(o.ctx)
	made := g.nodes(nodes)
	for _, node := range made {
		o.upstream.Cache.AddNode(logger, node)
	}
	for _, namespace := range g.namespaces() {
		o.must(o.factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace))
	}
	for _, service := range g.services() {
		o.must(o.factory.Core().V1().Services().Informer().GetIndexer().Add(service))
	}
	for _, node := range made {
		for range g.IntN(podsPerNode + 1) {
			o.place(g.pod(made), node.Name)
		}
	}
	for range g.IntN(6) {
		o.nominate(g.pod(made), pick(g, made).Name)
	}
	o.refresh()
	return made
}

// place runs the pod on the node, whether it fits or not.
func (o *oracle) place(pod *corev1.Pod, node string) {
	o.t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	o.must(o.upstream.Cache.AddPod(klog.FromContext(o.ctx), pod))
}

// nominate puts the pod into the queue as a preemptor that is nominated for the node.
func (o *oracle) nominate(pod *corev1.Pod, node string) {
	o.t.Helper()
	pod.Spec.NodeName = ""
	pod.Status.NominatedNodeName = node
	o.must(o.factory.Core().V1().Pods().Informer().GetIndexer().Add(pod))
	o.upstream.SchedulingQueue.Add(o.ctx, pod)
}

func (o *oracle) refresh() {
	o.t.Helper()
	o.must(o.upstream.Cache.UpdateSnapshot(klog.FromContext(o.ctx), o.snapshot))
}

func (o *oracle) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// upstreamDecision returns kube-scheduler's decision.
func (o *oracle) upstreamDecision(pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	o.t.Helper()
	info, err := schedframework.NewPodInfo(pod)
	o.must(err)
	o.upstreamSaw.nodes = nil
	return o.upstream.SchedulePod(o.ctx, o.framework, schedframework.NewCycleState(),
		&schedframework.QueuedPodInfo{PodInfo: info})
}

// ourDecision returns livesched's decision.
func (o *oracle) ourDecision(pod *corev1.Pod) (Decision, error) {
	o.oursSaw.nodes = nil
	return o.ours.Decide(o.ctx, o.profile, schedframework.NewCycleState(), pod)
}
