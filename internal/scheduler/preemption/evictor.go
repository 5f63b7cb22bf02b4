// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Config holds the dependencies of an Evictor. All fields are required.
type Config struct {
	Client clientset.Interface
	// Pods is the informers' cache, which shows a deletion before the queue handles it.
	Pods  corev1listers.PodLister
	Queue Queue
	// Nominator has the nominations of the queue.
	Nominator Nominator
	// WaitingPods and PodsInPreBind hold the pods whose binding cycles a preemption may end.
	WaitingPods   *framework.WaitingPods
	PodsInPreBind *framework.PodsInPreBind
}

// Queue is the part of the scheduling queue that preemption needs.
type Queue interface {
	// Ungate admits a preemptor that PreEnqueue of this plugin held back, and applies the events
	// that it missed.
	Ungate(logger klog.Logger, preemptor types.UID, plugin string)
	// RetryLater requeues a preemptor after its back-off.
	RetryLater(logger klog.Logger, preemptor types.UID)
}

// Nominator has the nominations of pods; see queue.Nominator.
type Nominator interface {
	framework.Nominator
	// NodeOf returns the node for which a pod is nominated, "" if it is not.
	NodeOf(pod types.UID) string
}

// Evictor carries out the preemptions of the process, for all instances of all profiles. It takes
// the place of upstream's Executor, which keeps its state in the instance, and leaves a preemptor
// behind whose victims are gone before it ends (kubernetes/kubernetes#141694).
//
// Each preemption runs in its own goroutine, which ends with its last call to the API server. The
// preemptor is held back until then, or until all of its victims are known to be deleted.
// Afterwards the deletion of a victim is the event that wakes it. The event may come earlier, while
// the preemptor is held back: the queue remembers it, and Ungate makes up for it. So the preemptor
// is tried again exactly when something has changed, and never waits for an event that it missed.
//
// A preemptor that is tried again before its victims are gone must not preempt others. Upstream
// recognises such victims by their status, and the node by the preemptor's status. The informers
// may know neither yet, and a victim whose binding cycle was ended has no such status. The Evictor
// therefore remembers the last preemption of each nominated pod; see awaited.
//
// Its methods may be called by any goroutine, except for awaited and begin, which belong to the
// goroutine of the scheduling loop, as the snapshot does.
type Evictor struct {
	Config
	ctx    context.Context // of the goroutines, until Close
	cancel context.CancelCauseFunc

	// dryRuns are those of all Plugins. They belong to the goroutine of the scheduling loop.
	dryRuns *dryRuns

	// running counts the goroutines. No goroutine is added once closed is set.
	running sync.WaitGroup

	// mu guards the fields below. PreEnqueue takes it while the queue holds Queue.mu, so the holder
	// of mu must not call the queue, except to read nominations.
	mu     sync.Mutex
	closed bool
	// active has the preemptions of each preemptor that have not ended: one as a rule, as a
	// preemptor that is held back begins no other.
	active map[types.UID][]*preemption
	// latest has the last preemption of each preemptor. A sweep drops those that no longer matter,
	// when the map has doubled since the last one.
	latest map[types.UID]*preemption
	// sweepAt is the size of latest at which it is swept.
	sweepAt int
	// rejected holds the victims whose binding cycles were ended, until latest drops the
	// preemption. A pod that is assumed again is another object, which rejected does not hold. Its
	// UID and resource version may be the same.
	rejected map[*corev1.Pod]struct{}
}

// preemption is one preemption. It is immutable, except for the states of its victims, which
// Evictor.mu guards.
type preemption struct {
	preemptor *corev1.Pod
	node      string
	plugin    string
	victims   []*victim
}

func newPreemption(preemptor *corev1.Pod, node, plugin string, victims []*corev1.Pod) *preemption {
	p := &preemption{preemptor: preemptor, node: node, plugin: plugin}
	for _, pod := range victims {
		p.victims = append(p.victims, &victim{pod: pod})
	}
	return p
}

var errStopping = errors.New("the scheduler is stopping")

// NewEvictor returns the Evictor of the process. ctx contributes its values only; Close ends it.
func NewEvictor(ctx context.Context, cfg Config) *Evictor {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &Evictor{
		Config:   cfg,
		ctx:      ctx,
		cancel:   cancel,
		dryRuns:  newDryRuns(),
		active:   map[types.UID][]*preemption{},
		latest:   map[types.UID]*preemption{},
		sweepAt:  minSweep,
		rejected: map[*corev1.Pod]struct{}{},
	}
}

// Close waits for the active preemptions and cancels them when ctx ends. None begin afterwards.
func (e *Evictor) Close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { e.cancel(errStopping) })
	defer stop()
	e.running.Wait()
	e.cancel(errStopping)
}

// begin carries out a preemption in the background. From now on PreEnqueue holds its preemptor
// back. handle belongs to the instance that decided, which may be retired before the preemption
// ends.
func (e *Evictor) begin(handle fwk.Handle, p *preemption) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.sweepLocked()
	e.active[p.preemptor.UID] = append(e.active[p.preemptor.UID], p)
	e.latest[p.preemptor.UID] = p
	e.running.Go(func() { e.run(handle, p) })
}

// run is the goroutine of a preemption.
func (e *Evictor) run(handle fwk.Handle, p *preemption) {
	logger := klog.LoggerWithValues(klog.FromContext(e.ctx), "preemptor", klog.KObj(p.preemptor), "node", p.node)
	ctx := klog.NewContext(e.ctx, logger)
	start := time.Now()
	logger.V(2).Info("Preempting", "victims", len(p.victims))

	cleared := e.clearNominations(ctx, p)
	evicted := e.evictAll(ctx, handle, p)
	result := schedmetrics.GoroutineResultSuccess
	if !cleared || !evicted {
		result = schedmetrics.GoroutineResultError
	}
	e.end(logger, p, evicted)
	schedmetrics.PreemptionGoroutinesDuration.WithLabelValues(result).Observe(schedmetrics.SinceInSeconds(start))
	schedmetrics.PreemptionGoroutinesExecutionTotal.WithLabelValues(result).Inc()
	logger.V(2).Info("Preempted", "result", result)
}

// end lets the preemptor in again. If a victim could not be evicted, the preemptor is retried after
// its back-off: there may be no event to wake it, and without a pause the pod at the head of the
// queue would send request after request to an API server that refuses.
func (e *Evictor) end(logger klog.Logger, p *preemption, evicted bool) {
	uid := p.preemptor.UID
	e.mu.Lock()
	if rest := slices.DeleteFunc(e.active[uid], func(other *preemption) bool { return other == p }); len(rest) > 0 {
		e.active[uid] = rest
	} else {
		delete(e.active, uid)
	}
	e.mu.Unlock()
	if evicted {
		e.Queue.Ungate(logger, uid, p.plugin)
	} else {
		e.Queue.RetryLater(logger, uid)
	}
}

// isEvicting reports whether victims of the preemptor are still to be evicted. A victim that the
// informers know to be deleted counts as evicted before the API server has answered: the event of
// the last victim's deletion then lets the preemptor in, together with the less important pods that
// the event wakes.
func (e *Evictor) isEvicting(preemptor types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.active[preemptor] {
		if slices.ContainsFunc(p.victims, e.isPendingLocked) {
			return true
		}
	}
	return false
}
