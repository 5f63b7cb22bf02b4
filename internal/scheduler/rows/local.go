// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Verdicts of the local filters on a slot, those from refused on being refusals by position.
const (
	fits    uint16 = iota // the local filters let the pod pass
	noNode                // there is no node in the slot
	refused               // refused by statuses[0]; refused+1 by statuses[1] ...
)

// localRows is what the local plugins say of the pods with one local key, for each node. It is kept up through the
// snapshot's change log: what a node's row says holds until the log mentions the node.
type localRows struct {
	key string
	gen *generation
	// state is what PreFilter and PreScore of the local plugins left for these pods.
	state *schedframework.CycleState
	// named says that PreFilter named the nodes that are left. Such pods take the scalar path, on few nodes.
	named bool
	// extended says that the pods ask for resources that devices may stand behind.
	extended bool
	// classes is the number of classes that use the rows.
	classes int
	// twins are those of PodTopologySpread that classes may share, by cross.key, and groups all that are in use.
	twins  map[string]*cross
	groups []*groups
	// bytes is what the rows were last accounted with.
	bytes int

	// pos is the position in the log up to which the rows are right; 0 if they never were.
	pos uint64
	// The columns are by slot. A slot without a node, or on which a filter refuses the pods, has verdict only.
	verdict  []uint16
	statuses []*fwk.Status
	// fixed is the weighted sum of the scores of generation.fixed.
	fixed []int64
	// normalised has the scores of generation.normalised, before normalisation. A column that is nil is all zeros.
	normalised [][]int64
	// skips says for each of generation.normalised whether PreScore skipped: it scores nothing then, not even 0.
	skips  []bool
	images imageColumn
	// feasible is the number of slots with verdict fits, and byFixed has these sorted by fixed.
	feasible int
	byFixed  buckets
}

// imageColumn is the scores of ImageLocality.
type imageColumn struct {
	// names are those that the pods' images may go by.
	names []string
	// What the scores depend on besides the nodes: how many nodes there are, and for each name its size and the number of
	// nodes that have it. epoch is the snapshot's at which that was looked up.
	epoch  uint64
	nodes  int
	known  []imageCount
	exists bool // some image is on some node
	// scores by slot, weighted; nil: all zeros. version counts how often they changed in other slots than the log says.
	scores  []int64
	version uint64
}

type imageCount struct {
	size  int64
	nodes int
}

// newLocalRows asks the local plugins what they make of the pods before they have seen a node.
func (g *generation) newLocalRows(ctx context.Context, key string, pod *corev1.Pod) (*localRows, error) {
	l := &localRows{key: key, gen: g, state: schedframework.NewCycleState(), extended: requestsExtended(pod)}
	allowed, status, _ := g.local.RunPreFilterPlugins(ctx, l.state, pod)
	if !status.IsSuccess() {
		return nil, fmt.Errorf("PreFilter: %w", statusError(status))
	}
	if !allowed.AllNodes() {
		l.named = true
		return l, nil
	}
	nodes, err := g.framework.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	if status := g.local.RunPreScorePlugins(ctx, l.state, pod, nodes); !status.IsSuccess() {
		return nil, fmt.Errorf("PreScore: %w", statusError(status))
	}
	l.normalised = make([][]int64, len(g.normalised))
	l.byFixed = newBuckets(g.highestFixed)
	for _, s := range g.normalised {
		l.skips = append(l.skips, l.state.GetSkipScorePlugins().Has(s.name))
	}
	if g.imageWeight != 0 {
		l.images.names = imageNames(nil, pod)
		l.images.known = make([]imageCount, len(l.images.names))
	}
	return l, nil
}

// statusError is the error in a status that is no success, also if it is a refusal.
func statusError(status *fwk.Status) error {
	if err := status.AsError(); err != nil {
		return err
	}
	return errors.New(status.Message())
}

// sync brings the rows up to the snapshot. pod is any that has the key. After an error the rows are of no use.
func (l *localRows) sync(ctx context.Context, e *Engine, pod *corev1.Pod) error {
	l.state.SetRecordPluginMetrics(e.record)
	changes, ok := e.snapshot.Log().Since(l.pos)
	l.grow(e.snapshot.Slots())
	if !ok || 2*len(changes) > e.snapshot.Slots() {
		if err := l.rebuild(ctx, e, pod); err != nil {
			return err
		}
	} else {
		e.beginMarks()
		for _, change := range changes {
			if !e.mark(change.Slot) {
				continue
			}
			if err := l.refresh(ctx, e, change.Slot, pod); err != nil {
				return err
			}
		}
	}
	l.pos = e.snapshot.Log().End()
	return l.syncImages(ctx, e, pod, changes, !ok)
}

// grow makes the columns as long as there are slots.
func (l *localRows) grow(slots int) {
	if len(l.verdict) >= slots {
		return
	}
	add := slots - len(l.verdict)
	for range add {
		l.verdict = append(l.verdict, noNode)
	}
	l.fixed = append(l.fixed, make([]int64, add)...)
	l.byFixed.grow(slots)
	for i, column := range l.normalised {
		if column != nil {
			l.normalised[i] = append(column, make([]int64, add)...)
		}
	}
	if l.images.scores != nil {
		l.images.scores = append(l.images.scores, make([]int64, add)...)
	}
}

// row is what the local plugins say of one node.
type row struct {
	status *fwk.Status // nil: the pod fits
	scores []int64     // by position in generation.local's ScorePlugins
}

// ask has the local plugins say it. scores is for the row to use.
func (l *localRows) ask(ctx context.Context, info fwk.NodeInfo, pod *corev1.Pod, scores []int64) (row, error) {
	status := l.gen.local.RunFilterPlugins(ctx, l.state, pod, info)
	if status.IsSuccess() {
		clear(scores)
		if status := l.gen.local.ScoreNode(ctx, l.state, pod, info, scores); !status.IsSuccess() {
			return row{}, statusError(status)
		}
		return row{scores: scores}, nil
	}
	if !status.IsRejected() {
		return row{}, statusError(status)
	}
	return row{status: status}, nil
}

// refresh asks about the node in a slot.
func (l *localRows) refresh(ctx context.Context, e *Engine, slot cache.Slot, pod *corev1.Pod) error {
	info := e.snapshot.Info(slot)
	if info == nil {
		return l.put(slot, noNode, nil)
	}
	e.rowScores = resized(e.rowScores, len(l.gen.fixed)+len(l.gen.normalised))
	r, err := l.ask(ctx, info, pod, e.rowScores)
	if err != nil {
		return err
	}
	return l.enter(slot, r)
}

// enter keeps a row.
func (l *localRows) enter(slot cache.Slot, r row) error {
	if r.status == nil {
		return l.put(slot, fits, r.scores)
	}
	verdict, err := l.refusal(r.status)
	if err != nil {
		return err
	}
	return l.put(slot, verdict, nil)
}

// refusal returns the verdict that stands for a status. The filters have few different things to say.
func (l *localRows) refusal(status *fwk.Status) (uint16, error) {
	for i, known := range l.statuses {
		if known.Code() == status.Code() && known.Plugin() == status.Plugin() && slices.Equal(known.Reasons(), status.Reasons()) {
			return refused + uint16(i), nil
		}
	}
	if len(l.statuses) >= maxStatuses {
		return 0, errors.New("too many different refusals")
	}
	l.statuses = append(l.statuses, status)
	return refused + uint16(len(l.statuses)-1), nil
}

// maxStatuses bounds the refusals that differ. A plugin that names each node in its refusals is not worth keeping.
const maxStatuses = 256

// put writes a row into the columns.
func (l *localRows) put(slot cache.Slot, verdict uint16, scores []int64) error {
	var fixed int64
	if verdict == fits {
		for _, s := range l.gen.fixed {
			score := scores[s.at]
			if score < fwk.MinScore || score > fwk.MaxScore {
				return fmt.Errorf("score plugin %q: a score of %d is out of range", s.name, score)
			}
			fixed += score * s.weight
		}
	}
	if l.verdict[slot] == fits {
		l.feasible--
		l.byFixed.remove(slot, l.fixed[slot])
	}
	l.verdict[slot], l.fixed[slot] = verdict, fixed
	if verdict == fits {
		l.feasible++
		l.byFixed.add(slot, fixed)
	}
	for i, s := range l.gen.normalised {
		var score int64
		if verdict == fits {
			score = scores[s.at]
		}
		if l.normalised[i] == nil {
			if score == 0 {
				continue
			}
			l.normalised[i] = make([]int64, len(l.verdict))
		}
		l.normalised[i][slot] = score
	}
	return nil
}

// even says that all nodes that the pods fit get the same scores from all local plugins but those of generation.fixed.
func (l *localRows) even() bool {
	if !l.byFixed.on() || l.images.scores != nil {
		return false
	}
	for i, column := range l.normalised {
		if !l.skips[i] && (column != nil || l.gen.normalised[i].normalization == byPlugin) {
			return false
		}
	}
	return true
}

// rebuild asks about all nodes, in parallel.
func (l *localRows) rebuild(ctx context.Context, e *Engine, pod *corev1.Pod) error {
	l.pos = 0
	clear(l.normalised)
	l.statuses = l.statuses[:0]
	slots := e.snapshot.Slots()
	width := len(l.gen.fixed) + len(l.gen.normalised)
	rows := make([]row, slots)
	scores := make([]int64, slots*width)
	var failure atomic.Pointer[error]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.gen.framework.Parallelizer().Until(ctx, slots, func(slot int) {
		info := e.snapshot.Info(cache.Slot(slot))
		if info == nil {
			return
		}
		r, err := l.ask(ctx, info, pod, scores[slot*width:(slot+1)*width])
		if err != nil {
			failure.CompareAndSwap(nil, &err)
			cancel()
			return
		}
		rows[slot] = r
	}, schedmetrics.Filter)
	if err := failure.Load(); err != nil {
		return *err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // not all of them were asked about
	}
	for i := range rows {
		slot := cache.Slot(i)
		var err error
		if e.snapshot.Alive(slot) {
			err = l.enter(slot, rows[i])
		} else {
			err = l.put(slot, noNode, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// syncImages brings the scores of ImageLocality up to the snapshot. changes are what the rows were just synced by.
func (l *localRows) syncImages(ctx context.Context, e *Engine, pod *corev1.Pod, changes []cache.Change, all bool) error {
	if l.gen.imageWeight == 0 {
		return nil
	}
	c := &l.images
	moved := l.lookUpImages(e.snapshot)
	if !c.exists {
		if c.scores != nil {
			c.scores = nil
			c.version++
		}
		return nil
	}
	if moved || all || c.scores == nil || 2*len(changes) > e.snapshot.Slots() {
		c.version++
		c.scores = resized(c.scores, len(l.verdict))
		for slot := range c.scores {
			if err := l.scoreImages(ctx, e, cache.Slot(slot), pod); err != nil {
				return err
			}
		}
		return nil
	}
	e.beginMarks()
	for _, change := range changes {
		if e.mark(change.Slot) {
			if err := l.scoreImages(ctx, e, change.Slot, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUpImages looks up what the scores of ImageLocality depend on besides the nodes, and says whether that moved.
func (l *localRows) lookUpImages(snapshot *cache.Snapshot) bool {
	c := &l.images
	if c.epoch == snapshot.ImagesEpoch() && c.nodes == snapshot.NumNodes() {
		return false
	}
	moved := c.nodes != snapshot.NumNodes()
	c.epoch, c.nodes, c.exists = snapshot.ImagesEpoch(), snapshot.NumNodes(), false
	for i, name := range c.names {
		var now imageCount
		now.size, now.nodes = snapshot.Image(name)
		moved = moved || now != c.known[i]
		c.known[i] = now
		c.exists = c.exists || now.nodes > 0
	}
	return moved
}

func (l *localRows) scoreImages(ctx context.Context, e *Engine, slot cache.Slot, pod *corev1.Pod) error {
	l.images.scores[slot] = 0
	if l.verdict[slot] != fits {
		return nil
	}
	var score [1]int64
	if status := l.gen.images.ScoreNode(ctx, l.state, pod, e.snapshot.Info(slot), score[:]); !status.IsSuccess() {
		return statusError(status)
	}
	if score[0] < fwk.MinScore || score[0] > fwk.MaxScore {
		return fmt.Errorf("the images' score %d is out of range", score[0])
	}
	l.images.scores[slot] = score[0] * l.gen.imageWeight
	return nil
}

// size is about what the rows hold in memory.
func (l *localRows) size() int {
	n := 1024 + len(l.key) + 2*cap(l.verdict) + 8*cap(l.fixed) + 8*cap(l.images.scores) + l.byFixed.size()
	for _, column := range l.normalised {
		n += 8 * cap(column)
	}
	return n
}

// resized returns a slice of n, which are whatever they were.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
