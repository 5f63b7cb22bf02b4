// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow makes the decisions of shadow profiles beside those of the scheduling loop, and
// counts how they compare.
//
//	loop: a pod is decided --> Comparer.Compare --> each shadow decides on the same snapshot
//	                                            --> counts, the cause of some disagreements
//	controllers            --> Comparer.Status  --> status.shadow
//
// A shadow changes nothing that a decision of the loop depends on: it decides with a Decider and an
// Engine of its own, on a CycleState of its own, and nothing follows from its decisions. Of its
// plugins, only those that filter and score are called, with a client that does not write
// (profile.Environment). What a shadow can do is take time, which a budget limits.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

const (
	// decisionTimeout bounds one decision of a shadow: the context of its plugins ends.
	decisionTimeout = time.Second
	// causesEvery is the least time between two disagreements of a shadow whose cause is looked
	// for, which costs more than the decision.
	causesEvery = 100 * time.Millisecond
)

// Config configures a Comparer. All fields are required, but for Memory.
type Config struct {
	// Profiles has the shadows.
	Profiles *profile.Store
	// Snapshot is the snapshot of the scheduling loop.
	Snapshot *cache.Snapshot
	// FastPath reports whether the shadows decide on the fast path, whose classes take up to Memory
	// bytes (0: fastpath.DefaultMemoryLimit).
	FastPath bool
	Memory   int
	// DeferredResizes is that of the loop's Decider: see algorithm.Config.
	DeferredResizes bool
	// Groups are the pod groups, nil if there are none.
	Groups *podgroup.Registry
	Clock  clock.PassiveClock
}

// Comparer makes the decisions of shadows, and counts how their decisions compare.
//
// Wanted and Compare belong to the goroutine of the scheduling loop. Status may be called by any
// goroutine.
type Comparer struct {
	cfg Config
	// profiles are those of the latest call of Wanted. decider is nil until a shadow decides, and
	// after the last one is gone. They belong to the loop, as does budget.
	profiles *profile.Map
	decider  *algorithm.Decider
	budget   budget

	mu sync.Mutex // guards counts and its values
	// counts holds the counts of shadows by their resolve.Profile.ID.
	counts map[string]*counts
}

// New returns a Comparer that has counted nothing.
func New(cfg Config) *Comparer {
	return &Comparer{cfg: cfg, counts: map[string]*counts{}}
}

// Decided is a decision of the scheduling loop, before the pod is assumed.
type Decided struct {
	// Profile is the instance that decided.
	Profile *profile.Instance
	// Pod is the pod as it was decided.
	Pod *corev1.Pod
	// Node is the node that was chosen, "" if the pod fits none. Then Refusals has the reasons.
	Node     string
	Refusals *schedframework.NodeToStatus
	// Incomparable means that the decision depends on more than plugins, nodes and pods, so that a
	// shadow cannot make it along.
	Incomparable bool
}

// Status returns the counts of a shadow, nil if it was not to make any decision since it
// runs.
func (c *Comparer) Status(id string) *v1alpha1.ShadowStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts := c.counts[id]; counts != nil {
		return counts.report()
	}
	return nil
}

// Wanted reports whether there are shadows. Otherwise it forgets what it keeps for them.
func (c *Comparer) Wanted() bool {
	current := c.cfg.Profiles.Current()
	if current != c.profiles {
		c.profiles = current
		c.prune(current)
		if !current.HasShadows() {
			c.decider = nil
		}
	}
	return current.HasShadows()
}

// prune forgets shadows that are gone.
func (c *Comparer) prune(current *profile.Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.counts, func(id string, counts *counts) bool {
		gone := current.ByID(id) == nil
		if gone {
			metrics.ForgetShadow(counts.name)
		}
		return gone
	})
}

// Compare lets the shadows of the profile decide. The snapshot must be the one of the
// decision. It returns how long that took.
func (c *Comparer) Compare(ctx context.Context, d Decided) time.Duration {
	shadows := c.cfg.Profiles.Shadows(d.Profile.SchedulerName())
	if len(shadows) == 0 {
		return 0
	}
	if c.decider == nil {
		c.decider = c.newDecider()
	}
	defer timing.From(ctx).Start().End(timing.Shadows, "")
	began := c.cfg.Clock.Now()
	for _, s := range shadows {
		c.compare(timing.Detach(ctx), &d, s)
	}
	return c.cfg.Clock.Since(began)
}

// newDecider returns a Decider that shares nothing with the loop's but the snapshot.
func (c *Comparer) newDecider() *algorithm.Decider {
	cfg := algorithm.Config{Snapshot: c.cfg.Snapshot, DeferredResizes: c.cfg.DeferredResizes}
	if c.cfg.FastPath {
		cfg.Engine = fastpath.NewBeside(c.cfg.Snapshot, c.cfg.Memory)
	}
	return algorithm.New(cfg)
}

// compare lets a shadow decide, and releases it.
func (c *Comparer) compare(ctx context.Context, d *Decided, s *profile.Instance) {
	defer s.Release(klog.FromContext(ctx))
	if s.Config.Shadow.Profile != d.Profile.Config.Name {
		return // that profile does not run: an older one has its scheduler name
	}
	if d.Profile.IsCanary() {
		return // the stable revision is compared: with both in turn, no comparison would get anywhere
	}
	if percent := s.Config.Shadow.SamplePercent; percent < 100 && rand.Int32N(100) >= percent {
		return
	}
	counts := c.countsOf(d, s)
	began := c.cfg.Clock.Now()
	if d.Incomparable || !c.budget.has(began) {
		c.add(counts, comparison{verdict: skipped})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	found := c.decide(ctx, d, s, counts)
	if s.Config.Shadow.Profile == s.Config.Name { // it is rolled out
		found.owner = c.cfg.Groups.OwnerOf(d.Pod)
	}
	c.add(counts, found)
	c.budget.spend(c.cfg.Clock.Since(began))
}

// countsOf returns the counts of a shadow, which begin anew for another instance of it or another
// revision of the profile.
func (c *Comparer) countsOf(d *Decided, s *profile.Instance) *counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, of := s.Config.ID(), d.Profile.Config
	if known := c.counts[id]; known != nil && known.shadow == s && known.status.ProfileRevision == of.Revision {
		return known
	}
	next := newCounts(s, of, c.cfg.Clock.Now())
	c.counts[id] = next
	return next
}

func (c *Comparer) add(counts *counts, found comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts.add(found)
}

// decide makes the decision of a shadow, and compares it. The loop alone changes the counts, so it
// may read them.
func (c *Comparer) decide(ctx context.Context, d *Decided, s *profile.Instance, counts *counts) comparison {
	decision, err := c.decider.Decide(ctx, algorithm.Params{
		Framework: s.Framework, FastPath: s.FastPath(), EveryNode: true, Unexplained: true,
	}, schedframework.NewCycleState(), d.Pod)
	found := comparison{verdict: d.verdict(&decision, err)}
	switch found.verdict {
	case skipped:
		klog.FromContext(ctx).V(2).Info("A shadow could not decide", "profile", s.Config.Name, "err", err)
	case agreed:
	default:
		c.explain(ctx, d, s, &decision, counts, &found)
	}
	return found
}

// verdict compares the decision of a shadow.
func (d *Decided) verdict(decision *algorithm.Decision, err error) verdict {
	var fitError *schedframework.FitError
	unfit := errors.As(err, &fitError) || errors.Is(err, algorithm.ErrNoNodesAvailable)
	switch {
	case err != nil && !unfit:
		return skipped
	case unfit && d.Node == "":
		return agreed
	case unfit:
		return activeOnlyFits
	case d.Node == "":
		return shadowOnlyFits
	case decision.IsBest(d.Node):
		return agreed
	case decision.Fits(d.Node):
		return nodeScoredLower
	}
	return nodeRefused
}

// explain looks for the cause of a disagreement, unless it did so for another one just before. It
// does so for the first pod that only one of the two can place.
func (c *Comparer) explain(ctx context.Context, d *Decided, s *profile.Instance, decision *algorithm.Decision,
	counts *counts, found *comparison) {
	now := c.cfg.Clock.Now()
	first := found.verdict.mismatch() && counts.status.FirstMismatch == ""
	if !first && now.Sub(counts.explained) < causesEvery {
		return
	}
	counts.explained = now
	var reason string
	var err error
	switch found.verdict {
	case nodeScoredLower:
		err = found.scores(ctx, d, decision)
	case shadowOnlyFits:
		found.point = filterPoint
		found.plugin, reason = d.refusal(decision.SuggestedHost)
	default:
		found.point = filterPoint
		found.plugin, reason, err = c.refusal(ctx, d, s)
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The cause of a disagreement is not known", "profile", s.Config.Name, "err",
			err)
	}
	if first {
		found.text = d.mismatch(found, decision.SuggestedHost, reason)
	}
}

// refusal returns why the profile refuses a node to the pod.
func (d *Decided) refusal(node string) (plugin, reason string) {
	if d.Refusals == nil {
		return "", ""
	}
	status := d.Refusals.Get(node)
	return status.Plugin(), status.Message()
}

// refusal returns why the shadow refuses the node that was chosen.
func (c *Comparer) refusal(ctx context.Context, d *Decided, s *profile.Instance) (plugin, reason string, err error) {
	node, err := c.cfg.Snapshot.NodeInfos().Get(d.Node)
	if err != nil {
		return "", "", err
	}
	check, err := s.Framework.NewCheck(ctx, schedframework.NewCycleState(), d.Pod)
	if err != nil {
		return "", "", err
	}
	refusals, err := check.Node(ctx, node)
	if err != nil || len(refusals) == 0 {
		return "", "", err
	}
	return refusals[0].Plugin(), refusals[0].Message(), nil
}

// mismatch describes a pod that only one of the two can place.
func (d *Decided) mismatch(found *comparison, node, reason string) string {
	pod, of := d.Pod.Namespace+"/"+d.Pod.Name, d.Profile.Config.Name
	text := fmt.Sprintf("Pod %q fits node %q with SchedulerProfile %q, and no node with this shadow", pod, d.Node, of)
	if found.verdict == shadowOnlyFits {
		text = fmt.Sprintf("Pod %q fits node %q with this shadow, and no node with SchedulerProfile %q", pod, node, of)
	}
	if found.plugin == "" {
		return text
	}
	return fmt.Sprintf("%s: plugin %s refuses this node: %s", text, found.plugin, reason)
}
