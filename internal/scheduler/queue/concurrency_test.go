// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// TestConcurrency runs all callers of the queue concurrently: informer handlers, cycles that fail
// in every way, events, plugins, and reloads that change, remove and restore profiles. In the end
// every pod must have been bound, by one cycle at a time.
func TestConcurrency(t *testing.T) {
	const pods, cycles = 300, 4
	w := newChaos(t)
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { w.queue.Run(ctx) })
	for range cycles {
		background.Go(w.schedule)
	}
	repeat := func(interval time.Duration, do func(*rand.Rand)) {
		background.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for every := time.Tick(interval); ctx.Err() == nil; <-every {
				do(r)
			}
		})
	}
	repeat(time.Millisecond, w.happen)
	repeat(2*time.Millisecond, w.reload)
	repeat(100*time.Microsecond, w.meddle)

	var creators sync.WaitGroup
	for i := range 3 {
		creators.Go(func() {
			for j := range pods / 3 {
				w.create(fmt.Sprintf("p%d-%d", i, j), types.UID(fmt.Sprintf("u%d-%d", i, j)))
			}
		})
	}
	creators.Wait()
	g := NewWithT(t)
	g.Eventually(w.bound.Load).WithTimeout(time.Minute).Should(BeEquivalentTo(pods), "%+v", w.queue.Counts())
	cancel()
	w.queue.Close()
	background.Wait()
	g.Expect(w.queue.Counts()).To(Equal(Counts{}))
	g.Expect(w.queue.pods).To(BeEmpty())
	g.Expect(w.queue.nominator.byPod).To(BeEmpty())
	t.Logf("%d attempts, %d reloads", w.attempts.Load(), w.reloads.Load())
}

type chaos struct {
	t     *testing.T
	queue *Queue
	// profiles are in force. The goroutine that reloads owns them.
	profiles map[string]*ProfileSettings

	handlers sync.Mutex // one informer calls its handlers one by one, after it has changed its cache
	store    *store

	cycling                  sync.Map // UIDs of pods in cycles
	bound, attempts, reloads atomic.Int64
}

func newChaos(t *testing.T) *chaos {
	w := &chaos{t: t, store: newStore()}
	w.queue = New(Config{PodLister: w.store.lister()})
	w.profiles = map[string]*ProfileSettings{"steady": w.profile(), "flickering": w.profile()}
	w.queue.Reconfigure(logger, &Settings{Profiles: w.profiles}, nil)
	return w
}

func (w *chaos) profile() *ProfileSettings {
	var calls atomic.Int64
	holder := &chaosHolder{t: w.t}
	return &ProfileSettings{
		Holder:             holder,
		InitialBackoff:     time.Millisecond,
		MaxBackoff:         time.Duration(rand.IntN(2)) * time.Millisecond,
		MaxInUnschedulable: time.Minute,
		PreEnqueue: []fwk.PreEnqueuePlugin{&chaosGate{preEnqueuer{name: "G", answer: func(pod *corev1.Pod) *fwk.Status {
			switch calls.Add(1) % 8 {
			case 0:
				return refusal
			case 4:
				if calls.Load()%64 == 4 {
					panic("sorry")
				}
			}
			holder.admitted.Store(pod.UID, true)
			return nil
		}}}},
		Hints: HintMap{
			nodeAdded: {{Plugin: "A"}, {Plugin: "G"}},
			claimAdded: {{Plugin: "B", Fn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
				return fwk.QueueingHint(rand.IntN(2)), nil
			}}},
		},
	}
}

// chaosGate does not count its calls: the settings of two reloads share nothing.
type chaosGate struct{ preEnqueuer }

func (g *chaosGate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status { return g.answer(pod) }

// chaosHolder checks that a pod is popped under settings that are in force, and whose plugins
// admitted it.
type chaosHolder struct {
	t        *testing.T
	admitted sync.Map // UIDs of pods
	retired  atomic.Bool
}

func (h *chaosHolder) Acquire() {
	if h.retired.Load() {
		h.t.Error("a profile was acquired after it had been replaced")
	}
}

func (w *chaos) create(name string, id types.UID) {
	pod := newPod(name, uid(id), priority(int32(rand.IntN(3))),
		scheduler([]string{"steady", "flickering"}[rand.IntN(2)]))
	w.handlers.Lock()
	defer w.handlers.Unlock()
	w.store.set(pod)
	w.queue.Add(logger, pod)
}

// schedule pops pods and treats them as cycles do.
func (w *chaos) schedule() {
	for {
		popped := w.queue.Pop(logger)
		p, settings := popped.Pod, popped.Settings
		if p == nil {
			return
		}
		w.attempts.Add(1)
		uid := p.Pod.UID
		if _, admitted := settings.Holder.(*chaosHolder).admitted.Load(uid); !admitted {
			w.t.Errorf("%s was popped under settings whose plugins did not admit it", uid)
		}
		if _, twice := w.cycling.LoadOrStore(uid, true); twice {
			w.t.Errorf("%s is in two cycles", uid)
		}
		p.ClearRejectorPlugins()
		switch rand.IntN(10) {
		case 0, 1:
			w.bind(p.Pod)
			continue
		case 2, 3:
			p.UnschedulablePlugins = sets.New("A")
		case 4, 5:
			p.PendingPlugins = sets.New("A", "B")
		case 6, 7:
			p = p.DeepCopy()
			p.Pod.Spec.NodeName = "assumed"
			p.UnschedulablePlugins = sets.New("B")
		}
		w.cycling.Delete(uid)
		if _, err := w.queue.Requeue(logger, p, nominate("n")); err != nil {
			w.t.Errorf("requeueing: %v", err)
		}
	}
}

func (w *chaos) bind(pod *corev1.Pod) {
	w.handlers.Lock()
	defer w.handlers.Unlock()
	w.store.set(objects.Edited(pod, onNode("n")))
	w.cycling.Delete(pod.UID)
	w.queue.Done(pod.UID)
	w.queue.Delete(logger, pod)
	w.bound.Add(1)
}

func (w *chaos) happen(r *rand.Rand) {
	event := []fwk.ClusterEvent{nodeAdded, claimAdded, classAdded}[r.IntN(3)]
	w.queue.Move(logger, event, nil, &corev1.Node{}, nil)
}

func (w *chaos) pending(r *rand.Rand) *corev1.Pod {
	for _, obj := range w.store.List() {
		if pod := obj.(*corev1.Pod); pod.Spec.NodeName == "" && r.IntN(4) == 0 {
			return pod
		}
	}
	return nil
}

// meddle does to waiting pods what users and plugins do.
func (w *chaos) meddle(r *rand.Rand) {
	w.queue.PendingPods()
	w.queue.Nominator().NominatedPodsForNode("n")
	w.handlers.Lock()
	defer w.handlers.Unlock()
	pod := w.pending(r)
	if pod == nil {
		return
	}
	switch r.IntN(4) {
	case 0:
		newer := objects.Edited(pod, label("x", fmt.Sprint(r.IntN(5))))
		w.store.set(newer)
		w.queue.Update(logger, pod, newer)
	case 1:
		w.queue.Activate(logger, map[string]*corev1.Pod{pod.Name: pod})
	case 2:
		w.queue.Nominator().AddNominatedPod(logger, &schedframework.PodInfo{Pod: pod}, nominate("n"))
	case 3:
		w.queue.Nominator().DeleteNominatedPodIfExists(pod)
	}
}

// reload changes both profiles and removes one of them, or changes one and brings back the other.
func (w *chaos) reload(*rand.Rand) {
	removes := w.reloads.Add(1)%2 == 1
	before := w.profiles
	w.profiles = map[string]*ProfileSettings{"steady": w.profile()}
	if !removes {
		w.profiles["flickering"] = w.profile()
	}
	w.queue.Reconfigure(logger, &Settings{Profiles: w.profiles}, sets.New("steady", "flickering"))
	for _, settings := range before {
		settings.Holder.(*chaosHolder).retired.Store(true)
	}
	if removes {
		return
	}
	for _, obj := range w.store.List() {
		if pod := obj.(*corev1.Pod); pod.Spec.SchedulerName == "flickering" {
			w.queue.Add(logger, pod)
		}
	}
}
