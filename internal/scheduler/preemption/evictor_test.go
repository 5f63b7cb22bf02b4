// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// made returns preemptions of pods that nobody has created.
func made(preemptors, victims int) (preemptions []*preemption) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	}
	for i := range preemptors {
		var evicted []*corev1.Pod
		for j := range victims {
			evicted = append(evicted, pod(fmt.Sprintf("victim-%d-%d", i, j)))
		}
		node := fmt.Sprintf("n%d", i)
		preemptions = append(preemptions, newPreemption(pod("of-"+node), node, names.DefaultPreemption, evicted))
	}
	return preemptions
}

// Requests beyond 100 do not fit on the connection to the API server.
func TestEvictionsMakeFewCallsAtOnce(t *testing.T) {
	parallelism := int32(parallelize.DefaultParallelism)
	for name, c := range map[string]struct {
		begin func(e *Evictor, h *handle, all []*preemption)
		want  int32
	}{
		"for a group, as many as for a pod": {
			func(e *Evictor, h *handle, all []*preemption) { e.begin(h, all...) }, parallelism,
		},
		"for many pods": {func(e *Evictor, h *handle, all []*preemption) {
			for _, p := range all {
				e.begin(h, p)
			}
		}, maxCalls},
	} {
		t.Run(name, func(t *testing.T) {
			p := newEnvironment(t)
			p.evictor.overdueCall = time.Hour
			var now, most atomic.Int32
			open := make(chan struct{})
			p.calls.set(func(*http.Request) error {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-open
				now.Add(-1)
				return errForbidden
			})
			c.begin(p.evictor, &handle{environment: p}, made(50, 4))
			eventually(t, now.Load).Should(gomega.Equal(c.want))
			close(open)
			p.ended()
			if most.Load() > c.want {
				t.Errorf("there were %d calls at once", most.Load())
			}
		})
	}
}

func TestACallThatHangsGivesItsPlaceToAnother(t *testing.T) {
	p := newEnvironment(t)
	p.evictor.overdueCall = time.Millisecond
	hang, reached := make(chan struct{}), make(chan string, 2*maxCalls)
	p.calls.set(func(r *http.Request) error {
		reached <- r.URL.Path
		<-hang
		return errForbidden
	})
	defer p.ended()
	defer close(hang)
	for _, one := range made(maxCalls+1, 1) {
		p.evictor.begin(&handle{environment: p}, one)
	}
	eventually(t, func() int { return len(reached) }).Should(gomega.Equal(maxCalls + 1))
}

// The pods of a group have their nodes together, so none is let in before all victims are gone.
func TestPodsOfAGroupWaitForTheVictimsOfAll(t *testing.T) {
	p := newEnvironment(t)
	first, second := p.running("n1", 1)[0], p.running("n2", 1)[0]
	p.addNode("n1", first)
	p.addNode("n2", second)
	reached, release := p.stop(func(r *http.Request) bool { return deletes(r, second) })
	defer release()
	a, b := p.pending(10), p.pending(10)
	p.evictor.begin(&handle{environment: p},
		newPreemption(a, "n1", names.DefaultPreemption, []*corev1.Pod{first}),
		newPreemption(b, "n2", names.DefaultPreemption, []*corev1.Pod{second}))
	<-reached
	eventually(t, func() bool { return p.exists(first) }).Should(gomega.BeFalse())
	p.gone(first)
	for _, pod := range []*corev1.Pod{a, b} {
		if !p.evictor.isEvicting(pod.UID) {
			t.Error("a pod of the group is let in before all victims are gone")
		}
	}
	p.gone(second)
	for _, pod := range []*corev1.Pod{a, b} {
		if p.evictor.isEvicting(pod.UID) {
			t.Error("a pod of the group is held back although all victims are gone")
		}
	}
	release()
	p.ended()
}

// Otherwise the events of the deletions would wake the group, one attempt in vain after the other.
func TestPodsOfAGroupWaitForTheOtherVictimsIfOneCannotBeEvicted(t *testing.T) {
	p := newEnvironment(t)
	p.evictor.maxLag = time.Hour
	stays, goes := p.running("n1", 1)[0], p.running("n2", 1)[0]
	p.addNode("n1", stays)
	p.addNode("n2", goes)
	p.calls.set(func(r *http.Request) error {
		if deletes(r, stays) {
			return errForbidden
		}
		return nil
	})
	a, b := p.pending(10), p.pending(10)
	of := newPreemption(a, "n1", names.DefaultPreemption, []*corev1.Pod{stays})
	p.evictor.begin(&handle{environment: p}, of, newPreemption(b, "n2", names.DefaultPreemption, []*corev1.Pod{goes}))
	eventually(t, func() victimState {
		p.evictor.mu.Lock()
		defer p.evictor.mu.Unlock()
		return of.victims[0].state
	}).Should(gomega.Equal(failed))
	eventually(t, func() bool { return p.exists(goes) }).Should(gomega.BeFalse())
	if !p.evictor.isEvicting(b.UID) {
		t.Error("a pod of the group is let in before the cache knows of the deletion")
	}
	p.gone(goes)
	p.ended()
}

// The informers may report deletions after the API server has answered all calls.
func TestThePreemptorWaitsUntilTheCacheKnowsOfTheDeletions(t *testing.T) {
	begun := func(t *testing.T) (p *environment, preemptor *corev1.Pod, victims []*corev1.Pod) {
		p = newEnvironment(t)
		p.evictor.maxLag = time.Hour
		victims = p.running("n1", 3)
		p.addNode("n1", victims...)
		preemptor = p.pending(10)
		p.attempt(p.pop(preemptor))
		eventually(t, func() bool { return p.evictor.evicted(p.evictor.latest[preemptor.UID]) }).Should(gomega.BeTrue())
		return p, preemptor, victims
	}
	t.Run("and is let in with the last one", func(t *testing.T) {
		p, preemptor, victims := begun(t)
		for _, victim := range victims[:2] {
			p.gone(victim)
			p.expectPlace(preemptor, queue.Gated)
		}
		p.gone(victims[2])
		p.expectPlace(preemptor, queue.Active, queue.Backoff)
		p.ended()
	})
	t.Run("which the API server reports in two steps without a grace period", func(t *testing.T) {
		p, preemptor, victims := begun(t)
		for _, victim := range victims {
			p.ends(victim, 0)
		}
		p.gone(victims[0])
		p.expectPlace(preemptor, queue.Gated)
		p.gone(victims[1])
		p.gone(victims[2])
		p.expectPlace(preemptor, queue.Active, queue.Backoff)
		p.ended()
	})
	t.Run("or that they have begun to end", func(t *testing.T) {
		p, preemptor, victims := begun(t)
		for _, victim := range victims {
			p.ends(victim, 30)
		}
		p.ended()
		p.gone(victims[0])
		p.expectPlace(preemptor, queue.Active, queue.Backoff)
	})
	t.Run("but not at the end of the process", func(t *testing.T) {
		p, _, _ := begun(t)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			p.evictor.Close(p.ctx)
		}()
		eventually(t, closed).Should(gomega.BeClosed())
	})
}

// ends does what the event handlers do when the deletion of a pod has begun.
func (p *environment) ends(pod *corev1.Pod, gracePeriodSeconds int64) {
	p.t.Helper()
	ending := pod.DeepCopy()
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = new(metav1.Now()), &gracePeriodSeconds
	must(p.t, p.cache.UpdatePod(logr.Discard(), pod, ending))
}

// countingCache counts how often it is asked.
type countingCache struct {
	pods  map[types.UID]*corev1.Pod
	asked int
}

func (c *countingCache) PodOf(uid types.UID) *corev1.Pod {
	c.asked++
	return c.pods[uid]
}

// The deletion of each victim lets each pod of the group ask whether there are others.
func TestTheVictimsOfAGroupAreNotLookedAtForEachOfItsPods(t *testing.T) {
	const pods, victims = 20, 10
	known := &countingCache{pods: map[types.UID]*corev1.Pod{}}
	e := NewEvictor(context.Background(), Config{Cache: known})
	all := made(pods, victims)
	n := newEviction(all)
	for _, p := range all {
		e.active[p.preemptor.UID] = []*eviction{n}
		for _, v := range p.victims {
			known.pods[v.pod.UID] = v.pod
		}
	}
	asks := 0
	for _, p := range all {
		for _, v := range p.victims {
			delete(known.pods, v.pod.UID)
			for _, of := range all {
				asks++
				if evicting := e.isEvicting(of.preemptor.UID); evicting != (len(known.pods) > 0) {
					t.Fatalf("with %d victims left, isEvicting is %v", len(known.pods), evicting)
				}
			}
		}
	}
	if most := asks + pods*victims; known.asked > most {
		t.Errorf("the cache was asked %d times, not %d", known.asked, most)
	}
}
