// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// rest is what has to be done in one decision by plugins whose answers nobody can keep and that
// have no twin: those for volumes and devices, if the pod has such, and those of which nothing is
// known. They are run as they are, on the pod's own state, node by node, on what rows and twins
// have left. The zero value is that there is nothing to do.
//
// The pod is of the same class as one without: what only these plugins go by is in no key.
type rest struct {
	// state is the pod's. It is nil if the plugins were not run. If there are opaque plugins, it is
	// answers: whatever comes of the decision, they are asked once. Otherwise it is trial, as what
	// the others have written has to be taken back when the pod takes the scalar path.
	state   fwk.CycleState
	answers *framework.Answers
	trial   *trial
	// failure is the error of a plugin that has failed to score.
	failure error
	// reason says which plugins they are; None if these have nothing to say about nodes.
	reason Reason
	// filters and scores say that some of them may leave out nodes, and score them.
	filters, scores bool
	// simple says that claims can answer for VolumeBinding and NodeVolumeLimits, others that other
	// plugins may leave out nodes, too. Nodes that are marked are those about which the two were
	// not asked.
	simple, others bool
	// allowed are the nodes that PreFilter has left.
	allowed *fwk.PreFilterResult
	// flat says that the nodes and totals of the decision are in Engine.feasible and Engine.totals.
	flat bool
}

// restScorer is a Score plugin of the rest.
type restScorer struct {
	name string
	kind kind
}

// isOfClaims says whether a plugin is one of those that claims answers for.
func isOfClaims(pl fwk.Plugin) bool {
	return is[*volumebinding.VolumeBinding](pl) || is[*nodevolumelimits.CSILimits](pl)
}

// active says that plugins have something to say about nodes.
func (r *rest) active() bool { return r.reason != None }

// sortRest sorts those plugins that are the rest.
func (g *Plan) sortRest(factory informers.SharedInformerFactory) {
	g.rest = g.framework.Part(func(pl fwk.Plugin) bool { return kindOf(pl).isRest() })
	g.dynamic = g.framework.Part(func(pl fwk.Plugin) bool { return g.devices != "" && pl.Name() == g.devices })
	g.restFilters = g.rest.FilterNames()
	if g.topology != nil && g.answersForClaims() {
		g.stores = newVolumeStores(factory)
		g.ofClaims = g.rest.Part(isOfClaims)
		g.restOthers = g.rest.Part(func(pl fwk.Plugin) bool { return !isOfClaims(pl) })
		g.otherFilters = g.restOthers.FilterNames()
	}
	for _, s := range g.rest.ScorePlugins() {
		if of := kindOf(s.Plugin); of == opaque || mayScore(s.Plugin) {
			g.restScorers = append(g.restScorers, restScorer{s.Plugin.Name(), of})
		}
	}
}

// prepareRest runs PreFilter of the plugins that have to be called for each pod, and finds out what
// is to be done by the rest.
func (e *Engine) prepareRest(ctx context.Context, c *class, state fwk.CycleState, pod *corev1.Pod) Reason {
	g := c.local.gen
	if !g.opaque && !hasClaims(pod) && g.perPod.AllSkip(ctx, state, pod, g.skipped) {
		return None
	}
	r := &e.rest
	r.begin(g.Plan, state)
	allowed, status, _ := g.rest.RunPreFilterPlugins(ctx, r.state, pod)
	if !status.IsSuccess() {
		return Failed // and the scalar path says how
	}
	skipped := r.state.GetSkipFilterPlugins()
	if c.local.extended && !skipped.Has(g.devices) {
		// The answers of NodeResourcesFit are not those of the node alone, then.
		return Devices
	}
	r.allowed = allowed
	r.filters = hasOther(g.restFilters, skipped)
	if r.filters && g.stores != nil && len(e.nominated) == 0 && len(pod.Spec.ResourceClaims) == 0 {
		e.claims.stores = g.stores
		r.simple = e.claims.read(e.snapshot, pod)
		r.others = hasOther(g.otherFilters, skipped)
	}
	r.scores = slices.ContainsFunc(g.restScorers, func(s restScorer) bool { return s.says(skipped) })
	if r.filters || r.scores || !allowed.AllNodes() {
		r.reason = g.restReason(pod)
	}
	return None
}

// begin takes the state that the plugins are run with.
func (r *rest) begin(g *Plan, state fwk.CycleState) {
	if g.opaque {
		r.answers = framework.NewAnswers(state, g.opaques)
		r.state = r.answers
		return
	}
	r.trial = newTrial(state)
	r.state = r.trial
}

// undo leaves the state as good as new. What opaque plugins have written stays there, as they are
// not asked again.
func (r *rest) undo() {
	if r.trial != nil {
		r.trial.undo()
	}
}

// State returns what the scalar path has to be given as the state of a pod for which Decide or
// Settle has just returned a Reason other than None.
func (e *Engine) State(state fwk.CycleState) fwk.CycleState {
	if answers := e.rest.answers; answers != nil && answers.CycleState == state {
		return answers
	}
	return state
}

// Failure returns the error of a plugin of which nothing is known, if it is why the last decision
// ended with Failed: it has failed to score the nodes that fit, and is not to be asked again. nil:
// the scalar path says what has failed.
func (e *Engine) Failure() error { return e.rest.failure }

// says says whether a plugin may have something to say, if those plugins were skipped by PreFilter.
// Those that kindOf knows score nothing then.
func (s *restScorer) says(skipped sets.Set[string]) bool {
	return s.kind == opaque || !skipped.Has(s.name)
}

func (g *Plan) restReason(pod *corev1.Pod) Reason {
	switch {
	case g.opaque:
		return UnknownPlugin
	case ordinaryVolumes(pod.Spec.Volumes):
		return Devices
	}
	return Volumes
}

// filterWithRest collects the nodes that a pod fits which the rest has something to do for. It
// returns how many they are, and how many nodes were looked at.
func (e *Engine) filterWithRest(ctx context.Context, c *class, enough int, pod *corev1.Pod) (feasible, evaluated int, err error) {
	r := &e.rest
	r.flat = true
	candidates := e.NumNodes()
	if r.allowed.AllNodes() {
		e.filter(c, nil)
	} else {
		candidates = e.filterAllowed(c, r.allowed.NodeNames)
	}
	if err := e.leaveOutReserved(ctx, c, pod); err != nil {
		return 0, 0, err
	}
	unasked, err := e.filterRest(ctx, c.local.gen.Plan, enough, pod)
	return len(e.feasible), candidates - unasked, err
}

// filterAllowed is filter for some nodes by name. It returns how many of them exist.
func (e *Engine) filterAllowed(c *class, names sets.Set[string]) int {
	e.feasible, e.sizes = e.feasible[:0], nil
	existing := 0
	for name := range names {
		slot, ok := e.snapshot.SlotOf(name)
		if !ok {
			continue
		}
		existing++
		if c.local.verdict[slot] == fits {
			e.feasible = append(e.feasible, slot)
		}
	}
	slices.Sort(e.feasible)
	e.looked += len(e.feasible)
	e.keep(c)
	return existing
}

// allows says whether PreFilter of the rest has left a node.
func (e *Engine) allows(node string) bool {
	return e.rest.allowed.AllNodes() || e.rest.allowed.NodeNames.Has(node)
}

// filterRest asks the Filter plugins of the rest about the nodes that are left, in parallel, until
// so many are found that they let pass (0: until all are), and leaves out the others. It returns
// how many it has not asked about. A search that may end early begins behind the nodes that the
// last one has asked about, so that every node gets its turn.
func (e *Engine) filterRest(ctx context.Context, g *Plan, enough int, pod *corev1.Pod) (unasked int, err error) {
	r := &e.rest
	ask := r.filters
	if r.simple {
		unknown := e.judgeClaims()
		ask = unknown > 0 || r.others
		if !ask && !r.scores {
			return 0, nil
		}
	}
	n, start := len(e.feasible), 0
	if bounded := enough > 0 && enough < n; bounded {
		slices.Sort(e.feasible)
		start, _ = slices.BinarySearch(e.feasible, e.next)
		start %= n
		defer func() {
			if err == nil {
				e.next = e.asked[len(e.asked)-1] + 1
			}
		}()
	} else {
		enough = n
	}
	e.asked = append(append(e.asked[:0], e.feasible[start:]...), e.feasible[:start]...)
	if !ask {
		e.asked = e.asked[:enough]
		e.feasible = append(e.feasible[:0], e.asked...)
		return n - enough, nil
	}
	e.passed = resized(e.passed, n)
	search := restSearch{nodes: e.asked, enough: int32(enough), passed: e.passed, ask: e.askRest(g, pod)}
	asked, err := search.run(ctx, g.rest.Parallelizer())
	if err != nil {
		return 0, err
	}
	e.feasible = e.feasible[:0]
	for i, slot := range e.asked {
		if search.passed[i] {
			e.feasible = append(e.feasible, slot)
		}
	}
	e.asked = e.asked[:asked]
	return n - asked, nil
}

// askRest returns what asks the Filter plugins of the rest about a node, those that are not known
// to let the pod on it.
func (e *Engine) askRest(g *Plan, pod *corev1.Pod) func(context.Context, cache.Slot) *fwk.Status {
	run := g.rest.RunFilterPlugins
	if len(e.nominated) > 0 {
		run = g.rest.RunFilterPluginsWithNominatedPods
	}
	return func(ctx context.Context, slot cache.Slot) *fwk.Status {
		switch info := e.snapshot.Info(slot); {
		case !e.known(slot):
			return run(ctx, e.rest.state, pod, info)
		case e.rest.others:
			return g.restOthers.RunFilterPlugins(ctx, e.rest.state, pod, info)
		}
		return nil
	}
}

// known says that VolumeBinding and NodeVolumeLimits were not asked about a node, as they let the
// pod on it.
func (e *Engine) known(slot cache.Slot) bool { return e.rest.simple && e.marks[slot] == e.round }

// Settle has to be called for the node that is chosen, of the best ones of the last decision,
// before anything else is. It makes the state what Reserve and the later extension points need for
// that node. With a Reason other than None the pod has to take the scalar path, for which the state
// is as good as new.
func (e *Engine) Settle(ctx context.Context, slot cache.Slot, pod *corev1.Pod) Reason {
	if e.rest.state == nil || !e.known(slot) {
		return None
	}
	status := e.last.local.gen.ofClaims.RunFilterPlugins(ctx, e.rest.state, pod, e.snapshot.Info(slot))
	if !status.IsSuccess() {
		e.rest.undo()
		return Failed
	}
	return None
}

// scoreRest adds the scores of the rest to the totals of the nodes that fit.
func (e *Engine) scoreRest(ctx context.Context, g *Plan, pod *corev1.Pod) error {
	if !e.rest.scores {
		return nil
	}
	err := e.addScores(ctx, g, pod)
	if g.opaque {
		e.rest.failure = err
	}
	return err
}

func (e *Engine) addScores(ctx context.Context, g *Plan, pod *corev1.Pod) error {
	r := &e.rest
	nodes := make([]fwk.NodeInfo, len(e.feasible)) // plugins may keep it in the state
	for i, slot := range e.feasible {
		nodes[i] = e.snapshot.Info(slot)
	}
	if status := g.rest.RunPreScorePlugins(ctx, r.state, pod, nodes); !status.IsSuccess() {
		return statusError(status)
	}
	skippedFilters, skipped := r.state.GetSkipFilterPlugins(), r.state.GetSkipScorePlugins()
	for i := range g.restScorers {
		if s := &g.restScorers[i]; !s.says(skippedFilters) {
			skipped.Insert(s.name)
		}
	}
	scores, status := g.rest.RunScorePlugins(ctx, r.state, pod, nodes)
	if !status.IsSuccess() {
		return statusError(status)
	}
	for i := range scores {
		e.totals[i] += scores[i].TotalScore
	}
	return nil
}

// devicesSkip says whether DynamicResources has, still, nothing to do for a pod.
func (g *Plan) devicesSkip(ctx context.Context, pod *corev1.Pod) bool {
	return g.dynamic.AllSkip(ctx, schedframework.NewCycleState(), pod, nil)
}
