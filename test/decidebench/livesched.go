// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decidebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

// livesched is the part of livesched that decides. Apart from the snapshot, its plugins use the
// handle of a kube-scheduler without a cluster.
type livesched struct {
	*upstream
	// inCycle is the context of a scheduling cycle, as the loop makes it.
	inCycle  context.Context
	timing   timing.Cycle
	cache    *cache.Cache
	volumes  *fastpath.VolumeChanges
	snapshot *cache.Snapshot
	decider  *algorithm.Decider
	queue    *queue.Queue // for nominations
	fast     bool         // without it, all decisions take the scalar path
	// profiles take turns. placed is the number of calls of Place.
	profiles []algorithm.Params
	unlike   bool // see Profiles
	placed   int
	// log records the decisions, nil if they are not recorded.
	log *decisionlog.Log
	// beside makes each decision, too, as a shadow does, nil if there is none.
	beside *algorithm.Decider
	shadow algorithm.Params
}

func newLivesched(u *upstream, fast bool, profiles Profiles) (*livesched, error) {
	l := &livesched{
		upstream: u, cache: cache.New(), snapshot: cache.NewSnapshot(), volumes: fastpath.NewVolumeChanges(),
		queue:    queue.New(queue.Config{}),
		profiles: make([]algorithm.Params, profiles.Number), unlike: profiles.Unlike,
	}
	l.inCycle = l.timing.Attach(u.ctx)
	l.fast = fast
	l.queue.Reconfigure(l.logger, &queue.Settings{
		Profiles: map[string]*queue.ProfileSettings{u.profile.SchedulerName: {}},
	}, nil)
	return l, l.Reload()
}

// handle is kube-scheduler's handle with livesched's snapshot.
type handle struct {
	schedframework.Framework
	snapshot *cache.Snapshot
}

func (h handle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }

// Reload implements Cluster: it builds a new instance of each profile, and a new engine, since an
// instance that decides like the one before keeps its classes.
func (l *livesched) Reload() error {
	cfg := algorithm.Config{Snapshot: l.snapshot}
	if l.fast {
		cfg.Engine = fastpath.New(l.snapshot, 0)
	}
	l.decider = algorithm.New(cfg)
	for i := range l.profiles {
		name := l.upstream.profile.SchedulerName
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		profile, err := l.build(name, i)
		if err != nil {
			return err
		}
		l.profiles[i] = profile
	}
	return nil
}

// build builds the i-th profile.
func (l *livesched) build(name string, i int) (algorithm.Params, error) {
	registry := frameworkplugins.NewInTreeRegistry()
	args := map[string]runtime.Object{}
	for _, pc := range l.upstream.profile.PluginConfig {
		args[pc.Name] = pc.Args
	}
	h := handle{Framework: l.framework, snapshot: l.snapshot}
	instances := map[string]fwk.Plugin{}
	for name := range framework.Needed(l.upstream.profile.Plugins) {
		pl, err := registry[name](l.ctx, args[name], h)
		if err != nil {
			return algorithm.Params{}, fmt.Errorf("plugin %s: %w", name, err)
		}
		instances[name] = pl
	}
	plugins, err := framework.Expand(l.upstream.profile.Plugins, instances)
	if err != nil {
		return algorithm.Params{}, err
	}
	if l.unlike {
		plugins.ScoreWeights[names.InterPodAffinity] += int64(i)
	}
	f := framework.New(framework.Config{ProfileName: name, Plugins: plugins, Args: args, Snapshot: l.snapshot,
		Nominator: l.queue.Nominator()})
	return algorithm.Params{Framework: f, PercentageOfNodesToScore: 100, FastPath: fastpath.NewPlan(fastpath.PlanConfig{
		Framework: f, Snapshot: l.snapshot, Informers: l.factory, Volumes: l.volumes,
		Features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
	})}, nil
}

// follow adds a shadow of the first profile.
func (l *livesched) follow() (err error) {
	l.beside = algorithm.New(algorithm.Config{Snapshot: l.snapshot, Engine: fastpath.NewBeside(l.snapshot, 0)})
	l.shadow, err = l.build(l.upstream.profile.SchedulerName, 0)
	l.shadow.EveryNode, l.shadow.Unexplained = true, true
	return err
}

// decideAsShadow makes a decision as shadow.Comparer does.
func (l *livesched) decideAsShadow(pod *corev1.Pod, decision *algorithm.Decision) error {
	if l.beside == nil {
		return nil
	}
	own, err := l.beside.Decide(l.ctx, l.shadow, schedframework.NewCycleState(), pod)
	if err == nil && !own.IsBest(decision.SuggestedHost) {
		err = fmt.Errorf("the shadow does not agree with %s: it chose %s", decision.SuggestedHost, own.SuggestedHost)
	}
	return err
}

// AddNode implements Cluster.
func (l *livesched) AddNode(node *corev1.Node) { l.cache.AddNode(l.logger, node) }

// UpdateNode implements Cluster.
func (l *livesched) UpdateNode(before, after *corev1.Node) {
	l.cache.UpdateNode(l.logger, before, after)
}

// AddPod implements Cluster.
func (l *livesched) AddPod(pod *corev1.Pod) error { return l.cache.AddPod(l.logger, pod) }

// AddCSINode implements Cluster.
func (l *livesched) AddCSINode(node *storagev1.CSINode) error {
	if err := l.upstream.AddCSINode(node); err != nil {
		return err
	}
	l.volumes.OnAdd(node, false)
	return nil
}

// Nominate implements Cluster.
func (l *livesched) Nominate(pod *corev1.Pod, node string) error {
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	l.queue.Nominator().AddNominatedPod(l.logger, info, to(node))
	return nil
}

// Denominate implements Cluster.
func (l *livesched) Denominate(pod *corev1.Pod) { l.queue.Nominator().DeleteNominatedPodIfExists(pod) }

// Close implements Cluster.
func (l *livesched) Close() {
	l.queue.Close()
	l.upstream.Close()
}

// Refresh implements Cluster.
func (l *livesched) Refresh() error { return l.cache.UpdateSnapshot(l.logger, l.snapshot) }

// Place implements Cluster.
func (l *livesched) Place(pod *corev1.Pod) (string, error) {
	if err := l.Refresh(); err != nil {
		return "", err
	}
	profile := l.profiles[l.placed%len(l.profiles)]
	l.placed++
	decision, err := l.decider.Decide(l.inCycle, profile, schedframework.NewCycleState(), pod)
	if err != nil {
		return "", err
	}
	if err := errors.Join(l.record(pod, &decision), l.decideAsShadow(pod, &decision)); err != nil {
		return "", err
	}
	assumed := *pod
	assumed.Spec.NodeName = decision.SuggestedHost
	if decision.Class.ID != 0 {
		return decision.SuggestedHost, l.cache.AssumePodOfClass(l.logger, &assumed, decision.Class)
	}
	info, err := schedframework.NewPodInfo(&assumed)
	if err != nil {
		return "", err
	}
	return decision.SuggestedHost, l.cache.AssumePod(l.logger, info)
}

// record does what the scheduling loop and the binding cycle do to record a decision.
func (l *livesched) record(pod *corev1.Pod, decision *algorithm.Decision) error {
	if l.log == nil {
		return nil
	}
	d := decisionlog.Decision{
		Pod: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: podgroup.KeyOf(pod).Name, Time: time.Now(),
		Attempt: 1, Profile: l.upstream.profile.SchedulerName, Revision: "b47874bsgc",
		Changes: l.snapshot.Changes(), Class: decision.Class.ID,
		Nodes: l.snapshot.NumNodes(), Evaluated: decision.EvaluatedNodes, Feasible: decision.FeasibleNodes,
		Node: decision.SuggestedHost, Total: decision.Total, Tied: decision.TiedNodes, Result: decisionlog.Binding,
	}
	number := l.log.Append(&d)
	defer l.log.Finish(number, decisionlog.Bound)
	if !l.log.Wants(&d) {
		return nil
	}
	start := time.Now()
	top, err := decision.Top(l.ctx, decisionlog.TopNodes)
	l.log.SetTop(number, top, time.Now(), time.Since(start))
	return err
}
