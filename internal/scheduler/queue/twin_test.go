// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/internal/mapkey"
	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/objects"
)

var twinSeed = flag.Uint64("twin-seed", 0, "seed of TestTwin; 0 picks ten at random")

// TestTwin applies the same random operations to the queue and to the model, and compares the state
// of both after each.
func TestTwin(t *testing.T) {
	seeds := []uint64{*twinSeed}
	if *twinSeed == 0 {
		seeds = nil
		for range 10 {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newTwinWorld(t, seed)
			for w.step = range 4000 {
				w.do()
				w.compare()
			}
			t.Log(w.coverage())
		})
	}
}

// twinWorld is a queue, its model, and the cluster whose events both receive.
type twinWorld struct {
	t      *testing.T
	r      *rand.Rand
	step   int
	op     string
	clock  *clocktesting.FakeClock
	store  *store
	queue  *Queue
	model  *model
	uids   int
	tokens int
	// late are the pending calls of informer handlers; the informer cache is ahead of them.
	late []func()
	// popped are the pods of the cycles, with the model's state of each at its Pop.
	popped []popped
	// past holds old versions of pods.
	past []*corev1.Pod
	// doors holds the result of PreEnqueue plugins, by plugin and UID.
	doors map[string]answer
	seen  map[string]int
	// reload is the Reconfigure in progress, old the settings that it replaces.
	reload *reload
	old    *Settings

	gaugesBefore map[string]float64
}

type popped struct {
	info *schedframework.QueuedPodInfo
	was  modelPod
}

var (
	twinProfiles = []string{"red", "green", "blue"}
	twinPlugins  = []string{"P0", "P1", "P2", "P3"}
	twinEvents   = []fwk.ClusterEvent{
		nodeAdded, {Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, claimAdded, classAdded,
		schedframework.EventAssignedPodDelete, schedframework.EventAssignedPodAdd, schedframework.EventForceActivate,
	}
	twinRegistrations = []fwk.ClusterEvent{
		nodeAdded, {Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, claimAdded,
		{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodLabel},
		{Resource: fwk.Pod, ActionType: fwk.UpdatePodSchedulingGatesEliminated},
		{Resource: fwk.Pod, ActionType: fwk.All}, {Resource: fwk.WildCard, ActionType: fwk.All},
	}
	twinSorts = []fwk.LessFunc{
		defaultLess,
		func(a, b fwk.QueuedEntityInfo) bool { return objects.Queued(a).UID > objects.Queued(b).UID },
		func(a, b fwk.QueuedEntityInfo) bool {
			return objects.Queued(a).Labels["l"] < objects.Queued(b).Labels["l"]
		},
	}
)

func newTwinWorld(t *testing.T, seed uint64) *twinWorld {
	ownmetrics.PendingPods.Reset() // what other queues have left would go with the profile
	w := &twinWorld{
		t:            t,
		r:            rand.New(rand.NewPCG(seed, 1)),
		clock:        clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		store:        newStore(),
		doors:        map[string]answer{},
		seen:         map[string]int{},
		gaugesBefore: gathered(t, ""),
	}
	w.queue = New(Config{Clock: w.clock, PodLister: w.store.lister(), DeferredResizes: true})
	w.model = &model{
		now:        w.clock.Now,
		known:      w.known,
		settings:   &Settings{},
		pods:       map[types.UID]*modelPod{},
		nominees:   map[types.UID]modelNominee{},
		preEnqueue: w.preEnqueue,
		hint:       twinHint,
	}
	w.reconfigure()
	for w.reload != nil {
		w.turn()
	}
	return w
}

func (w *twinWorld) known(pod *corev1.Pod) *corev1.Pod {
	known, err := corev1listers.NewPodLister(w.store.Indexer).Pods(pod.Namespace).Get(pod.Name)
	if err != nil || known.UID != pod.UID || !waits(known) {
		return nil
	}
	return known
}

// twinDoor is a PreEnqueue plugin of a twinWorld.
type twinDoor struct {
	name string
	w    *twinWorld
}

func (d twinDoor) Name() string { return d.name }

func (d twinDoor) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	switch d.w.preEnqueue(d.name, pod) {
	case no:
		return refusal
	case fails:
		return fwk.AsStatus(errors.New("sorry"))
	case panics:
		panic("sorry")
	}
	return nil
}

// twinUngater is a twinDoor that the queue asks before it runs PreEnqueue again.
type twinUngater struct{ twinDoor }

func (u twinUngater) GatesUntilUngated(pod *corev1.Pod) bool {
	return u.w.preEnqueue(u.name, pod) == no
}

func (w *twinWorld) preEnqueue(plugin string, pod *corev1.Pod) answer {
	if len(pod.Spec.SchedulingGates) != 0 && plugin == "P0" {
		return no
	}
	return w.doors[plugin+string(pod.UID)]
}

// twinToken is the object of an event.
type twinToken struct{ n int }

// twinHint is a hint whose result is arbitrary but deterministic. P0 and P1 read the UID and the
// label of a pod, P2 the label, and P3 the label and, after some events, the UID. After an event
// about the pod itself, all read the UID.
func twinHint(plugin string, pod *corev1.Pod, newObj any) answer {
	h := fnv.New32()
	if token, ok := newObj.(*twinToken); ok {
		fmt.Fprint(h, token.n)
	}
	fmt.Fprint(h, plugin, pod.Labels["l"])
	if about, ok := newObj.(*corev1.Pod); ok && about.UID == pod.UID || plugin < "P2" || plugin == "P3" &&
		twinDiffers(nil, newObj) {
		fmt.Fprint(h, pod.UID)
	}
	switch h.Sum32() % 12 {
	case 0, 1:
		return yes
	case 2:
		return fails
	case 3:
		return panics
	}
	return no
}

// twinDiffers is HintKey.Differs of P3.
func twinDiffers(_, newObj any) bool {
	token, ok := newObj.(*twinToken)
	return ok && token.n%3 == 0
}

// twinKeys are the keys of P2 and P3. Pods with one of the labels have none.
func twinKeys() map[string]HintKey {
	write := func(w *mapkey.Writer, pod *corev1.Pod) bool {
		w.Text(pod.Labels["l"])
		return pod.Labels["l"] != "3"
	}
	return map[string]HintKey{"P2": {Write: write}, "P3": {Write: write, Differs: twinDiffers}}
}

func (w *twinWorld) profile() *ProfileSettings {
	p := &ProfileSettings{
		InitialBackoff:     time.Duration(w.r.IntN(4)) * 700 * time.Millisecond,
		MaxBackoff:         time.Duration(w.r.IntN(4)) * 4 * time.Second,
		MaxInUnschedulable: time.Duration(1+w.r.IntN(5)) * time.Minute,
		Hints:              HintMap{},
		HintKeys:           twinKeys(),
	}
	for _, name := range twinPlugins {
		if w.r.IntN(3) == 0 {
			door := twinDoor{name, w}
			p.PreEnqueue = append(p.PreEnqueue, []fwk.PreEnqueuePlugin{door, twinUngater{door}}[w.r.IntN(2)])
		}
		for range w.r.IntN(3) {
			event := twinRegistrations[w.r.IntN(len(twinRegistrations))]
			hint := Hint{Plugin: name}
			if w.r.IntN(5) != 0 {
				hint.Fn = func(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
					switch twinHint(name, pod, newObj) {
					case yes:
						return fwk.Queue, nil
					case fails:
						return fwk.QueueSkip, errors.New("sorry")
					case panics:
						panic("sorry")
					}
					return fwk.QueueSkip, nil
				}
			}
			p.Hints[event] = append(p.Hints[event], hint)
		}
	}
	return p
}

func (w *twinWorld) do() {
	w.clock.Step(time.Millisecond)
	if len(w.late) != 0 && w.r.IntN(3) == 0 {
		w.op = "deliver"
		w.late[0]()
		w.late = w.late[1:]
		return
	}
	ops := []struct {
		name   string
		weight int
		do     func()
	}{
		{"create", 18, w.create}, {"update", 14, w.update}, {"delete", 4, w.deletePod}, {"replace", 2, w.replace},
		{"bind", 3, w.bindElsewhere}, {"defer", 4, w.deferResize},
		{"addOld", 4, w.addOld}, {"pop", 22, w.pop}, {"done", 5, w.done}, {"requeue", 22, w.requeue},
		{"event", 14, w.event}, {"activate", 5, w.activate},
		{"clock", 8, w.tick}, {"door", 8, w.door}, {"nominate", 5, w.nominate},
		{"ungate", 8, w.ungate}, {"retry", 3, w.retryLater}, {"reconfigure", 1, w.reconfigure}, {"turn", 8, w.turn},
		{"flush", 3, w.flush}, {"reportHeld", 4, w.reportHeld},
	}
	total := 0
	for _, op := range ops {
		total += op.weight
	}
	n := w.r.IntN(total)
	for _, op := range ops {
		if n -= op.weight; n < 0 {
			w.op = op.name
			op.do()
			return
		}
	}
}

// handler is a call of an informer's handler, now or later. Those of one informer come in order.
func (w *twinWorld) handler(call func()) {
	if len(w.late) != 0 || w.r.IntN(8) == 0 {
		w.late = append(w.late, call)
		return
	}
	call()
}

func (w *twinWorld) pending() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.store.List() {
		if pod := obj.(*corev1.Pod); waits(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// any returns a random element, or the zero value if there is none.
func anyOf[T any](r *rand.Rand, list []T) (one T, ok bool) {
	if len(list) == 0 {
		return one, false
	}
	return list[r.IntN(len(list))], true
}

func (w *twinWorld) newPod(name string) *corev1.Pod {
	w.uids++
	pod := newPod(name, uid(types.UID(fmt.Sprint("u", w.uids))), scheduler(twinProfiles[w.r.IntN(len(twinProfiles))]),
		priority(int32(w.r.IntN(3))))
	if w.r.IntN(8) == 0 {
		gates("x")(pod)
	}
	w.randomize(pod)
	return pod
}

func (w *twinWorld) randomize(pod *corev1.Pod) {
	if w.r.IntN(3) == 0 {
		controlledBy(fmt.Sprint("c", w.r.IntN(5)))(pod)
	}
	label("l", fmt.Sprint(w.r.IntN(4)))(pod)
	if w.r.IntN(4) == 0 {
		nominated(fmt.Sprint("n", w.r.IntN(3)))(pod)
	} else if w.r.IntN(2) == 0 {
		nominated("")(pod)
	}
}

func (w *twinWorld) create() {
	pod := w.newPod(fmt.Sprint("p", w.r.IntN(40)))
	if _, exists, err := w.store.GetByKey("ns/" + pod.Name); exists || err != nil {
		return
	}
	w.store.set(pod)
	w.handler(func() {
		w.queue.Add(logger, pod)
		w.model.add(pod)
	})
}

func (w *twinWorld) update() {
	pod, ok := anyOf(w.r, w.pending())
	if !ok {
		return
	}
	newer := objects.Edited(pod, w.randomize)
	if w.r.IntN(2) == 0 {
		gates()(newer)
	}
	w.past = append(w.past, pod)
	w.store.set(newer)
	if w.r.IntN(6) == 0 {
		w.handler(func() {
			w.queue.UpdateAssumed(logger, pod, newer)
			w.model.update(pod, newer, false)
		})
		return
	}
	w.handler(func() {
		w.queue.Update(logger, pod, newer)
		w.model.update(pod, newer, true)
	})
}

func (w *twinWorld) deletePod() {
	if pod, ok := anyOf(w.r, w.pending()); ok {
		w.past = append(w.past, pod)
		w.store.unset(pod)
		w.handler(func() { w.deleted(pod) })
	}
}

func (w *twinWorld) deleted(pod *corev1.Pod) {
	w.queue.Delete(logger, pod)
	w.model.delete(pod)
}

// replace deletes a pod and creates one of its name, and the informer sees only one change.
func (w *twinWorld) replace() {
	if pod, ok := anyOf(w.r, w.pending()); ok {
		newer := w.newPod(pod.Name)
		w.past = append(w.past, pod)
		w.store.set(newer)
		w.handler(func() {
			w.queue.Update(logger, pod, newer)
			w.model.update(pod, newer, true)
		})
	}
}

// deferResize assigns a pod to a node, wherever it is in the queue, and defers its resize there.
func (w *twinWorld) deferResize() {
	pod, ok := anyOf(w.r, w.pending())
	if !ok || pod.Spec.NodeName != "" {
		return
	}
	bound := objects.Edited(pod, onNode("n"), resize(corev1.PodReasonDeferred))
	w.past = append(w.past, pod)
	w.store.set(bound)
	w.handler(func() {
		w.deleted(pod)
		w.queue.Add(logger, bound)
		w.model.add(bound)
		w.note("deferred, then %v", w.queue.pods[bound.UID] != nil)
	})
}

// bindElsewhere assigns a pod to a node, wherever it is in the queue, or ends its resize. It is
// deleted some time later.
func (w *twinWorld) bindElsewhere() {
	pod, ok := anyOf(w.r, w.pending())
	if !ok {
		return
	}
	bound := objects.Edited(pod, onNode("n"), resize(""))
	w.store.set(bound)
	w.handler(func() { w.deleted(pod) })
	w.handler(func() { w.store.unset(bound) })
}

// addOld adds a version of a pod from the informer cache, the present or an earlier one.
func (w *twinWorld) addOld() {
	candidates := w.pending()
	if w.r.IntN(2) == 0 {
		candidates = w.past
	}
	if pod, ok := anyOf(w.r, candidates); ok {
		w.queue.Add(logger, pod)
		w.model.add(pod)
	}
}

func (w *twinWorld) pop() {
	c := w.queue.Counts()
	if c.Active+c.Backoff == 0 {
		if first := w.model.candidates(); len(first) != 0 {
			w.fatalf("nothing to pop, but %s comes first", first[0].pod.UID)
		}
		return
	}
	if !slices.ContainsFunc(w.model.in(Active, Backoff), func(p *modelPod) bool { return !w.model.outdated(p) }) {
		return // it would have to wait if all turn out to be gated
	}
	before := w.outdated()
	next := w.queue.Pop(logger)
	info, settings := next.Pod, next.Settings
	if settings != w.model.profile(info.Pod) {
		w.fatalf("%s was popped under settings that are not in force", info.Pod.UID)
	}
	looked := before.Difference(w.outdated())
	for uid := range looked {
		w.note("outdated when it was about to be popped")
		if p, popped := w.model.pods[uid], w.model.pods[info.Pod.UID]; p.place == Active && popped.place == Active &&
			w.model.less(popped, p) {
			w.fatalf("%s was looked at, %s comes before it", uid, info.Pod.UID)
		}
	}
	for uid := range looked {
		w.model.current(uid)
	}
	for _, p := range w.model.candidates() {
		if p.pod.UID == info.Pod.UID {
			w.note("pop from %v", p.place)
			if flushed := info.WasFlushedFromUnschedulable; flushed != p.flushed {
				w.fatalf("%s: flushed: %v, want %v", p.pod.UID, flushed, p.flushed)
			}
			w.model.pop(p)
			if info.Pod != p.pod || info.Attempts != p.attempts || !info.InitialAttemptTimestamp.Equal(p.firstTime) ||
				info.GatingPlugin != "" {
				w.fatalf("popped %+v, want %+v", info, p)
			}
			w.popped = append(w.popped, popped{info, *p})
			return
		}
	}
	w.fatalf("%s was popped, which does not come first", info.Pod.UID)
}

func (w *twinWorld) done() {
	if p, ok := anyOf(w.r, w.popped); ok {
		w.queue.Done(p.info.Pod.UID)
		w.model.done(p.info.Pod.UID)
	}
}

func (w *twinWorld) requeue() {
	if len(w.popped) == 0 {
		return
	}
	i := w.r.IntN(len(w.popped))
	p := w.popped[i]
	w.popped = slices.Delete(w.popped, i, i+1)
	info := p.info
	if w.r.IntN(2) == 0 {
		info = info.DeepCopy()
		info.Pod.Spec.NodeName = "assumed"
	}
	info.ClearRejectorPlugins()
	var refusedBy, pendingBy []string
	if w.r.IntN(4) != 0 {
		for _, plugin := range twinPlugins {
			if w.r.IntN(3) == 0 {
				refusedBy = append(refusedBy, plugin)
			}
			if w.r.IntN(8) == 0 {
				pendingBy = append(pendingBy, plugin)
			}
		}
	}
	info.UnschedulablePlugins, info.PendingPlugins = sets.New(refusedBy...), sets.New(pendingBy...)
	nominating := []*fwk.NominatingInfo{nil, nominate(""), nominate("n1")}[w.r.IntN(3)]
	before := info.Pod.Status.NominatedNodeName
	kept, err := w.queue.Requeue(logger, info, nominating)
	w.note("requeue: kept %v, %v", kept, errors.Unwrap(err))
	if want := w.model.requeue(p.was, refusedBy, pendingBy); kept != want {
		w.fatalf("requeueing %s: kept %v, want %v (%v)", p.info.Pod.UID, kept, want, err)
	}
	if kept && err == nil {
		pod := w.model.pods[p.info.Pod.UID].pod
		if nominating != nil {
			w.model.nominateInMemory(pod, nominating.NominatedNodeName)
		} else {
			w.model.nominateByStatus(pod, before)
		}
	}
}

func (w *twinWorld) event() {
	w.tokens++
	event := twinEvents[w.r.IntN(len(twinEvents))]
	var newObj any = &twinToken{w.tokens}
	if event.Resource == fwk.WildCard {
		newObj = nil
	}
	if event.Resource == fwk.WildCard || event.Resource == fwk.Pod && w.r.IntN(2) == 0 {
		if pod, ok := anyOf(w.r, w.pending()); ok {
			newObj = pod
		}
	}
	var precheck func(*corev1.Pod) bool
	if w.r.IntN(4) == 0 {
		precheck = func(pod *corev1.Pod) bool { return *pod.Spec.Priority > 0 }
	}
	var oldObj any
	if event == schedframework.EventAssignedPodDelete && w.r.IntN(2) == 0 {
		oldObj, newObj = newPod("gone", onNode(fmt.Sprint("n", w.r.IntN(3)))), nil
	}
	m := newMove(w.queue, logger, clusterEvent{event: event, oldObj: oldObj, newObj: newObj}, precheck)
	for m.maxPods = 1 + w.r.IntN(8); m.runTurn(); m.maxPods = 1 + w.r.IntN(8) {
		w.note("an event that takes several turns")
	}
	w.model.move(event, oldObj, newObj, precheck)
}

func (w *twinWorld) activate() {
	pods := map[string]*corev1.Pod{}
	for _, pod := range append(w.pending(), w.past...) {
		if w.r.IntN(8) == 0 && pods[pod.Name] == nil {
			pods[pod.Name] = pod
		}
	}
	w.queue.Activate(logger, pods)
	for _, pod := range pods {
		w.model.activate(pod)
	}
}

func (w *twinWorld) tick() {
	w.clock.Step(time.Duration(w.r.IntN(4000)) * time.Millisecond)
	w.queue.flushBackoff(logger)
	w.model.moveCompleted()
}

func (w *twinWorld) flush() {
	w.clock.Step(time.Duration(w.r.IntN(100)) * time.Second)
	w.queue.flushUnschedulable(logger)
	w.model.flush()
}

func (w *twinWorld) door() {
	if pod, ok := anyOf(w.r, w.pending()); ok {
		key := twinPlugins[w.r.IntN(len(twinPlugins))] + string(pod.UID)
		w.doors[key] = []answer{yes, yes, no, no, fails, panics}[w.r.IntN(6)]
	}
}

// ungate opens a pod's door, or leaves it shut, and calls Ungate.
func (w *twinWorld) ungate() {
	pod, ok := anyOf(w.r, w.pending())
	if !ok {
		return
	}
	plugin := twinPlugins[w.r.IntN(len(twinPlugins))]
	if state, known := w.queue.Get(pod.UID); known && state.GatingPlugin != "" {
		plugin = state.GatingPlugin
	}
	if w.r.IntN(4) != 0 {
		w.doors[plugin+string(pod.UID)] = yes
	}
	w.queue.Ungate(logger, pod.UID, plugin)
	w.model.ungate(pod, plugin)
}

func (w *twinWorld) retryLater() {
	if pod, ok := anyOf(w.r, append(w.pending(), w.past...)); ok {
		w.queue.RetryLater(logger, pod.UID)
		w.model.retryLater(pod)
	}
}

func (w *twinWorld) nominate() {
	pod, ok := anyOf(w.r, append(w.pending(), w.past...))
	if !ok {
		return
	}
	node := fmt.Sprint("n", w.r.IntN(3))
	switch w.r.IntN(4) {
	case 0:
		w.queue.Nominator().AddNominatedPod(logger, info(pod), nominate(node))
		w.model.nominateInMemory(pod, node)
	case 1:
		w.queue.Nominator().AddNominatedPod(logger, info(pod), nil)
		w.model.nominate(pod, pod.Status.NominatedNodeName)
	case 2:
		w.queue.Nominator().AddNominatedPod(logger, info(pod), nominate(""))
		w.model.nominate(pod, "")
	case 3:
		w.queue.Nominator().DeleteNominatedPodIfExists(pod)
		delete(w.model.nominees, pod.UID)
	}
}

// reconfigure changes, adds and removes profiles, or only the queue sort. The work after the
// critical section is done in turns, with other operations in between.
func (w *twinWorld) reconfigure() {
	if w.reload != nil {
		return
	}
	w.old = w.model.settings
	sort := w.r.IntN(len(twinSorts))
	s := &Settings{Less: twinSorts[sort], Profiles: maps.Clone(w.old.Profiles)}
	if w.r.IntN(2) == 0 {
		s.Order = fmt.Sprint("sort ", sort)
	}
	if s.Profiles == nil {
		s.Profiles = map[string]*ProfileSettings{}
	}
	changed := sets.New[string]()
	for _, name := range twinProfiles {
		switch w.r.IntN(4) {
		case 0, 1:
			s.Profiles[name] = w.profile()
			changed.Insert(name)
		case 2:
			if w.r.IntN(2) == 0 {
				delete(s.Profiles, name)
				changed.Insert(name)
			}
		}
	}
	s.Canaries = w.canaries(s)
	w.reload = w.queue.newReload(logger, s, changed)
	w.reload.replaceRules()
	if ended := w.model.reconfigure(s); len(w.reload.ended) != len(ended) {
		w.fatalf("%d nominations ended, want %d", len(w.reload.ended), len(ended))
	}
}

// canaries gives some profiles a canary: a new one, or the present one with another share.
func (w *twinWorld) canaries(s *Settings) map[string]Canary {
	canaries := map[string]Canary{}
	for _, name := range twinProfiles {
		before, had := w.old.Canaries[name]
		switch w.r.IntN(3) {
		case 0:
			before = Canary{Settings: w.profile(), Salt: fmt.Sprint(w.step)}
			had = true
		case 1:
			had = false
		}
		if had { // even if the profile is gone
			before.Share = w.r.IntN(Whole + 1)
			canaries[name] = before
			w.note("a canary beside a profile: %v", s.Profiles[name] != nil)
		}
	}
	return canaries
}

// turn does one turn of a reload, or ends it.
func (w *twinWorld) turn() {
	r := w.reload
	if r == nil {
		return
	}
	before, ended := w.outdated(), slices.Clone(r.ended)
	r.maxPods = 1 + w.r.IntN(8)
	more := r.runTurn()
	for uid := range before.Difference(w.outdated()) {
		w.note("looked at in turn")
		w.model.current(uid)
	}
	for _, nm := range ended[:len(ended)-len(r.ended)] {
		w.model.nominationEnded(*nm.info.Pod.Spec.Priority)
	}
	if !more {
		w.reload = nil
		w.reloaded(r)
	}
}

// outdated returns the waiting pods that a reload has not reached yet.
func (w *twinWorld) outdated() sets.Set[types.UID] {
	outdated := sets.New[types.UID]()
	for uid, e := range w.queue.pods {
		if e.outdatedLocked() {
			outdated.Insert(uid)
		}
	}
	return outdated
}

// reloaded is the end of a reload.
func (w *twinWorld) reloaded(r *reload) {
	var dropped []string
	for _, pod := range r.finish() {
		dropped = append(dropped, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(w.model.dropped)
	if !slices.Equal(dropped, w.model.dropped) {
		w.fatalf("dropped %v, want %v", dropped, w.model.dropped)
	}
	if left := w.outdated(); left.Len() != 0 {
		w.fatalf("nobody has looked at %v", left)
	}
	w.note("dropped any: %v", len(dropped) != 0)
	s := w.model.settings
	for _, pod := range w.pending() {
		if s.Profiles[pod.Spec.SchedulerName] != nil && w.old.Profiles[pod.Spec.SchedulerName] == nil {
			w.queue.Add(logger, pod)
			w.model.add(pod)
		}
	}
}

// compare compares everything.
func (w *twinWorld) compare() {
	q, m := w.queue, w.model
	states := q.PendingPods()
	if len(states) != len(m.pods) {
		w.fatalf("%d pods, want %d", len(states), len(m.pods))
	}
	var counts Counts
	pending := map[string]Pending{}
	longest := 0
	for i, s := range states {
		p := m.pods[s.Pod.UID]
		if p == nil {
			w.fatalf("%s should not be there", s.Pod.UID)
		}
		w.comparePod(s, p)
		w.seen[p.place.String()]++
		pending[s.Pod.Spec.SchedulerName] = pending[s.Pod.Spec.SchedulerName].with(s.Place)
		switch p.place {
		case Active:
			counts.Active++
			if i > 0 && states[i-1].Place == Active && m.less(p, m.pods[states[i-1].Pod.UID]) {
				w.fatalf("%s is listed before %s", states[i-1].Pod.UID, s.Pod.UID)
			}
		case Backoff:
			counts.Backoff++
		case ErrorBackoff:
			counts.ErrorBackoff++
		case Unschedulable:
			counts.Unschedulable++
		case Gated:
			counts.Gated++
		case InFlight:
			counts.InFlight++
			longest = max(longest, len(p.events))
		}
	}
	counts.InFlightEvents = longest // of the pod that was popped first
	if got := q.Counts(); got != counts {
		w.fatalf("counts %+v, want %+v", got, counts)
	}
	for name, got := range q.PendingByProfile() {
		if got != pending[name] {
			w.fatalf("pending pods of %s: %+v, want %+v", name, got, pending[name])
		}
	}
	w.compareNominations()
	if err := w.queue.checkLocked(); err != nil {
		w.fatalf("%v", err)
	}
	w.compareHeld()
	for _, k := range w.queue.unschedulable.ordered {
		if len(k.byKey) > 0 && k.pods > len(k.groups) {
			w.note("a group of several pods")
		}
	}
	if w.step%50 == 0 {
		w.compareGauges(counts)
	}
}

func (w *twinWorld) comparePod(s PodState, p *modelPod) {
	if s.Place != p.place || s.Pod != p.pod {
		w.fatalf("%s is %v, want %v; same version: %v", s.Pod.UID, s.Place, p.place, s.Pod == p.pod)
	}
	if p.place == InFlight {
		return
	}
	if outdated := w.queue.pods[s.Pod.UID].outdatedLocked(); outdated != w.model.outdated(p) {
		w.fatalf("%s is outdated: %v, want %v", s.Pod.UID, outdated, !outdated)
	}
	if s.Attempts != p.attempts || !s.Timestamp.Equal(p.timestamp) || s.GatingPlugin != p.gate ||
		!slices.Equal(s.UnschedulablePlugins, sets.List(p.refusedBy)) ||
		!slices.Equal(s.PendingPlugins, sets.List(p.pendingBy)) ||
		(s.Error != "") != (p.failures > 0) {
		w.fatalf("%+v, want %+v", s, p)
	}
	if (p.place == Backoff || p.place == ErrorBackoff) && !s.BackoffEnd.Equal(p.until) {
		w.fatalf("%s backs off until %v, want %v", s.Pod.UID, s.BackoffEnd, p.until)
	}
}

func (w *twinWorld) compareNominations() {
	got, want := map[string]string{}, map[string]string{}
	for _, node := range []string{"", "n0", "n1", "n2"} {
		for _, p := range w.queue.Nominator().NominatedPodsForNode(node) {
			got[string(p.GetPod().UID)] += node
		}
	}
	for uid, n := range w.model.nominees {
		want[string(uid)] = n.node
	}
	if !maps.Equal(got, want) {
		w.fatalf("nominated %v, want %v", got, want)
	}
	if size := int(w.queue.nominator.size.Load()); size != len(want) {
		w.fatalf("%d nominations, want %d", size, len(want))
	}
}

func (w *twinWorld) compareGauges(c Counts) {
	want := map[string]float64{
		"pending_pods{active}":        float64(c.Active),
		"pending_pods{backoff}":       float64(c.Backoff + c.ErrorBackoff),
		"pending_pods{unschedulable}": float64(c.Unschedulable),
		"pending_pods{gated}":         float64(c.Gated),
		"inflight_events{PodPopped}":  float64(c.InFlight),
	}
	maps.Copy(want, map[string]float64{
		"queued_entities{active,pod}":        want["pending_pods{active}"],
		"queued_entities{backoff,pod}":       want["pending_pods{backoff}"],
		"queued_entities{unschedulable,pod}": want["pending_pods{unschedulable}"],
		"queued_entities{gated,pod}":         want["pending_pods{gated}"],
	})
	for _, p := range w.model.pods {
		if p.place == InFlight {
			continue
		}
		queue := map[Place]string{Active: "active", Backoff: "backoff", ErrorBackoff: "backoff",
			Unschedulable: "unschedulable", Gated: "gated"}[p.place]
		want["livesched_pending_pods{"+p.pod.Spec.SchedulerName+","+queue+"}"]++
		for plugin := range p.refusedBy.Union(p.pendingBy) {
			want["unschedulable_pods{"+plugin+","+p.pod.Spec.SchedulerName+"}"]++
		}
	}
	var oldest *modelPod
	for _, p := range w.model.in(InFlight) {
		if oldest == nil || len(p.events) > len(oldest.events) {
			oldest = p
		}
	}
	if oldest != nil {
		for _, ev := range oldest.events {
			want["inflight_events{"+ev.event.Label()+"}"]++
		}
	}
	maps.DeleteFunc(want, func(_ string, v float64) bool { return v == 0 })
	got := map[string]float64{}
	for key, v := range gathered(w.t, "scheduler_pending_pods", "scheduler_queued_entities",
		"scheduler_unschedulable_pods", "scheduler_inflight_events", "livesched_pending_pods") {
		if v -= w.gaugesBefore[key]; v != 0 {
			got[key] = v
		}
	}
	if !maps.Equal(got, want) {
		w.fatalf("gauges %v\nwant %v", got, want)
	}
}

func (w *twinWorld) note(format string, args ...any) { w.seen[fmt.Sprintf(format, args...)]++ }

func (w *twinWorld) coverage() string {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(w.seen)) {
		text += fmt.Sprintf("%s: %d; ", key, w.seen[key])
	}
	return text
}

func (w *twinWorld) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("step %d, %s: %s", w.step, w.op, fmt.Sprintf(format, args...))
}
