// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// random draws decisions about few pods, nodes and profiles, so that they repeat.
type random struct {
	*rand.Rand
	pods []types.UID
}

func newRandom(t testing.TB, pods int) *random {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range pods {
		var k key
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		r.pods = append(r.pods, k.uid())
	}
	return r
}

func (r *random) decision() Decision {
	d := Decision{
		Pod: r.pods[r.IntN(len(r.pods))], Time: time.Unix(0, r.Int64()), Attempt: r.IntN(100),
		Profile: fmt.Sprintf("profile-%d", r.IntN(3)), Revision: fmt.Sprintf("revision-%d", r.IntN(5)),
		Snapshot: r.Uint64(), Class: cache.ClassID(r.Uint64()), Nodes: r.IntN(100), Result: Unschedulable,
		Nominated: r.IntN(2) == 0,
	}
	for i := range r.IntN(podgroup.MaxKeys + 1) {
		d.Domain = append(d.Domain, podgroup.DomainLabel{Key: fmt.Sprintf("key-%d", i), Value: fmt.Sprintf("value-%d", r.IntN(4))})
	}
	if r.IntN(3) > 0 {
		d.Node, d.Total, d.Tied, d.Result = fmt.Sprintf("node-%d", r.IntN(20)), r.Int64N(1000), 1+r.IntN(10), Binding
		d.Evaluated, d.Feasible = r.IntN(100), r.IntN(100)
	}
	return d
}

// TestLogEqualsAList does the same with the log and with a list of all decisions.
func TestLogEqualsAList(t *testing.T) {
	for range 50 {
		r := newRandom(t, 30)
		log := New(1 + r.IntN(70))
		var all []Decision
		var sampled []int // the decisions of which the log has the top nodes
		for range 300 {
			d := r.decision()
			number := log.Append(&d)
			d.Number = number
			if all = append(all, d); number != Number(len(all)) {
				t.Fatalf("the decision has number %d, want %d", number, len(all))
			}
			if r.IntN(8) == 0 {
				all[len(all)-1].Top = []fwk.NodePluginScores{{Name: d.Node, TotalScore: r.Int64()}}
				log.SetTop(number, all[len(all)-1].Top, d.Time, 0)
				sampled = append(sampled, len(all)-1)
				if most := len(log.samples); len(sampled) > most {
					all[sampled[0]].Top = nil
					sampled = sampled[1:]
				}
			}
			kept := all[max(0, len(all)-log.Size()):]
			if r.IntN(2) == 0 {
				i := r.IntN(len(all))
				result := Result(1 + r.IntN(5))
				log.Finish(all[i].Number, result)
				if len(all)-i <= log.Size() {
					all[i].Result = result
				}
			}
			checkLog(t, r, log, kept)
		}
		checkNames(t, log, all[max(0, len(all)-log.Size()):])
	}
}

// checkLog checks what the log returns against the decisions that it must have, oldest first.
func checkLog(t *testing.T, r *random, log *Log, kept []Decision) {
	t.Helper()
	pod := r.pods[r.IntN(len(r.pods))]
	got, ok := log.OfPod(pod)
	var want Decision
	for _, d := range kept {
		if d.Pod == pod {
			want = d
		}
	}
	if ok != (want.Number != 0) || !reflect.DeepEqual(got, want) {
		t.Fatalf("the latest decision for %s is %+v, %v, want %+v", pod, got, ok, want)
	}
	n := r.IntN(50)
	last := kept[max(0, len(kept)-n):]
	if got := log.Last(n); len(got) != len(last) || len(got) > 0 && !reflect.DeepEqual(got, last) {
		t.Fatalf("the last %d decisions are\n%+v, want\n%+v", n, got, last)
	}
}

// checkNames checks that the log keeps the names of the decisions that it has, and no others.
func checkNames(t *testing.T, log *Log, kept []Decision) {
	t.Helper()
	want := map[string]bool{}
	for _, d := range kept {
		want[d.Node], want[d.Profile], want[d.Revision] = true, true, true
		for _, label := range d.Domain {
			want[label.Key], want[label.Value] = true, true
		}
	}
	delete(want, "")
	if got := len(log.names.handles); got != len(want) {
		t.Errorf("the log keeps %d names, want %d", got, len(want))
	}
	if got := len(log.names.held) - len(log.names.free); got != len(want) {
		t.Errorf("%d handles are in use, want %d", got, len(want))
	}
}

func TestUIDsAreKept(t *testing.T) {
	const uid = "3c5f0e1a-92b7-4d6c-8a41-f0e9d8c7b6a5"
	log := New(1)
	log.Append(&Decision{Pod: uid})
	if d, ok := log.OfPod(uid); !ok || d.Pod != uid {
		t.Errorf("the UID is %s, want %s", d.Pod, uid)
	}
}

func TestUIDsOfOtherForms(t *testing.T) {
	log := New(10)
	for _, uid := range []types.UID{"", "uid-1", "0123456789ABCDEF0123456789ABCDEF0123", "00000000-0000-0000-0000-00000000000g", "------------------------------------"} {
		n := log.Append(&Decision{Pod: uid, Node: "node"})
		if d, ok := log.OfPod(uid); !ok || d.Number != n {
			t.Errorf("the decision for %q was not found", uid)
		}
	}
	if _, ok := log.OfPod("uid-2"); ok {
		t.Error("there is a decision for a pod without one")
	}
}

func TestALogThatIsOff(t *testing.T) {
	log := New(0)
	if n := log.Append(&Decision{Pod: "a"}); n != 0 {
		t.Errorf("a decision got number %d", n)
	}
	log.Finish(1, Bound)
	if _, ok := log.OfPod("a"); ok || log.Last(1) != nil || log.Size() != 0 {
		t.Error("there are decisions")
	}
}

func TestAnEmptyLogTakesNoMemory(t *testing.T) {
	log := New(DefaultSize)
	if _, ok := log.OfPod("a"); ok || len(log.Last(5)) != 0 || log.ring != nil {
		t.Error("the log is not empty")
	}
}

func TestADecisionTakesAsMuchMemoryAsStated(t *testing.T) {
	if got := unsafe.Sizeof(entry{}) + unsafe.Sizeof(Number(0)); got != BytesPerDecision {
		t.Errorf("a decision takes %d bytes, want %d", got, BytesPerDecision)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	r := newRandom(t, 30)
	log := New(64)
	decisions := make([]Decision, 64)
	for i := range decisions {
		decisions[i] = r.decision()
		log.Append(&decisions[i])
	}
	i := 0
	if allocs := testing.AllocsPerRun(1000, func() {
		i = (i + 1) % len(decisions)
		log.Finish(log.Append(&decisions[i]), Bound)
	}); allocs != 0 {
		t.Errorf("recording allocates %v times", allocs)
	}
}

// TestReadersBesideTheLoop is for the race detector, and checks that readers see whole decisions.
func TestReadersBesideTheLoop(t *testing.T) {
	const appends = 20000
	r := newRandom(t, 100)
	log := New(200)
	decisions := make([]Decision, 500)
	for i := range decisions {
		d := r.decision()
		d.Node = string(d.Pod) // so that readers can check that they belong together
		decisions[i] = d
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				last := log.Last(1 + i%300)
				for j, d := range last {
					if d.Node != string(d.Pod) || j > 0 && d.Number != last[j-1].Number+1 {
						t.Errorf("decision %d for %s has node %s", d.Number, d.Pod, d.Node)
						return
					}
				}
				if d, ok := log.OfPod(r.pods[i%len(r.pods)]); ok && d.Pod != r.pods[i%len(r.pods)] {
					t.Errorf("the decision for another pod: %v", d)
					return
				}
			}
		})
	}
	var binders sync.WaitGroup
	for i := range appends {
		n := log.Append(&decisions[i%len(decisions)])
		if i%10 == 0 {
			binders.Go(func() { log.Finish(n, Bound) })
		}
	}
	close(done)
	binders.Wait()
	readers.Wait()
}

func BenchmarkAppend(b *testing.B) {
	r := newRandom(b, 100000)
	log := New(DefaultSize)
	decisions := make([]Decision, len(r.pods))
	for i := range decisions {
		decisions[i] = r.decision()
		decisions[i].Pod = r.pods[i]
	}
	b.ReportAllocs()
	for i := range b.N {
		log.Finish(log.Append(&decisions[i%len(decisions)]), Bound)
	}
}

// BenchmarkLast reads the whole log.
func BenchmarkLast(b *testing.B) {
	r := newRandom(b, 1000)
	log := New(DefaultSize)
	for range DefaultSize {
		d := r.decision()
		log.Append(&d)
	}
	for range b.N {
		log.Last(DefaultSize)
	}
}
