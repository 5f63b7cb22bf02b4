// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/test/objects"
)

var upstreamSeed = flag.Uint64("upstream-seed", 0, "seed of TestUpstream; 0 picks some at random")

// TestUpstream applies the same random operations to the queue and to kube-scheduler's, both on one
// clock, and compares the place and state of every pod, what is popped, and the nominations.
//
// The sequences leave out where the two differ on purpose:
//   - a flush is kept as an event for pods in flight upstream, so none is in flight while pods are
//     flushed;
//   - a pod that is deleted while it is in flight is dropped by Requeue, and by the caller
//     upstream;
//   - upstream, a pod that comes back late, after it was released, updated and popped again, ends
//     that later cycle;
//   - pods re-created under their name, errors and panics of PreEnqueue plugins, panics of hints,
//     and profiles that change, do not occur upstream or go wrong there;
//   - an update without a relevant change that requeues an unschedulable pod removes its nomination
//     upstream;
//   - after an update that does not change the node in the pod's status, or to the node of an
//     earlier nomination, and after an attempt without nominating info, upstream replaces a
//     nomination made in memory by that node.
func TestUpstream(t *testing.T) {
	for _, flushes := range []bool{false, true} {
		for range 6 {
			seed := cmp.Or(*upstreamSeed, rand.Uint64())
			t.Run(fmt.Sprintf("flushes=%v/%d", flushes, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newUpstreamWorld(t, seed, flushes)
					defer w.stop()
					for w.step = range 2000 {
						w.do()
						w.compare()
					}
					t.Log(w.seen)
				})
			})
		}
	}
}

type upstreamWorld struct {
	t       *testing.T
	r       *rand.Rand
	step    int
	op      string
	flushes bool
	start   time.Time

	store    *store
	settings *Settings
	ours     *Queue
	theirs   *upstream.PriorityQueue
	uids     int
	tokens   int
	shut     sets.Set[types.UID] // gated pods
	popped   []poppedPair
	seen     map[Place]int
	stop     func()
}

type poppedPair struct{ ours, theirs *schedframework.QueuedPodInfo }

func newUpstreamWorld(t *testing.T, seed uint64, flushes bool) *upstreamWorld {
	w := &upstreamWorld{
		t:       t,
		r:       rand.New(rand.NewPCG(seed, 2)),
		flushes: flushes,
		store:   newStore(),
		shut:    sets.New[types.UID](),
		seen:    map[Place]int{},
	}
	maxInUnschedulable := 1000 * time.Hour
	if flushes {
		maxInUnschedulable = 5 * time.Minute
	}
	settings := &Settings{Profiles: map[string]*ProfileSettings{}}
	hints, gates := upstream.QueueingHintMapPerProfile{}, map[string]map[string]fwk.PreEnqueuePlugin{}
	for _, name := range []string{"red", "green"} {
		gate := upstreamGate{name: name + "-P0", w: w}
		settings.Profiles[name] = &ProfileSettings{
			InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, MaxInUnschedulable: maxInUnschedulable,
			Hints: HintMap{}, PreEnqueue: []fwk.PreEnqueuePlugin{gate},
		}
		hints[name], gates[name] = upstream.QueueingHintMap{}, map[string]fwk.PreEnqueuePlugin{gate.name: gate}
		for i := range 4 {
			for range 1 + w.r.IntN(3) {
				w.register(settings.Profiles[name].Hints, hints[name], fmt.Sprintf("%s-P%d", name, i))
			}
		}
	}
	stop := make(chan struct{})
	w.ours = New(Config{PodLister: w.store.lister()})
	w.settings = settings
	w.ours.Reconfigure(logger, settings, nil)
	w.theirs = upstream.NewPriorityQueue(defaultLess, informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		upstream.WithPodLister(w.store.lister()),
		upstream.WithPodInitialBackoffDuration(time.Second),
		upstream.WithPodMaxBackoffDuration(10*time.Second),
		upstream.WithPodMaxInUnschedulablePodsDuration(maxInUnschedulable),
		upstream.WithPreEnqueuePluginMap(gates),
		upstream.WithQueueingHintMapPerProfile(hints),
		upstream.WithMetricsRecorder(schedmetrics.NewMetricsAsyncRecorder(10, time.Minute, stop)))

	ctx, cancel := context.WithCancel(context.Background())
	go w.ours.Run(ctx)
	time.Sleep(backoffWindow) // from here on both flush at the same instants
	w.theirs.Run(logger)
	w.start = time.Now()
	w.stop = func() {
		cancel()
		w.theirs.Close()
		close(stop)
		time.Sleep(2 * time.Minute) // the recorder looks at stop once a minute
	}
	return w
}

// register registers a plugin of both queues for an event.
func (w *upstreamWorld) register(ours HintMap, theirs upstream.QueueingHintMap, plugin string) {
	// without the one for everything, which hides the others
	event := twinRegistrations[w.r.IntN(len(twinRegistrations)-1)]
	fn := func(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
		switch twinHint(plugin, pod, newObj) {
		case yes:
			return fwk.Queue, nil
		case fails:
			return fwk.QueueSkip, errors.New("sorry")
		}
		return fwk.QueueSkip, nil
	}
	ours[event] = append(ours[event], Hint{Plugin: plugin, Fn: fn})
	theirs[event] = append(theirs[event], &upstream.QueueingHintFunction{PluginName: plugin, QueueingHintFn: fn})
}

// upstreamGate is the PreEnqueue plugin of a profile.
type upstreamGate struct {
	name string
	w    *upstreamWorld
}

func (g upstreamGate) Name() string { return g.name }

func (g upstreamGate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if g.w.shut.Has(pod.UID) || len(pod.Spec.SchedulingGates) != 0 {
		return refusal
	}
	return nil
}

func (w *upstreamWorld) do() {
	w.nap(time.Millisecond) // no two pods have one timestamp
	ops := []struct {
		name   string
		weight int
		do     func()
	}{
		{"create", 12, w.create}, {"update", 12, w.update}, {"delete", 3, w.deletePod}, {"pop", 20, w.pop},
		{"done", 2, w.done},
		{"requeue", 22, w.requeue}, {"event", 14, w.event}, {"activate", 5, w.activate}, {"sleep", 8, w.sleep},
		{"gate", 6, w.gate},
		{"nominate", 4, w.nominate}, {"reconfigure", 2, w.reconfigure},
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
			break
		}
	}
	synctest.Wait()
}

func (w *upstreamWorld) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.store.List() {
		pods = append(pods, obj.(*corev1.Pod))
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

func (w *upstreamWorld) create() {
	w.uids++
	pod := newPod(fmt.Sprint("p", w.uids), uid(types.UID(fmt.Sprint("u", w.uids))),
		scheduler([]string{"red", "green"}[w.r.IntN(2)]), priority(int32(w.r.IntN(3))))
	if len(w.pods()) > 25 {
		return
	}
	w.randomize(pod)
	if w.r.IntN(6) == 0 {
		gates("x")(pod)
	}
	w.store.set(pod)
	w.ours.Add(logger, pod)
	w.theirs.Add(context.Background(), pod)
}

func (w *upstreamWorld) randomize(pod *corev1.Pod) {
	label("l", fmt.Sprint(w.r.IntN(4)))(pod)
	if w.r.IntN(4) == 0 {
		nominated(fmt.Sprint("n", w.r.IntN(3)))(pod)
	} else if w.r.IntN(2) == 0 {
		nominated("")(pod)
	}
}

func (w *upstreamWorld) update() {
	pod, ok := anyOf(w.r, w.pods())
	if !ok {
		return
	}
	newer := objects.Edited(pod, w.randomize)
	if w.r.IntN(2) == 0 {
		gates()(newer)
	}
	w.store.set(newer)
	before, _ := w.ours.Get(pod.UID)
	keeps := w.keepsNomination(pod, newer)
	w.ours.Update(logger, pod, newer)
	w.theirs.Update(context.Background(), pod, newer)
	after, _ := w.ours.Get(pod.UID)
	changes := schedframework.PodSchedulingPropertiesChange(newer, pod, true)
	if before.Place.awaitsEvent() && after.Place == Active &&
		slices.Contains(changes, schedframework.EventUnscheduledPodUpdate) {
		w.ours.Nominator().AddNominatedPod(logger, info(newer), nil)
	}
	if before.Place != InFlight && keeps {
		w.ours.Nominator().AddNominatedPod(logger, info(newer), nil) // as upstream
	}
}

// keepsNomination reports whether a nomination made in memory stays after an update of the pod, and
// upstream replaces it.
func (w *upstreamWorld) keepsNomination(older, newer *corev1.Pod) bool {
	node, known := newer.Status.NominatedNodeName, w.ours.nominator.byPod[newer.UID]
	return node != "" && (node == older.Status.NominatedNodeName ||
		known != nil && slices.Contains(known.earlier, node))
}

func (w *upstreamWorld) deletePod() {
	if pod, ok := anyOf(w.r, w.pods()); ok {
		w.store.unset(pod)
		w.ours.Delete(logger, pod)
		w.theirs.Delete(logger, pod)
	}
}

func (w *upstreamWorld) pop() {
	if c := w.ours.Counts(); c.Active+c.Backoff == 0 {
		return // compare has seen that Active is empty there, too
	}
	theirs, err := w.theirs.Pop(logger)
	if err != nil {
		w.fatalf("upstream: %v", err)
	}
	ours := w.ours.Pop(logger).Pod
	pair := poppedPair{ours, theirs.(*schedframework.QueuedPodInfo)}
	w.compareInfo(pair.ours, pair.theirs)
	w.popped = append(w.popped, pair)
}

func (w *upstreamWorld) done() {
	if p, ok := anyOf(w.r, w.popped); ok {
		w.ours.Done(p.ours.Pod.UID)
		w.theirs.Done(p.ours.Pod.UID)
	}
}

// late reports whether a pod was queued and popped again since it was popped.
func (w *upstreamWorld) late(p *schedframework.QueuedPodInfo) bool {
	w.ours.mu.Lock() // Run is running
	defer w.ours.mu.Unlock()
	e := w.ours.pods[p.Pod.UID]
	return e != nil && e.place == InFlight && !sameLife(e, p)
}

// infoOf returns the info of a waiting pod.
func (w *upstreamWorld) infoOf(uid types.UID) *schedframework.QueuedPodInfo {
	w.ours.mu.Lock()
	defer w.ours.mu.Unlock()
	return w.ours.pods[uid].info
}

// requeue does what the failure handler of kube-scheduler does with the queue.
func (w *upstreamWorld) requeue() {
	if len(w.popped) == 0 {
		return
	}
	i := w.r.IntN(len(w.popped))
	p := w.popped[i]
	w.popped = slices.Delete(w.popped, i, i+1)
	if w.late(p.ours) {
		return
	}
	var refusedBy, pendingBy []string
	if w.r.IntN(4) != 0 {
		for i := range 4 {
			plugin := fmt.Sprintf("%s-P%d", p.ours.Pod.Spec.SchedulerName, i)
			if w.r.IntN(3) == 0 {
				refusedBy = append(refusedBy, plugin)
			}
			if w.r.IntN(8) == 0 {
				pendingBy = append(pendingBy, plugin)
			}
		}
	}
	obj, exists, err := w.store.GetByKey("ns/" + p.ours.Pod.Name)
	if err != nil || !exists {
		w.ours.Done(p.ours.Pod.UID)
		w.theirs.Done(p.ours.Pod.UID)
		return
	}
	for _, info := range []*schedframework.QueuedPodInfo{p.ours, p.theirs} {
		info.ClearRejectorPlugins()
		info.UnschedulablePlugins, info.PendingPlugins = sets.New(refusedBy...), sets.New(pendingBy...)
	}
	nominating := []*fwk.NominatingInfo{nil, nominate(""), nominate("n1")}[w.r.IntN(3)]
	p.theirs.PodInfo, _ = schedframework.NewPodInfo(obj.(*corev1.Pod))
	theirErr := w.theirs.AddUnschedulablePodIfNotPresent(logger, p.theirs, w.theirs.SchedulingCycle())
	w.theirs.AddNominatedPod(logger, p.theirs.PodInfo, nominating)
	_, ourErr := w.ours.Requeue(logger, p.ours, nominating)
	if ourErr != nil || nominating == nil {
		w.ours.Nominator().AddNominatedPod(logger, p.theirs.PodInfo, nominating)
	}
	if (ourErr == nil) != (theirErr == nil) {
		w.fatalf("requeueing %s: %v, upstream: %v", p.ours.Pod.UID, ourErr, theirErr)
	}
}

func (w *upstreamWorld) event() {
	w.tokens++
	event := twinEvents[w.r.IntN(len(twinEvents))]
	var newObj any = &twinToken{w.tokens}
	if event.Resource == fwk.WildCard {
		if w.ours.Counts().Gated != 0 {
			return // upstream's gated pods do not hear it
		}
		newObj = nil
		if pod, ok := anyOf(w.r, w.pods()); ok {
			newObj = pod
		}
	}
	var precheck func(*corev1.Pod) bool
	if w.r.IntN(4) == 0 {
		precheck = func(pod *corev1.Pod) bool { return *pod.Spec.Priority > 0 }
	}
	w.ours.Move(logger, event, nil, newObj, precheck)
	w.theirs.MoveAllToActiveOrBackoffQueue(logger, event, nil, newObj, precheck)
}

func (w *upstreamWorld) activate() {
	pods := map[string]*corev1.Pod{}
	for _, pod := range w.pods() {
		if w.r.IntN(8) == 0 {
			pods[pod.Name] = pod
		}
	}
	w.ours.Activate(logger, pods)
	w.theirs.Activate(logger, pods)
}

func (w *upstreamWorld) sleep() {
	if w.flushes && w.r.IntN(4) == 0 {
		w.nap(time.Duration(w.r.IntN(400)) * time.Second)
		return
	}
	w.nap(time.Duration(w.r.IntN(5000)) * time.Millisecond)
}

// nap sleeps on synctest's clock, which all code of this test uses, and ensures that no pod is in
// flight when pods are flushed.
func (w *upstreamWorld) nap(d time.Duration) {
	flushes := func(t time.Time) time.Duration { return t.Sub(w.start) / flushInterval }
	// The time for requeueing all pods counts as well.
	if now := time.Now(); w.flushes && flushes(now) != flushes(now.Add(d+time.Second)) {
		for len(w.popped) != 0 {
			w.requeue()
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(d)
	synctest.Wait() // both have moved what was due
}

// gate shuts or opens the gate for a pod.
func (w *upstreamWorld) gate() {
	if pod, ok := anyOf(w.r, w.pods()); ok {
		if w.shut.Has(pod.UID) {
			w.shut.Delete(pod.UID)
		} else {
			w.shut.Insert(pod.UID)
		}
	}
}

// reconfigure is a reload that changes no profile. It must have no effect.
func (w *upstreamWorld) reconfigure() { w.ours.Reconfigure(logger, w.settings, nil) }

func (w *upstreamWorld) nominate() {
	pod, ok := anyOf(w.r, w.pods())
	if !ok {
		return
	}
	switch nominating := []*fwk.NominatingInfo{nil, nominate(""), nominate("n2")}[w.r.IntN(3)]; w.r.IntN(3) {
	case 0:
		w.ours.Nominator().AddNominatedPod(logger, info(pod), nominating)
		w.theirs.AddNominatedPod(logger, info(pod), nominating)
	case 1:
		older := objects.Edited(pod, w.randomize)
		keeps := w.keepsNomination(older, pod)
		w.ours.Nominator().UpdateNominatedPod(logger, older, info(pod))
		w.theirs.UpdateNominatedPod(logger, older, info(pod))
		if keeps {
			w.ours.Nominator().AddNominatedPod(logger, info(pod), nil) // as upstream
		}
	case 2:
		w.ours.Nominator().DeleteNominatedPodIfExists(pod)
		w.theirs.DeleteNominatedPodIfExists(pod)
	}
}

func (w *upstreamWorld) compare() {
	ours := map[types.UID]string{}
	for _, s := range w.ours.PendingPods() {
		w.seen[s.Place]++
		ours[s.Pod.UID] = map[Place]string{
			Active: "active", Backoff: "backoff", ErrorBackoff: "backoff", Unschedulable: "unschedulable",
			Gated: "unschedulable", InFlight: "in flight",
		}[s.Place]
		if s.Place == InFlight {
			continue
		}
		info, ok := w.theirs.GetPod(s.Pod.Name, s.Pod.Namespace, nil)
		if !ok {
			w.fatalf("upstream does not know %s, which is %v", s.Pod.UID, s.Place)
		}
		w.compareInfo(w.infoOf(s.Pod.UID), info)
		if s.Place == Backoff && !s.BackoffEnd.Equal(info.BackoffExpiration) {
			w.fatalf("%s backs off until %v, upstream until %v", s.Pod.UID, s.BackoffEnd, info.BackoffExpiration)
		}
	}
	theirs := map[types.UID]string{}
	for place, pods := range map[string][]*corev1.Pod{
		"active": w.theirs.PodsInActiveQ(), "backoff": w.theirs.PodsInBackoffQ(),
		"unschedulable": w.theirs.UnschedulablePods(), "in flight": w.theirs.InFlightPods(),
	} {
		for _, pod := range pods {
			theirs[pod.UID] += place
		}
	}
	if !maps.Equal(ours, theirs) {
		for uid, place := range ours {
			if theirs[uid] == place {
				delete(ours, uid)
				delete(theirs, uid)
			}
		}
		w.fatalf("ours %v, upstream %v", ours, theirs)
	}
	for _, node := range []string{"n0", "n1", "n2"} {
		if ours, theirs := nominatedUIDs(w.ours.Nominator(), node), nominatedUIDs(w.theirs, node); !ours.Equal(theirs) {
			w.fatalf("nominated for %s: ours %v, upstream %v", node, ours, theirs)
		}
	}
}

func nominatedUIDs(n fwk.PodNominator, node string) sets.Set[types.UID] {
	uids := sets.New[types.UID]()
	for _, p := range n.NominatedPodsForNode(node) {
		uids.Insert(p.GetPod().UID)
	}
	return uids
}

func (w *upstreamWorld) compareInfo(ours, theirs *schedframework.QueuedPodInfo) {
	w.ours.mu.Lock() // Run is running
	defer w.ours.mu.Unlock()
	first := func(info *schedframework.QueuedPodInfo) time.Time {
		if info.InitialAttemptTimestamp == nil {
			return time.Time{}
		}
		return *info.InitialAttemptTimestamp
	}
	if ours.Pod != theirs.Pod || !ours.Timestamp.Equal(theirs.Timestamp) || ours.Attempts != theirs.Attempts ||
		ours.GatingPlugin != theirs.GatingPlugin ||
		ours.UnschedulableCount != theirs.UnschedulableCount ||
		ours.ConsecutiveErrorsCount != theirs.ConsecutiveErrorsCount ||
		ours.WasFlushedFromUnschedulable != theirs.WasFlushedFromUnschedulable || !first(ours).Equal(first(theirs)) ||
		!ours.UnschedulablePlugins.Equal(theirs.UnschedulablePlugins) ||
		!ours.PendingPlugins.Equal(theirs.PendingPlugins) {
		w.fatalf("ours %v %d %+v\nupstream %v %d %+v", ours.Pod.UID, *ours.Pod.Spec.Priority, *ours, theirs.Pod.UID,
			*theirs.Pod.Spec.Priority, *theirs)
	}
}

func (w *upstreamWorld) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("step %d, %s: %s", w.step, w.op, fmt.Sprintf(format, args...))
}
