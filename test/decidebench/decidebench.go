// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decidebench measures decisions without an API server: livesched's and kube-scheduler's,
// each on a cluster in its own cache. BenchmarkDecide in package algorithm and hack/bench use it.
//
// The measured part is the work of the scheduling loop for a pod up to its placement: it refreshes
// the snapshot, chooses a node, and assumes the pod there, so that the next decision finds a
// change. Both sides use their default plugins and arguments.
package decidebench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/workload"
)

// The contenders.
const (
	// Livesched scores every node, on the fast path.
	Livesched = "livesched"
	// Recorded is livesched with its decision log, which it has by default. It is not among
	// Contenders: see BenchmarkDecisionLog in package algorithm.
	Recorded = "livesched-recorded"
	// Shadowed is livesched with a shadow of the same spec, which makes every decision, too. It is
	// not among Contenders: see BenchmarkShadow in package algorithm.
	Shadowed = "livesched-shadowed"
	// Scalar is livesched without the fast path.
	Scalar = "livesched-scalar"
	// KubeScheduler samples nodes, as it does by default.
	KubeScheduler = "kube-scheduler"
	// KubeSchedulerAll is kube-scheduler with percentageOfNodesToScore: 100.
	KubeSchedulerAll = "kube-scheduler-100"
)

// Contenders are all contenders that [New] accepts.
var Contenders = []string{Livesched, Scalar, KubeScheduler, KubeSchedulerAll}

// Cluster is a cluster in the cache of one contender, which decides about pods in it. Only one
// goroutine may use it.
//
// The caller must not change objects after passing them to a method.
type Cluster interface {
	// AddNode and UpdateNode report a node, as an informer would do.
	AddNode(node *corev1.Node)
	UpdateNode(before, after *corev1.Node)
	// AddPod reports a pod that has a node.
	AddPod(pod *corev1.Pod) error
	// AddClaim reports a claim and the volume that it is bound to.
	AddClaim(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error
	// AddCSINode reports the drivers of a node.
	AddCSINode(node *storagev1.CSINode) error
	// Nominate nominates a pending pod to a node, as a preemption does. The pod is not scheduled.
	Nominate(pod *corev1.Pod, node string) error
	// Denominate ends the nomination of a pod.
	Denominate(pod *corev1.Pod)
	// Refresh brings the snapshot up to date.
	Refresh() error
	// Place refreshes the snapshot, decides about a pod, assumes it on the chosen node, and returns
	// the node's name.
	Place(pod *corev1.Pod) (node string, err error)
	// Reload drops the state that the contender keeps for classes of pods, as a new instance of the
	// profile with other arguments does. The next decision about a pod of each class is then the
	// first. kube-scheduler has no such state.
	Reload() error
	// Close ends the goroutines of the cluster. It does not wait for kube-scheduler's metric
	// recorder, which ends within a second.
	Close()
}

// New returns the cluster of a contender, without nodes. It contains the namespace and the service
// of package workload.
func New(contender string) (Cluster, error) {
	return NewWithProfiles(contender, Profiles{Number: 1})
}

// Profiles describes the profiles of livesched, which take turns in placing pods. They have the
// default plugins. kube-scheduler has one profile in any case.
type Profiles struct {
	Number int
	// Unlike gives each profile another weight of InterPodAffinity.
	Unlike bool
}

// NewWithProfiles is New for a livesched with several profiles.
func NewWithProfiles(contender string, profiles Profiles) (Cluster, error) {
	if !slices.Contains(Contenders, contender) && contender != Recorded && contender != Shadowed {
		return nil, fmt.Errorf("contender %q: there are %s", contender, strings.Join(Contenders, ", "))
	}
	percentage := int32(100)
	if contender == KubeScheduler {
		percentage = 0
	}
	u, err := newUpstream(percentage)
	if err != nil {
		return nil, err
	}
	if contender == KubeScheduler || contender == KubeSchedulerAll {
		return u, nil
	}
	l, err := newLivesched(u, contender != Scalar, profiles)
	if err != nil {
		u.Close()
		return nil, err
	}
	switch contender {
	case Recorded:
		l.log = decisionlog.New(decisionlog.DefaultSize)
	case Shadowed:
		return l, l.follow()
	}
	return l, nil
}

// upstream is kube-scheduler with neither its informers nor its queue running.
type upstream struct {
	ctx       context.Context
	cancel    context.CancelFunc
	logger    klog.Logger
	scheduler *scheduler.Scheduler
	framework schedframework.Framework
	factory   informers.SharedInformerFactory
	snapshot  *schedcache.Snapshot
	profile   schedconfig.KubeSchedulerProfile
}

func newUpstream(percentage int32) (_ *upstream, err error) {
	schedmetrics.Register()
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	u := &upstream{logger: logr.Discard(), profile: cfg.Profiles[0]}
	u.profile.PercentageOfNodesToScore = &percentage
	u.ctx, u.cancel = context.WithCancel(klog.NewContext(context.Background(), u.logger))
	defer func() {
		if err != nil {
			u.Close()
		}
	}()
	client := fakeclient.NewClientset()
	u.factory = objects.NewInformers(client)
	u.scheduler, err = scheduler.New(u.ctx, client, u.factory, nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(1) },
		scheduler.WithProfiles(*u.profile.DeepCopy()))
	if err != nil {
		return nil, err
	}
	u.framework = u.scheduler.Profiles[u.profile.SchedulerName]
	u.snapshot = u.framework.SnapshotSharedLister().(*schedcache.Snapshot)
	return u, u.addObjects()
}

// addObjects adds the objects that pods refer to, with resource versions, to the informers' stores.
func (u *upstream) addObjects() error {
	service := workload.Service()
	service.ResourceVersion = "1"
	if err := u.factory.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.Namespace, ResourceVersion: "2"}}
	return u.factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace)
}

// AddNode implements Cluster.
func (u *upstream) AddNode(node *corev1.Node) { u.scheduler.Cache.AddNode(u.logger, node) }

// UpdateNode implements Cluster.
func (u *upstream) UpdateNode(before, after *corev1.Node) {
	u.scheduler.Cache.UpdateNode(u.logger, before, after)
}

// AddPod implements Cluster.
func (u *upstream) AddPod(pod *corev1.Pod) error { return u.scheduler.Cache.AddPod(u.logger, pod) }

// AddClaim implements Cluster.
func (u *upstream) AddClaim(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	core := u.factory.Core().V1()
	if err := core.PersistentVolumes().Informer().GetIndexer().Add(volume); err != nil {
		return err
	}
	return core.PersistentVolumeClaims().Informer().GetIndexer().Add(claim)
}

// AddCSINode implements Cluster.
func (u *upstream) AddCSINode(node *storagev1.CSINode) error {
	return u.factory.Storage().V1().CSINodes().Informer().GetIndexer().Add(node)
}

// Nominate implements Cluster.
func (u *upstream) Nominate(pod *corev1.Pod, node string) error {
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	if err := u.factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
		return err
	}
	u.framework.AddNominatedPod(u.logger, info, to(node))
	return nil
}

func to(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

// Denominate implements Cluster.
func (u *upstream) Denominate(pod *corev1.Pod) { u.framework.DeleteNominatedPodIfExists(pod) }

// Refresh implements Cluster.
func (u *upstream) Refresh() error {
	return u.scheduler.Cache.UpdateSnapshot(u.logger, u.snapshot)
}

// Place implements Cluster.
func (u *upstream) Place(pod *corev1.Pod) (string, error) {
	if err := u.Refresh(); err != nil {
		return "", err
	}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return "", err
	}
	result, err := u.scheduler.SchedulePod(u.ctx, u.framework, schedframework.NewCycleState(),
		&schedframework.QueuedPodInfo{PodInfo: info})
	if err != nil {
		return "", err
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = result.SuggestedHost
	return result.SuggestedHost, u.scheduler.Cache.AssumePod(u.logger, assumed)
}

// Reload implements Cluster.
func (u *upstream) Reload() error { return nil }

// Close implements Cluster.
func (u *upstream) Close() { u.cancel() }
