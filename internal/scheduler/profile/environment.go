// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Environment is what every generation of every profile shares and none owns: the state that must
// outlive a reload, and the process's connections. It is filled in once, before the first build,
// and read-only from then on, and never copied; the things that it points to are each safe for
// concurrent use on their own terms.
type Environment struct {
	// Registry holds the factories of all plugins that a profile may name.
	Registry framework.Registry
	// Client is what plugins talk to the API server with, and KubeConfig what they may build
	// clients of their own from.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// Informers is the one informer layer of the process. Each build gets a scope of it.
	Informers *informers.Source
	// Snapshot is the one snapshot of the scheduling loop, refreshed in place: plugins capture the
	// pointer when they are built, so it must not be replaced while any generation lives.
	Snapshot fwk.SharedLister
	// Queue is the one scheduling queue. A plugin of a retired generation may still activate a pod
	// through it, as an asynchronous preemption does when it ends.
	Queue interface {
		fwk.PodNominator
		fwk.PodActivator
		framework.Nominator
		// Ungate and RetryLater are for pods whose preemption has ended; see queue.Queue.
		Ungate(logger klog.Logger, uid types.UID, plugin string)
		RetryLater(logger klog.Logger, uid types.UID)
	}
	// WaitingPods and PodsInPreBind are shared so that a pod that waits under an old generation can
	// be allowed, rejected or preempted by the new one.
	WaitingPods   *framework.WaitingPods
	PodsInPreBind *framework.PodsInPreBind
	// DRAManager and CSIManager track claims, slices, classes and CSINodes, and what was assumed of
	// them. DRAManager is nil (untyped) where dynamic resource allocation is off.
	DRAManager fwk.SharedDRAManager
	CSIManager fwk.CSIManager
	// Recorder returns the event recorder of a scheduler name, which is what its Events name as
	// their reporter.
	Recorder func(schedulerName string) events.EventRecorderLogger
	// EventSources delivers cluster events of the resources that plugins ask for.
	EventSources EventSources
	// Metrics records plugin and extension point durations off the scheduling path. May be nil.
	Metrics *schedmetrics.MetricAsyncRecorder
	// Durable is the state of upstream's plugins that must survive their instances.
	Durable *Durable

	series seriesUsers
}

// EventSources turns changes of API objects into cluster events for the queue.
type EventSources interface {
	// Require makes sure that events of each of these resources are delivered, and waits until the
	// first list of each has been. The release function says that the caller no longer needs them;
	// the last one removes the handlers. On an error nothing is left behind.
	Require(ctx context.Context, resources []fwk.EventResource) (release func(), err error)
}
