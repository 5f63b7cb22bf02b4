// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Config holds the dependencies of an Evictor. All fields are required.
type Config struct {
	Client clientset.Interface
	// Cache has the pods as the scheduling loop gets them. It knows of a deletion before the queue
	// gets the event.
	Cache interface {
		PodOf(uid types.UID) *corev1.Pod
	}
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
// Each preemption runs in its own goroutine, those of the pods of a group in one. It ends when the
// cache knows of all deletions. The preemptor is held back until then; the pods of a group wait for
// the victims of all of them. Otherwise each victim whose deletion the informers report late would
// be an event for another attempt in vain.
// Afterwards the end of a victim is the event that wakes it. The event may come earlier, while
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

	// maxLag is how long a preemption waits for the cache after its last call.
	maxLag time.Duration
	// overdueCall is when a call gives its place to another: calls that hang, such as in a webhook
	// for the pods of one namespace, hold up other preemptions for no longer.
	overdueCall time.Duration

	// calls has a place for each victim that is being evicted, and for each nomination that is
	// being cleared; see enter.
	calls chan struct{}

	// mu guards the fields below. PreEnqueue takes it while the queue holds Queue.mu, so the holder
	// of mu must not call the queue, except to read nominations.
	mu     sync.Mutex
	closed bool
	// active has the evictions of each preemptor that have not ended: one as a rule, as a preemptor
	// that is held back begins no other.
	active map[types.UID][]*eviction
	// latest has the last preemption of each preemptor. A sweep drops those that no longer matter,
	// when the map has doubled since the last one.
	latest map[types.UID]*preemption
	// preemptors has the preemptors of latest by their victims.
	preemptors map[types.UID][]types.UID
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

// eviction is what one goroutine carries out: the preemption of a pod, or those of the pods of a
// group.
type eviction struct {
	preemptions []*preemption
	// pending has the victims that isPendingLocked may be true of. Evictor.mu guards it.
	pending []*victim
}

func newEviction(preemptions []*preemption) *eviction {
	n := &eviction{preemptions: preemptions}
	for _, p := range preemptions {
		n.pending = append(n.pending, p.victims...)
	}
	return n
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
		Config:  cfg,
		ctx:     ctx,
		cancel:  cancel,
		dryRuns: newDryRuns(),
		maxLag:  defaultMaxLag,
		calls:   make(chan struct{}, maxCalls),

		overdueCall: defaultOverdueCall,

		active:     map[types.UID][]*eviction{},
		latest:     map[types.UID]*preemption{},
		preemptors: map[types.UID][]types.UID{},
		sweepAt:    minSweep,
		rejected:   map[*corev1.Pod]struct{}{},
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

// begin carries out the preemption of a pod, or those of the pods of a group, in the background.
// From now on PreEnqueue holds the preemptors back. handle belongs to the instance that decided,
// which may be retired before the preemption ends.
func (e *Evictor) begin(handle fwk.Handle, preemptions ...*preemption) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.sweepLocked()
	n := newEviction(preemptions)
	for _, p := range preemptions {
		e.active[p.preemptor.UID] = append(e.active[p.preemptor.UID], n)
		e.rememberLocked(p)
	}
	e.running.Go(func() { e.run(handle, n) })
}

// run is the goroutine of an eviction.
func (e *Evictor) run(handle fwk.Handle, n *eviction) {
	start := time.Now()
	var failed atomic.Bool
	handle.Parallelizer().Until(e.ctx, len(n.preemptions), func(i int) {
		p := n.preemptions[i]
		ctx, logger := e.contextOf(p)
		logger.V(2).Info("Preempting", "victims", len(p.victims))
		if !e.clearNominations(ctx, p) {
			failed.Store(true)
		}
	}, n.preemptions[0].plugin)
	if !e.evictAll(handle, n) {
		failed.Store(true)
	}
	result := schedmetrics.GoroutineResultSuccess
	if failed.Load() {
		result = schedmetrics.GoroutineResultError
	}
	// As in kube-scheduler, the duration is that of the calls, without the wait for the cache.
	schedmetrics.PreemptionGoroutinesDuration.WithLabelValues(result).Observe(schedmetrics.SinceInSeconds(start))
	schedmetrics.PreemptionGoroutinesExecutionTotal.WithLabelValues(result).Inc()
	e.awaitDeletions(n)
	e.end(n)
	if e.awaitsDeletions(n) {
		time.AfterFunc(lostAfter+lagInterval, func() { e.retryLost(n) })
	}
}

const (
	// defaultMaxLag is that of an Evictor.
	defaultMaxLag = 5 * time.Second
	// lagInterval is how often awaitDeletions looks.
	lagInterval = 10 * time.Millisecond
)

// awaitDeletions waits until the cache knows of the deletions of the victims, which takes
// milliseconds as a rule. Victims that could not be evicted do not count. It does not wait for
// long: a watch may be interrupted. Then the preemptor waits for the victims that the cache still
// has; see awaited.
func (e *Evictor) awaitDeletions(n *eviction) {
	ctx, cancel := context.WithTimeout(e.ctx, e.maxLag)
	defer cancel()
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	for e.awaitsDeletions(n) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// awaitsDeletions reports whether the cache does not know of all deletions yet. Close ends the
// wait.
func (e *Evictor) awaitsDeletions(n *eviction) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.closed && e.hasPendingLocked(n)
}

// contextOf returns the context of a preemption, and its logger, which names the preemptor.
func (e *Evictor) contextOf(p *preemption) (context.Context, klog.Logger) {
	logger := klog.LoggerWithValues(klog.FromContext(e.ctx), "preemptor", klog.KObj(p.preemptor), "node", p.node)
	return klog.NewContext(e.ctx, logger), logger
}

// end lets the preemptors in again. If a victim could not be evicted, its preemptor is retried
// after its back-off: there may be no event to wake it, and without a pause the pod at the head of
// the queue would send request after request to an API server that refuses.
func (e *Evictor) end(n *eviction) {
	e.mu.Lock()
	for _, p := range n.preemptions {
		uid := p.preemptor.UID
		if rest := slices.DeleteFunc(e.active[uid], func(other *eviction) bool { return other == n }); len(rest) > 0 {
			e.active[uid] = rest
		} else {
			delete(e.active, uid)
		}
	}
	e.mu.Unlock()
	for _, p := range n.preemptions {
		_, logger := e.contextOf(p)
		evicted := e.evicted(p)
		logger.V(2).Info("Preempted", "evicted", evicted)
		if evicted {
			e.Queue.Ungate(logger, p.preemptor.UID, p.plugin)
		} else {
			e.Queue.RetryLater(logger, p.preemptor.UID)
		}
	}
}

// retryLost retries the preemptors whose victims run although the API server has accepted their
// deletions, unless the process ends: nothing else may happen that wakes them.
func (e *Evictor) retryLost(n *eviction) {
	for _, p := range n.preemptions {
		if e.hasLost(p) {
			_, logger := e.contextOf(p)
			logger.Info("The deletion of a victim is lost; trying the preemptor again")
			e.Queue.RetryLater(logger, p.preemptor.UID)
		}
	}
}

// hasLost reports whether a victim of a preemption runs although its deletion was accepted.
func (e *Evictor) hasLost(p *preemption) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.closed && e.latest[p.preemptor.UID] == p && e.isNominated(p) && slices.ContainsFunc(p.victims,
		func(v *victim) bool { return v.isBack(e.Cache.PodOf(v.pod.UID)) })
}

// evicted reports whether all victims of a preemption have been evicted.
func (e *Evictor) evicted(p *preemption) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !slices.ContainsFunc(p.victims, func(v *victim) bool { return v.state == pending || v.state == failed })
}

// isEvicting reports whether victims of the preemptor, or of the other pods of its group, are still
// to be evicted. A victim that the cache knows to be deleted counts as evicted before the API
// server has answered: the event of the last victim's deletion then lets the preemptor in, together
// with the less important pods that the event wakes.
func (e *Evictor) isEvicting(preemptor types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.active[preemptor], e.hasPendingLocked)
}
