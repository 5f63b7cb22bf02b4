// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientinformers "k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Handle gives the plugins of one instance access to the scheduler. Plugins may keep it and call it
// from their own goroutines, even after their instance was retired. For everything that outlives an
// instance, the Handle delegates to the Environment, so these calls still work.
//
// The embedded Framework is nil until all plugins of the instance are built. A constructor that
// runs extension points fails its build.
type Handle struct {
	*framework.Framework
	fwk.PodNominator
	fwk.PodActivator
	env           *Environment
	informers     clientinformers.SharedInformerFactory
	parallelizer  fwk.Parallelizer
	services      []*extender.Extender // in the order in which they are called
	extenders     []fwk.Extender       // the same with a context of the plugins
	recorder      events.EventRecorderLogger
	schedulerName string
}

var _ fwk.Handle = &Handle{}

// ProfileName is the scheduler name of the profile.
func (h *Handle) ProfileName() string { return h.schedulerName }

// SnapshotSharedLister returns the scheduling loop's snapshot; see fwk.Handle for when it may be
// read.
func (h *Handle) SnapshotSharedLister() fwk.SharedLister { return h.env.Snapshot }

// MutableSnapshotSharedLister returns the same snapshot. Plugins cannot change it: that is for
// plugins that preempt at PodGroupPostFilter, which livesched does not call.
func (h *Handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return fixedSnapshot{h.env.Snapshot}
}

// fixedSnapshot is a snapshot that plugins cannot change.
type fixedSnapshot struct{ *cache.Snapshot }

var errFixed = errors.New("livesched does not support changes of the snapshot by plugins")

func (fixedSnapshot) StartMutations() error                            { return errFixed }
func (fixedSnapshot) EndMutations() error                              { return errFixed }
func (fixedSnapshot) AddPod(fwk.PodInfo, string) error                 { return errFixed }
func (fixedSnapshot) RemovePod(klog.Logger, *corev1.Pod, string) error { return errFixed }

// ClientSet returns the client of the process.
func (h *Handle) ClientSet() clientset.Interface { return h.env.Client }

// KubeConfig returns the configuration that ClientSet was built from. Plugins must not change it.
func (h *Handle) KubeConfig() *rest.Config { return h.env.KubeConfig }

// EventRecorder returns the recorder for the scheduler name of this profile.
func (h *Handle) EventRecorder() events.EventRecorderLogger { return h.recorder }

// SharedInformerFactory returns the instance's scope of the process's informers. Handlers that are
// added through it are removed when the instance is closed.
func (h *Handle) SharedInformerFactory() clientinformers.SharedInformerFactory { return h.informers }

// SharedDRAManager returns the process-wide manager of dynamic resources, or nil if the feature is
// off.
func (h *Handle) SharedDRAManager() fwk.SharedDRAManager { return h.env.Devices.DRA }

// SharedCSIManager returns the process-wide manager of CSINodes.
func (h *Handle) SharedCSIManager() fwk.CSIManager { return h.env.Devices.CSI }

// Parallelizer returns a parallelizer with the parallelism of the profile's policy.
func (h *Handle) Parallelizer() fwk.Parallelizer { return h.parallelizer }

// Extenders returns the extenders of the profile's policy.
func (h *Handle) Extenders() []fwk.Extender { return h.extenders }

// Within implements preemption.Handle.
func (h *Handle) Within(ctx context.Context) fwk.Handle {
	if len(h.extenders) == 0 {
		return h
	}
	within := *h
	within.extenders = extender.Bound(ctx, h.services)
	return &within
}

// APIDispatcher is nil, also with the feature SchedulerAsyncAPICalls, as it is in kube-scheduler
// 1.37 without it. The in-tree plugins then send their requests themselves: DefaultBinder, which
// waits for the binding in either case, in a binding goroutine. The other uses of a dispatcher are
// in the core, where package podstatus and the Evictor write in the background.
func (h *Handle) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher is nil; see APIDispatcher.
func (h *Handle) APICacher() fwk.APICacher { return nil }

// PodGroupManager is nil: livesched keeps the states of pod groups in a form of its own. Of the
// in-tree plugins that livesched runs, only the one for devices asks for it: see groupHandle.
func (h *Handle) PodGroupManager() fwk.PodGroupManager { return nil }

// IterateOverWaitingPods calls back for each pod that waits on Permit, under any instance of any
// profile.
func (h *Handle) IterateOverWaitingPods(callback func(fwk.WaitingPod)) {
	h.env.WaitingPods.Iterate(callback)
}

// GetWaitingPod returns the waiting pod with this UID, or nil.
func (h *Handle) GetWaitingPod(uid types.UID) fwk.WaitingPod { return h.env.WaitingPods.Get(uid) }

// RejectWaitingPod rejects the waiting pod with this UID. It returns false if there is none.
func (h *Handle) RejectWaitingPod(uid types.UID) bool { return h.env.WaitingPods.Reject(uid) }

// AddPodInPreBind records a pod whose PreBind plugins are about to run.
func (h *Handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.env.PodsInPreBind.Add(uid, cancel)
}

// GetPodInPreBind returns the pod in PreBind with this UID, or nil.
func (h *Handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind { return h.env.PodsInPreBind.Get(uid) }

// RemovePodInPreBind removes the pod in PreBind with this UID.
func (h *Handle) RemovePodInPreBind(uid types.UID) { h.env.PodsInPreBind.Remove(uid) }
